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
//! M1  Every resident block is in the index and on the list; there are at most `frames` of them.
//! M2  Every resident block is of the sample.

use alloc::vec::Vec;
use core::hash::BuildHasher;

use foldhash::fast::FixedState;
use pantler_policy::{Links, List};

use crate::index::BlockIndex;
use crate::{Block, FileId, Names};

/// Frames of the scaled cache at most: this bounds memory (48 bytes each), and with it the rate of
/// sampling.
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
    frames: u32,
    hasher: FixedState,
    /// The group that was asked about last, and its block in the sample: most references go on in a
    /// group.
    last: (FileId, u64, u64),
    index: BlockIndex,
    /// The block of each handle.
    blocks: Vec<Block>,
    /// Handles of no block.
    free: Vec<u32>,
    links: Links,
    /// Least recently used first.
    recency: List,
    references: u64,
    sampled_misses: u64,
}

impl SampledLru {
    /// An empty cache of `frames` frames. Which blocks are in the sample is drawn from `seed`.
    pub fn new(frames: u32, seed: u64) -> Self {
        let shift = frames.div_ceil(SCALED_FRAMES_MAX).next_power_of_two().trailing_zeros();
        let hasher = FixedState::with_seed(seed);
        let chosen = chosen(&hasher, FileId(0), 0, shift);
        Self {
            shift,
            frames: scaled(frames, shift),
            hasher,
            last: (FileId(0), 0, chosen),
            index: BlockIndex::new(Names::Any, seed),
            blocks: Vec::new(),
            free: Vec::new(),
            links: Links::default(),
            recency: List::default(),
            references: 0,
            sampled_misses: 0,
        }
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
            self.reference_sampled(block);
        }
    }

    fn reference_sampled(&mut self, block: Block) {
        let blocks = &self.blocks;
        if let Some(handle) = self.index.find(block, |handle| blocks[handle as usize] == block) {
            self.recency.move_to_back(&mut self.links, handle);
            return;
        }
        self.sampled_misses += 1;
        let handle = if self.recency.len() < self.frames { self.new_handle(block) } else { self.evict() };
        self.blocks[handle as usize] = block;
        self.index.insert(block, handle);
        self.recency.push_back(&mut self.links, handle);
    }

    /// From now on the cache has `frames` frames. The rate of sampling stays, so memory is bounded
    /// by the most there were at first.
    pub fn set_frames(&mut self, frames: u32) {
        self.frames = scaled(frames, self.shift).min(SCALED_FRAMES_MAX);
        while self.recency.len() > self.frames {
            let handle = self.evict();
            self.free.push(handle);
        }
    }

    fn new_handle(&mut self, block: Block) -> u32 {
        if let Some(handle) = self.free.pop() {
            return handle;
        }
        let handle = self.blocks.len() as u32;
        self.blocks.push(block);
        self.links.grow(handle + 1);
        handle
    }

    fn evict(&mut self) -> u32 {
        let handle =
            self.recency.take_first(&mut self.links, &|_| false).expect("M1: a full cache has blocks");
        self.index.remove(self.blocks[handle as usize], handle);
        handle
    }

    /// References so far, of blocks in the sample and others.
    pub fn references(&self) -> u64 {
        self.references
    }

    /// The misses of a whole LRU of the same size, about.
    pub fn misses(&self) -> u64 {
        (self.sampled_misses << self.shift).min(self.references)
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
        assert!(self.recency.len() <= self.frames, "M1: more blocks than frames");
        let handles = self.blocks.len() - self.free.len();
        assert_eq!(self.recency.len() as usize, handles, "M1: a handle is not on the list");
        assert_eq!(self.recency.len(), self.index.len(), "M1: list and index differ");
        self.index.validate(|handle| self.blocks[handle as usize]);
        self.recency.validate(&self.links);
        for handle in self.recency.iter(&self.links) {
            let block = self.blocks[handle as usize];
            let group = block.index >> self.shift;
            assert_eq!(block.index, chosen(&self.hasher, block.file, group, self.shift), "M2");
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
        let mut state = 1_u64;
        let references: Vec<Block> = (0..20_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                Block::new(FileId(state >> 62), (state >> 33) % 97)
            })
            .collect();
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
        assert!(lru.blocks.len() <= SCALED_FRAMES_MAX as usize);
    }
}
