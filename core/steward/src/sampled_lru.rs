//! What LRU would have missed, estimated while references pass by: a small LRU over a sample of the
//! blocks.
//!
//! ```text
//!   blocks of a file    0 1 2 3 | 4 5 6 7 | 8 9 ...   groups of `one_in` blocks in a row
//!   in the sample           ^     ^             ^     one of each, chosen by the hash of the group
//! ```
//!
//! All references to a block of the sample count, or none; a cache that is scaled down by the same
//! rate sees a smaller copy of the same locality (SHARDS, Waldspurger et al. 2015). Unlike there,
//! one block of each group is chosen instead of each block for itself: of a file that is read as a
//! whole exactly the share of the rate is in the sample, which is most of what caches of files see.
//! The estimate is the misses of the sample times `one_in`, which is right on average whatever is
//! referenced; hot blocks, of which chance takes many or few, are hits and do not count.
//!
//! M1  Every cached block is of the sample.

use alloc::boxed::Box;
use core::hash::BuildHasher;

use foldhash::fast::FixedState;

use crate::{Allocation, Block, FileId, Limits, Options, OwnerId, Steward};

/// Frames of the scaled cache at most: this bounds memory, and with it the rate of sampling.
const SCALED_FRAMES_MAX: u32 = 512;

/// An LRU over a sample of the blocks.
///
/// ```
/// use pantler_steward::{Block, FileId, SampledLru};
///
/// let mut lru = SampledLru::new(100, 1);
/// for _round in 0..3 {
///     for index in 0..101 {
///         lru.reference(Block::new(FileId(7), index));
///     }
/// }
/// assert_eq!(lru.misses(), 303);
/// ```
#[derive(Clone, Debug)]
pub struct SampledLru {
    /// One block in 2 to this power is in the sample.
    shift: u32,
    hasher: FixedState,
    /// The group that was asked about last, and its block in the sample: most references go on in a
    /// group.
    last: (FileId, u64, u64),
    lru: Box<Steward>,
    references: u64,
}

impl SampledLru {
    /// An empty cache of `frames` frames. Which blocks are in the sample is drawn from `seed`.
    pub fn new(frames: u32, seed: u64) -> Self {
        let shift = frames.div_ceil(SCALED_FRAMES_MAX).next_power_of_two().trailing_zeros();
        let hasher = FixedState::with_seed(seed);
        let chosen = chosen(&hasher, FileId(0), 0, shift);
        let options = Options {
            allocation: Allocation::GlobalLru,
            limits: Limits { idle_files: 0, ..Limits::default() },
            seed,
            ..Options::new(scaled(frames, shift))
        };
        let lru = Box::new(Steward::new(options).expect("there is a frame at least"));
        Self { shift, hasher, last: (FileId(0), 0, chosen), lru, references: 0 }
    }

    /// A block is referenced.
    #[inline]
    pub fn reference(&mut self, block: Block) {
        self.references += 1;
        let group = block.index >> self.shift;
        if (self.last.0, self.last.1) != (block.file, group) {
            self.last = (block.file, group, chosen(&self.hasher, block.file, group, self.shift));
        }
        if self.last.2 == block.index {
            self.lru.observed(OwnerId(0), block);
            self.lru.ignore_actions();
        }
    }

    /// From now on the cache has `frames` frames. The rate of sampling stays, so memory is bounded
    /// by the most there were at first.
    pub fn set_frames(&mut self, frames: u32) {
        let frames = scaled(frames, self.shift).min(SCALED_FRAMES_MAX);
        self.lru.set_capacity(frames).expect("there is a frame at least");
        self.lru.ignore_actions();
    }

    /// References so far, of blocks in the sample and others.
    pub fn references(&self) -> u64 {
        self.references
    }

    /// The misses of a whole LRU of the same size, about.
    pub fn misses(&self) -> u64 {
        (self.lru.totals().misses << self.shift).min(self.references)
    }

    /// Of this many blocks one is in the sample; 1 means that nothing is estimated.
    pub fn one_in(&self) -> u32 {
        1 << self.shift
    }

    /// Recomputes what is known.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn validate(&self) {
        self.lru.validate();
        for file in self.lru.files() {
            for index in self.lru.cached(file.id) {
                let group = index >> self.shift;
                assert_eq!(index, chosen(&self.hasher, file.id, group, self.shift), "M1");
            }
        }
    }
}

/// The block of a group that is in the sample.
#[inline]
fn chosen(hasher: &FixedState, file: FileId, group: u64, shift: u32) -> u64 {
    (group << shift) + (hasher.hash_one((file.0, group)) & ((1 << shift) - 1))
}

fn scaled(frames: u32, shift: u32) -> u32 {
    ((frames + (1 << shift) / 2) >> shift).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use alloc::vec::Vec;

    use pantler_policy::Draws;

    /// As slow as obvious.
    fn whole(frames: usize, references: impl Iterator<Item = Block>) -> u64 {
        let (mut cached, mut misses) = (VecDeque::new(), 0);
        for block in references {
            match cached.iter().position(|other| *other == block) {
                Some(at) => drop(cached.remove(at)),
                None => misses += 1,
            }
            cached.push_back(block);
            if cached.len() > frames {
                cached.pop_front();
            }
        }
        misses
    }

    fn estimate(frames: u32, seed: u64, references: impl Iterator<Item = Block>) -> u64 {
        let mut lru = SampledLru::new(frames, seed);
        for block in references {
            lru.reference(block);
        }
        lru.validate();
        lru.misses()
    }

    #[test]
    fn a_small_cache_is_not_sampled_but_exact() {
        let mut draws = Draws::new(1);
        let mut draw = || Block::new(FileId(draws.below(4)), draws.below(97));
        let references: Vec<Block> = (0..20_000).map(|_| draw()).collect();
        for frames in [1, 2, 7, 100, 380] {
            let expected = whole(frames as usize, references.iter().copied());
            assert_eq!(estimate(frames, 3, references.iter().copied()), expected, "{frames}");
        }
    }

    #[test]
    fn whole_files_are_sampled_at_exactly_the_rate() {
        // A loop that just fits, and one that just does not: where LRU changes most.
        let frames = 64 * SCALED_FRAMES_MAX;
        let round = |blocks: u32| (0..u64::from(blocks)).map(|index| Block::new(FileId(5), index));
        let rounds = |blocks| (0..3).flat_map(move |_| round(blocks));
        assert_eq!(estimate(frames, 9, rounds(frames)), u64::from(frames));
        assert_eq!(estimate(frames, 9, rounds(frames + 64)), u64::from(frames + 64) * 3);
    }

    #[test]
    fn a_cache_that_shrinks_and_grows_keeps_what_was_used_last() {
        let mut lru = SampledLru::new(100, 0);
        let round = |lru: &mut SampledLru, blocks: core::ops::Range<u64>| {
            let before = lru.misses();
            blocks.for_each(|index| lru.reference(Block::new(FileId(1), index)));
            lru.validate();
            lru.misses() - before
        };
        assert_eq!(round(&mut lru, 0..100), 100);
        lru.set_frames(30);
        lru.validate();
        assert_eq!(round(&mut lru, 70..100), 0);
        lru.set_frames(50);
        assert_eq!(round(&mut lru, 50..70), 20);
        assert_eq!(round(&mut lru, 50..100), 0);
    }

    #[test]
    fn memory_is_bounded() {
        let mut lru = SampledLru::new(u32::MAX / 4, 0);
        for index in 0..10_000_000 {
            lru.reference(Block::new(FileId(index >> 12), index * 7));
        }
        lru.validate();
        assert!(lru.lru.used() <= SCALED_FRAMES_MAX);
    }
}
