//! The same accesses under a candidate: a demand cache around any policy, as fast as the policy allows.
//!
//! The loop is compiled for each policy apart. Nuisances cost nothing when they are zero.

use pantler_policy::{Demand, Handle, Offline, Online, Policy, Spec, Visitor};

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
    /// Newcomers are refused when the cache is full, and nobody is replaced.
    pub refuses: bool,
}

impl Default for Nuisances {
    fn default() -> Self {
        Self { foreign: 0.0, batch: 1, late: 0, refuses: false }
    }
}

/// Looks at what a simulation predicts while it runs, and ends it as soon as it is hopeless.
#[derive(Clone, Debug)]
pub struct Judge<'a> {
    /// Log probability of each observation if the access was a hit, and if it was a miss.
    pub logs: &'a [(f32, f32)],
    /// Sum of the log probabilities so far. It only falls.
    pub sum: f64,
    /// The simulation ends when the sum is below this.
    pub floor: f64,
}

/// Accesses between two looks of a judge.
const JUDGED: usize = 128;

impl Judge<'_> {
    /// Whether to go on after the accesses from `from` on, whose hits are given.
    fn goes_on(&mut self, from: usize, hits: &[u16]) -> bool {
        let log = |(&hits, log): (&u16, &(f32, f32))| f64::from(if hits == 0 { log.1 } else { log.0 });
        self.sum += hits.iter().zip(&self.logs[from..]).map(log).sum::<f64>();
        self.sum >= self.floor
    }
}

/// Whether each access would be a hit, added to `hits`. A judge needs `hits` to be zero before.
pub fn simulate(
    spec: Spec,
    frames: u32,
    nuisances: Nuisances,
    seed: u64,
    visit: &super::evidence::Visit,
    hits: &mut [u16],
    judge: Option<&mut Judge<'_>>,
) {
    let (accesses, blocks) = (visit.accesses.as_slice(), visit.blocks);
    spec.with(frames.max(1), Run { accesses, blocks, frames, nuisances, seed, hits, judge });
}

struct Run<'a, 'j> {
    accesses: &'a [u32],
    blocks: u32,
    frames: u32,
    nuisances: Nuisances,
    seed: u64,
    hits: &'a mut [u16],
    judge: Option<&'a mut Judge<'j>>,
}

impl Visitor for Run<'_, '_> {
    type Output = ();

    fn online<P: Online>(mut self, policy: P) {
        let foreign = (self.accesses.len() as f64 * self.nuisances.foreign * 2.0) as u32 + 64;
        let foreign = if self.nuisances.foreign > 0.0 { foreign } else { 0 };
        let handles = self.blocks + foreign;
        let mut cache = Simulated::new(policy, self.frames, self.nuisances, handles);
        let (mut random, mut next) = (Random::new(self.seed), self.blocks);
        for (from, accesses) in (0..).step_by(JUDGED).zip(self.accesses.chunks(JUDGED)) {
            let hits = &mut self.hits[from..from + accesses.len()];
            if foreign == 0 {
                for (&block, hits) in accesses.iter().zip(&mut *hits) {
                    *hits += u16::from(cache.access(block));
                }
            } else {
                for (&block, hits) in accesses.iter().zip(&mut *hits) {
                    if random.chance(self.nuisances.foreign) && next < handles {
                        cache.access(next);
                        next += 1;
                    }
                    *hits += u16::from(cache.access(block));
                }
            }
            if self.judge.as_mut().is_some_and(|judge| !judge.goes_on(from, hits)) {
                return;
            }
        }
    }

    /// Offline policies are no candidates: nothing hits.
    fn offline(self, _: Offline) {}
}

/// A demand cache of handles around one policy, with what a real evictor does besides.
#[derive(Clone, Debug)]
pub struct Simulated<P> {
    cache: Demand<P>,
    /// Blocks from which on room is made, and blocks that are left then.
    full: u32,
    keep: u32,
    refuses: bool,
}

impl<P: Policy> Simulated<P> {
    /// An empty cache for handles below `handles`.
    pub fn new(policy: P, frames: u32, nuisances: Nuisances, handles: u32) -> Self {
        let frames = frames.max(1);
        let mut cache = Demand::new(policy, frames);
        cache.reserve(handles);
        let (full, keep) = (frames + nuisances.late, frames - nuisances.batch.clamp(1, frames));
        Self { cache, full, keep, refuses: nuisances.refuses }
    }

    /// Reads a block, and says whether it was a hit.
    #[inline]
    pub fn access(&mut self, block: Handle) -> bool {
        let (full, keep) = (self.full, self.keep);
        if self.refuses && self.cache.len() >= full && !self.cache.holds(block) {
            return false;
        }
        self.cache.reference_making_room(block, |cache| {
            if cache.len() >= full {
                while cache.len() > keep && cache.evict().is_some() {}
            }
        })
    }

    /// Whether a block is there.
    pub fn holds(&self, block: Handle) -> bool {
        self.cache.holds(block)
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
        simulate(spec.parse().expect("a policy"), frames, nuisances, 1, &visit, &mut hits, None);
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
        let refusing = Nuisances { refuses: true, ..Nuisances::default() };
        assert_eq!(hits("fifo", 2, refusing, &accesses), [0, 0, 0, 0, 0, 1, 1]);
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
