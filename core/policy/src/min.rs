//! MIN, Belady's offline optimum: replace the block with the furthest next reference.
//!
//! ```text
//!   now                                 times of next references
//!    |   .  .  *  .  *  .  .  .  .  *  .  .  .     * : a block in the cache, named by that time
//!                                   ^ victim       [x y z] : never referenced again, leave first
//! ```
//!
//! No online policy misses less, so its row stands beside every measured one. A demand cache brings
//! in each block that it misses; *with bypass* a block stays outside if its next reference is later
//! than those of all in the cache.
//!
//! Blocks without a next reference are all equally far; among them any choice gives the same count.
//!
//! M1  The set of times and the stack together hold one entry for each block in the cache: at most
//!     `frames`.
//! M2  All times in the set lie in the future.
//!
//! No parameters. No differences, but that bypass is not in the paper: it is for caches that need
//! not bring blocks in. Source: L. A. Belady, A study of replacement algorithms for a
//! virtual-storage computer, IBM Systems Journal 5(2), 1966.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use crate::Numbers;

/// The next use of a block that is not referenced again.
pub const NEVER: u32 = u32::MAX;

/// A cache that knows the future. Blocks have no names here: a request is told by its index in the
/// trace.
///
/// ```
/// use pantler_policy::min::{Min, NEVER, Reference};
///
/// // The trace x y z x with two frames: each request with the index of the next to the same block.
/// let mut min = Min::new(2, 4, false);
/// assert_eq!(min.reference(0, 3), Reference::Miss { victim: None });
/// assert_eq!(min.reference(1, NEVER), Reference::Miss { victim: None });
/// // y was last referenced by request 1, and makes room for z.
/// assert_eq!(min.reference(2, NEVER), Reference::Miss { victim: Some(1) });
/// assert_eq!(min.reference(3, NEVER), Reference::Hit);
/// ```
#[derive(Clone, Debug)]
pub struct Min {
    /// When the blocks in the cache will be referenced next.
    times: Numbers,
    /// Last references of blocks in the cache that will not be referenced again.
    never: Vec<u32>,
    frames: u32,
    len: u32,
    bypass: bool,
}

/// What a reference did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The block was there.
    Hit,
    /// The block was brought in.
    Miss {
        /// The block that left for it, as the index of a request for it: its next, or its last
        /// where there is no next.
        victim: Option<u32>,
    },
    /// The block was not there, and stays outside.
    Bypass,
}

impl Min {
    /// An empty cache of `frames` frames for a trace of `requests` requests.
    pub fn new(frames: u32, requests: u32, bypass: bool) -> Self {
        let never = Vec::with_capacity(frames.min(requests) as usize);
        Self { times: Numbers::new(requests as usize), never, frames, len: 0, bypass }
    }

    /// The request with index `now` is for a block that is requested next at index `next`, or
    /// [`NEVER`]. Requests are told in order, and `next` is later than `now`.
    #[inline]
    pub fn reference(&mut self, now: u32, next: u32) -> Reference {
        debug_assert!(next > now, "M2: request {now} names {next} as the next");
        let hit = self.times.remove(now);
        let mut victim = None;
        if !hit {
            if self.len < self.frames {
                self.len += 1;
            } else {
                if self.frames == 0 || self.bypass && next >= self.furthest() {
                    return Reference::Bypass;
                }
                victim = self.evict();
            }
        }
        if next == NEVER {
            self.never.push(now);
        } else {
            self.times.insert(next);
        }
        if hit { Reference::Hit } else { Reference::Miss { victim } }
    }

    /// Says that [`reference`](Self::reference) will soon be told of `next`.
    #[inline]
    pub fn prefetch(&self, next: u32) {
        self.times.prefetch(next);
    }

    /// Blocks in the cache.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether nothing is in the cache.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn furthest(&self) -> u32 {
        if self.never.is_empty() { self.times.last().unwrap_or(NEVER) } else { NEVER }
    }

    #[inline]
    fn evict(&mut self) -> Option<u32> {
        if let Some(victim) = self.never.pop() {
            return Some(victim);
        }
        let victim = self.times.last()?;
        self.times.remove(victim);
        Some(victim)
    }

    /// Checks M1 and the set of times, and panics with the number of what fails.
    pub fn validate(&self) {
        let count = self.times.validate() + self.never.len();
        assert_eq!(count, self.len as usize, "M1: times and blocks without a next reference");
        assert!(self.len <= self.frames, "M1: {} blocks in {} frames", self.len, self.frames);
    }
}

/// Misses of MIN on `references` with `capacity` frames. With no frames every reference misses.
///
/// ```
/// use pantler_policy::min::misses;
/// // A cyclic scan of three blocks with two frames: LRU misses every time, MIN every second time.
/// assert_eq!(misses(&[1, 2, 3, 1, 2, 3, 1, 2, 3], 2), 6);
/// ```
pub fn misses(references: &[u64], capacity: usize) -> u64 {
    misses_of(references, capacity, false)
}

/// Misses of MIN with bypass: never more than [`misses`].
pub fn misses_with_bypass(references: &[u64], capacity: usize) -> u64 {
    misses_of(references, capacity, true)
}

fn misses_of(references: &[u64], capacity: usize, bypass: bool) -> u64 {
    let frames = u32::try_from(capacity).unwrap_or(u32::MAX);
    let requests = u32::try_from(references.len()).expect("a trace in memory is shorter than 2^32 requests");
    let mut min = Min::new(frames, requests, bypass);
    let next_uses = (0..).zip(next_uses(references));
    let hits = next_uses.filter(|&(now, next)| {
        let next = next.map_or(NEVER, |next| next as u32);
        min.reference(now, next) == Reference::Hit
    });
    references.len() as u64 - hits.count() as u64
}

/// For each reference, the index of the next reference to the same block.
pub fn next_uses(references: &[u64]) -> Vec<Option<usize>> {
    let mut next_use = vec![None; references.len()];
    let mut seen = BTreeMap::new();
    for (index, block) in references.iter().enumerate().rev() {
        next_use[index] = seen.insert(*block, index);
    }
    next_use
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tries every choice of victim, and with bypass, staying outside.
    fn fewest_misses(references: &[u64], capacity: usize, bypass: bool, cached: &mut Vec<u64>) -> u64 {
        let Some((&block, rest)) = references.split_first() else { return 0 };
        if cached.contains(&block) {
            return fewest_misses(rest, capacity, bypass, cached);
        }
        if cached.len() < capacity {
            cached.push(block);
            let misses = 1 + fewest_misses(rest, capacity, bypass, cached);
            cached.pop();
            return misses;
        }
        let mut fewest = u64::MAX;
        if bypass || capacity == 0 {
            fewest = 1 + fewest_misses(rest, capacity, bypass, cached);
        }
        for index in 0..cached.len() {
            let mut cached = cached.clone();
            cached[index] = block;
            fewest = fewest.min(1 + fewest_misses(rest, capacity, bypass, &mut cached));
        }
        fewest
    }

    /// Traces of four blocks, the first of which appear in order: others differ in names alone.
    fn each_trace(length: usize, trace: &mut Vec<u64>, visit: &mut dyn FnMut(&[u64])) {
        visit(trace);
        if trace.len() < length {
            let new = trace.iter().max().map_or(0, |max| max + 1).min(3);
            for block in 0..=new {
                trace.push(block);
                each_trace(length, trace, visit);
                trace.pop();
            }
        }
    }

    #[test]
    fn equals_brute_force_on_all_small_traces() {
        each_trace(8, &mut Vec::new(), &mut |trace| {
            for capacity in 0..=3 {
                let brute = |bypass| fewest_misses(trace, capacity, bypass, &mut Vec::new());
                assert_eq!(misses(trace, capacity), brute(false), "{trace:?} with {capacity} frames");
                assert_eq!(misses_with_bypass(trace, capacity), brute(true), "{trace:?}, {capacity}, bypass");
            }
        });
    }

    #[test]
    fn victims_are_blocks_of_the_cache() {
        each_trace(7, &mut Vec::new(), &mut |trace| {
            for (frames, bypass) in [(1, false), (2, false), (2, true)] {
                let mut min = Min::new(frames, trace.len() as u32, bypass);
                let mut cached: Vec<u64> = Vec::new();
                for (now, next) in next_uses(trace).into_iter().enumerate() {
                    let next = next.map_or(NEVER, |next| next as u32);
                    let block = trace[now];
                    match min.reference(now as u32, next) {
                        Reference::Hit => assert!(cached.contains(&block)),
                        Reference::Bypass => assert!(bypass && !cached.contains(&block)),
                        Reference::Miss { victim } => {
                            if let Some(victim) = victim {
                                let at = cached.iter().position(|block| *block == trace[victim as usize]);
                                cached.remove(at.expect("the victim is cached"));
                            }
                            cached.push(block);
                        }
                    }
                    min.validate();
                    assert_eq!(min.len() as usize, cached.len());
                }
            }
        });
    }
}
