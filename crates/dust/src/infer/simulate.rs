//! The same accesses under a candidate: a demand cache around any policy, as fast as the policy allows.
//!
//! The loop is compiled for each policy apart. Nuisances cost nothing when they are zero.

use pantler_policy::{Handle, Links, Offline, Online, Policy, Spec, Visitor};

use super::random::Random;

/// What a real cache does besides its policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nuisances {
    /// Blocks of others that are inserted, per access.
    pub foreign: f64,
    /// Blocks replaced at a time: when the cache is full, so many leave at once. At least 1.
    pub batch: u32,
    /// Blocks by which the cache may be too full before the evictor notices and brings it back to its size.
    pub late: u32,
}

impl Default for Nuisances {
    fn default() -> Self {
        Self { foreign: 0.0, batch: 1, late: 0 }
    }
}

/// Whether each access would be a hit, added to `hits`.
pub fn simulate(
    spec: Spec,
    frames: u32,
    nuisances: Nuisances,
    seed: u64,
    visit: &super::evidence::Visit,
    hits: &mut [u16],
) {
    spec.with(
        frames.max(1),
        Run { accesses: &visit.accesses, blocks: visit.blocks, frames, nuisances, seed, hits },
    );
}

struct Run<'a> {
    accesses: &'a [u32],
    blocks: u32,
    frames: u32,
    nuisances: Nuisances,
    seed: u64,
    hits: &'a mut [u16],
}

impl Visitor for Run<'_> {
    type Output = ();

    fn online<P: Online>(self, policy: P) {
        let foreign = (self.accesses.len() as f64 * self.nuisances.foreign * 2.0) as u32 + 64;
        let foreign = if self.nuisances.foreign > 0.0 { foreign } else { 0 };
        let handles = self.blocks + foreign;
        let mut cache = Simulated::new(policy, self.frames, handles);
        cache.batch = self.nuisances.batch.clamp(1, self.frames.max(1));
        cache.late = self.nuisances.late;
        if foreign == 0 {
            for (&block, hits) in self.accesses.iter().zip(self.hits) {
                *hits += u16::from(cache.access(block));
            }
            return;
        }
        let (mut random, mut next) = (Random::new(self.seed), self.blocks);
        for (&block, hits) in self.accesses.iter().zip(self.hits) {
            if random.chance(self.nuisances.foreign) && next < handles {
                cache.access(next);
                next += 1;
            }
            *hits += u16::from(cache.access(block));
        }
    }

    /// Offline policies are no candidates: nothing hits.
    fn offline(self, _: Offline) {}
}

/// A demand cache of handles around one policy.
#[derive(Clone, Debug)]
pub struct Simulated<P> {
    policy: P,
    links: Links,
    resident: Vec<bool>,
    frames: u32,
    batch: u32,
    late: u32,
}

impl<P: Policy> Simulated<P> {
    /// An empty cache for handles below `handles`.
    pub fn new(mut policy: P, frames: u32, handles: u32) -> Self {
        policy.reserve(handles);
        let resident = vec![false; handles as usize];
        Self { policy, links: Links::new(handles), resident, frames: frames.max(1), batch: 1, late: 0 }
    }

    /// Reads a block, and says whether it was a hit.
    #[inline]
    pub fn access(&mut self, block: Handle) -> bool {
        if self.resident[block as usize] {
            self.policy.hit(&mut self.links, block);
            return true;
        }
        self.policy.miss(&mut self.links, block);
        if self.policy.len() >= self.frames + self.late {
            self.make_room();
        }
        self.policy.insert(&mut self.links, block);
        self.resident[block as usize] = true;
        false
    }

    fn make_room(&mut self) {
        let keep = self.frames - self.batch;
        while self.policy.len() > keep {
            match self.policy.evict(&mut self.links, &|_| false) {
                Some(victim) => self.resident[victim as usize] = false,
                None => return,
            }
        }
    }

    /// Whether a block is there.
    pub fn holds(&self, block: Handle) -> bool {
        self.resident.get(block as usize).copied().unwrap_or(false)
    }

    /// Makes room for handles below `handles`.
    pub fn grow(&mut self, handles: u32) {
        if handles as usize > self.resident.len() {
            self.links.grow(handles);
            self.policy.reserve(handles);
            self.resident.resize(handles as usize, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::evidence::Visit;
    use super::super::trace::Trace;
    use super::*;

    fn hits(spec: &str, frames: u32, nuisances: Nuisances, accesses: &[u32]) -> Vec<u16> {
        let mut trace = Trace::cold("");
        trace.scan(accesses.iter().copied());
        let visit = Visit::imagined(&trace);
        let mut hits = vec![0; accesses.len()];
        simulate(spec.parse().expect("a policy"), frames, nuisances, 1, &visit, &mut hits);
        hits
    }

    #[test]
    fn known_policies_do_what_they_are_known_for() {
        let accesses = [0, 1, 2, 0, 3, 0, 1];
        assert_eq!(hits("lru", 3, Nuisances::default(), &accesses), [0, 0, 0, 1, 0, 1, 0]);
        assert_eq!(hits("fifo", 3, Nuisances::default(), &accesses), [0, 0, 0, 1, 0, 0, 0]);
    }

    #[test]
    fn batches_leave_together_and_late_evictors_let_the_cache_grow() {
        let accesses = [0, 1, 2, 3, 2, 1, 0];
        let batch = Nuisances { batch: 3, ..Nuisances::default() };
        assert_eq!(hits("lru", 3, batch, &accesses), [0, 0, 0, 0, 0, 0, 0]);
        let late = Nuisances { late: 1, ..Nuisances::default() };
        assert_eq!(hits("lru", 3, late, &accesses), [0, 0, 0, 0, 1, 1, 1]);
    }

    #[test]
    fn foreign_blocks_push_out_ours() {
        let accesses: Vec<u32> = (0..8).cycle().take(800).collect();
        let all = hits("lru", 8, Nuisances { foreign: 0.5, ..Nuisances::default() }, &accesses);
        assert!(all.iter().filter(|&&hit| hit == 1).count() < 100);
        assert_eq!(hits("lru", 8, Nuisances::default(), &accesses)[8..], [1; 792]);
    }
}
