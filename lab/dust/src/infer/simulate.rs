//! The same accesses under a hypothesis: a demand cache around any policy, as fast as the policy
//! allows.
//!
//! The loop is compiled for each policy apart. Nuisances cost nothing when they are zero.

use pantler_policy::{Demand, Handle, Offline, Online, Policy, Spec, Visitor};

use super::evidence::Visit;
use super::family::Family;
use super::random::Random;

/// What a real cache does besides its policy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nuisances {
    /// Blocks of others that are inserted, per access.
    pub foreign: f64,
    /// Blocks replaced at a time when the cache is full. At least 1.
    pub batch: u32,
    /// Blocks by which the cache may be too full before the evictor notices and brings it back to
    /// its size.
    pub late: u32,
    /// Newcomers are refused when the cache is full, and no block is replaced.
    pub refuses: bool,
}

impl Default for Nuisances {
    fn default() -> Self {
        Self { foreign: 0.0, batch: 1, late: 0, refuses: false }
    }
}

/// A simulation that goes on from where it is, as far as it is told: many of them can run side by
/// side.
pub trait Simulation {
    /// Whether each of the next accesses would be a hit, added to `hits`.
    fn go_on(&mut self, accesses: &[u32], hits: &mut [u16]);
}

/// An empty cache to which a visit is about to be made. `None` for policies that need to know the
/// future: they are no hypotheses.
pub fn begin(
    spec: Spec,
    frames: u32,
    nuisances: Nuisances,
    seed: u64,
    visit: &Visit,
) -> Option<Box<dyn Simulation>> {
    let foreign = (visit.accesses.len() as f64 * nuisances.foreign * 2.0) as u32 + 64;
    let foreign = if nuisances.foreign > 0.0 { foreign } else { 0 };
    let handles = visit.blocks + foreign;
    spec.with(
        frames.max(1),
        Begin {
            frames,
            nuisances,
            random: Random::new(seed),
            next: visit.blocks,
            handles,
            hash: hash(&spec, seed),
        },
    )
}

/// In how many of some simulations each access of a visit is a hit.
pub fn hits(visit: &Visit, simulations: impl IntoIterator<Item = Box<dyn Simulation>>) -> Vec<u16> {
    let mut hits = vec![0; visit.accesses.len()];
    simulations.into_iter().for_each(|mut simulation| simulation.go_on(&visit.accesses, &mut hits));
    hits
}

/// The hash of a policy that counts by one.
fn hash(spec: &Spec, seed: u64) -> Option<u64> {
    Family::of(spec).is_some_and(Family::hashes).then_some(seed)
}

/// What a cache calls a block when it counts; unknown outside.
pub fn identity(block: Handle, hash: u64) -> u32 {
    let mixed = (u64::from(block) ^ hash.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32
}

struct Begin {
    frames: u32,
    nuisances: Nuisances,
    random: Random,
    /// Handles for the blocks of others, from here on and up to there.
    next: Handle,
    handles: Handle,
    /// Seed of the hash under which blocks are counted, if they are.
    hash: Option<u64>,
}

impl Visitor for Begin {
    type Output = Option<Box<dyn Simulation>>;

    fn online<P: Online + 'static>(self, policy: P) -> Self::Output {
        let mut cache = Simulated::new(policy, self.frames, self.nuisances, self.handles);
        if let Some(hash) = self.hash {
            (0..self.handles).for_each(|handle| cache.identify(handle, identity(handle, hash)));
        }
        Some(Box::new(Running { cache, begun: self }))
    }

    fn offline(self, _: Offline) -> Self::Output {
        None
    }
}

struct Running<P> {
    cache: Simulated<P>,
    begun: Begin,
}

impl<P: Policy> Simulation for Running<P> {
    fn go_on(&mut self, accesses: &[u32], hits: &mut [u16]) {
        let Self { cache, begun: Begin { nuisances, random, next, handles, .. } } = self;
        if nuisances.foreign == 0.0 {
            for (&block, hits) in accesses.iter().zip(hits) {
                *hits += u16::from(cache.access(block));
            }
            return;
        }
        for (&block, hits) in accesses.iter().zip(hits) {
            if random.chance(nuisances.foreign) && *next < *handles {
                cache.access(*next);
                *next += 1;
            }
            *hits += u16::from(cache.access(block));
        }
    }
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

    /// See [`Policy::identify`].
    pub fn identify(&mut self, block: Handle, identity: u32) {
        self.cache.identify(block, identity);
    }

    /// Whether a block is there.
    pub fn holds(&self, block: Handle) -> bool {
        self.cache.holds(block)
    }
}

#[cfg(test)]
mod tests {
    use super::super::script::Script;
    use super::*;

    fn simulated(spec: &str, frames: u32, nuisances: Nuisances, accesses: &[u32]) -> Vec<u16> {
        let mut script = Script::cold("");
        script.scan(accesses.iter().copied());
        let visit = Visit::imagined(&script);
        hits(&visit, begin(spec.parse().expect("a policy"), frames, nuisances, 1, &visit))
    }

    #[test]
    fn known_policies_do_what_they_are_known_for() {
        let accesses = [0, 1, 2, 0, 3, 0, 1];
        assert_eq!(simulated("lru", 3, Nuisances::default(), &accesses), [0, 0, 0, 1, 0, 1, 0]);
        assert_eq!(simulated("fifo", 3, Nuisances::default(), &accesses), [0, 0, 0, 1, 0, 0, 0]);
    }

    #[test]
    fn batches_leave_together_and_late_evictors_let_the_cache_grow() {
        let accesses = [0, 1, 2, 3, 2, 1, 0];
        let batch = Nuisances { batch: 3, ..Nuisances::default() };
        assert_eq!(simulated("lru", 3, batch, &accesses), [0, 0, 0, 0, 0, 0, 0]);
        let refusing = Nuisances { refuses: true, ..Nuisances::default() };
        assert_eq!(simulated("fifo", 2, refusing, &accesses), [0, 0, 0, 0, 0, 1, 1]);
        let late = Nuisances { late: 1, ..Nuisances::default() };
        assert_eq!(simulated("lru", 3, late, &accesses), [0, 0, 0, 0, 1, 1, 1]);
    }

    #[test]
    fn foreign_blocks_push_out_ours() {
        let accesses: Vec<u32> = (0..8).cycle().take(800).collect();
        let all = simulated("lru", 8, Nuisances { foreign: 0.5, ..Nuisances::default() }, &accesses);
        assert!(all.iter().filter(|&&hit| hit == 1).count() < 100);
        assert_eq!(simulated("lru", 8, Nuisances::default(), &accesses)[8..], [1; 792]);
    }
}
