//! How often a handle was referenced of late, approximately: a count-min sketch of 4-bit counters
//! that ages.
//!
//! ```text
//!   handle -> hash -> 64 bytes:  [w0 w1] [w2 w3] [w4 w5] [w6 w7]   a counter in each pair of words
//! ```
//!
//! A handle has four counters in one block, thus in one cache line; its frequency is the smallest
//! of them. After `sample` increments all counters are halved, so that what was popular once is not
//! for ever.
//!
//! R1  Counters are 0 to 15.
//! R2  Between halvings, a frequency is at least the smaller of 15 and the references since.
//!
//! Paper: Einziger, Friedman and Manes, TinyLFU: A Highly Efficient Cache Admission Policy, ACM TOS
//! 13(4), 2017. Differences: one block per handle, as in a blocked Bloom filter; no doorkeeper in
//! front.

use alloc::vec;
use alloc::vec::Vec;

use crate::Handle;
use crate::draws::split_mix;
use crate::prefetch::prefetch;

/// Counters of one handle.
const ROWS: u32 = 4;

/// A cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Block {
    /// Sixteen counters each.
    words: [u64; 8],
}

/// A count-min sketch that ages.
#[derive(Clone, Debug)]
pub struct Sketch {
    blocks: Vec<Block>,
    /// Increments since the last halving, half of those before it included.
    increments: u64,
    sample: u64,
}

impl Sketch {
    /// For a cache of `frames` frames: sixteen counters each. Ages after `sample` increments.
    pub fn new(frames: u32, sample: u64) -> Self {
        // A block has eight words; one word for each frame.
        let blocks = (u64::from(frames.max(1)).next_power_of_two() / 8).max(1) as usize;
        Self { blocks: vec![Block::default(); blocks], increments: 0, sample: sample.max(1) }
    }

    /// Frames that the sketch has counters for.
    pub fn frames(&self) -> u64 {
        self.blocks.len() as u64 * 8
    }

    /// Changes when it ages.
    pub fn set_sample(&mut self, sample: u64) {
        self.sample = sample.max(1);
    }

    #[inline]
    fn hash(handle: Handle) -> u64 {
        // Spreads consecutive handles over blocks and counters alike.
        split_mix(&mut u64::from(handle))
    }

    #[inline]
    fn block(&self, hash: u64) -> usize {
        // The number of blocks is a power of two.
        (hash >> 32) as usize & (self.blocks.len() - 1)
    }

    /// Word and shift of the counter in a row.
    #[inline]
    fn place(hash: u64, row: u32) -> (usize, u32) {
        let bits = (hash >> (8 * row)) as u32;
        let word = 2 * row + (bits & 1);
        (word as usize & 7, (bits >> 1 & 15) * 4)
    }

    /// Counts a reference.
    #[inline]
    pub fn increment(&mut self, handle: Handle) {
        let hash = Self::hash(handle);
        let block = self.block(hash);
        let words = &mut self.blocks[block].words;
        let mut added = 0;
        for row in 0..ROWS {
            let (word, shift) = Self::place(hash, row);
            let free = u64::from(words[word] >> shift & 15 != 15);
            words[word] += free << shift;
            added |= free;
        }
        self.increments += added;
        if self.increments >= self.sample {
            self.halve();
        }
    }

    /// References of late, 0 to 15.
    #[inline]
    pub fn frequency(&self, handle: Handle) -> u8 {
        let hash = Self::hash(handle);
        let words = &self.blocks[self.block(hash)].words;
        let count = |row| {
            let (word, shift) = Self::place(hash, row);
            (words[word] >> shift & 15) as u8
        };
        count(0).min(count(1)).min(count(2)).min(count(3))
    }

    /// Brings the counters of a handle nearer.
    #[inline]
    pub fn prefetch(&self, handle: Handle) {
        prefetch(&self.blocks, self.block(Self::hash(handle)));
    }

    #[cold]
    fn halve(&mut self) {
        for word in self.blocks.iter_mut().flat_map(|block| &mut block.words) {
            *word = *word >> 1 & 0x7777_7777_7777_7777;
        }
        self.increments /= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Draws;

    /// R2 against plain counts, until the sketch ages.
    #[test]
    fn never_below_the_truth() {
        let mut sketch = Sketch::new(64, u64::MAX);
        let mut truth = vec![0u8; 500];
        let mut draws = Draws::new(1);
        for _ in 0..3000 {
            let handle = (draws.below(500) * draws.below(2)) as u32;
            sketch.increment(handle);
            truth[handle as usize] = truth[handle as usize].saturating_add(1);
        }
        for (handle, &count) in (0..).zip(&truth) {
            assert!(sketch.frequency(handle) >= count.min(15), "R2: {handle}");
        }
    }

    #[test]
    fn few_handles_are_counted_exactly_and_age() {
        let mut sketch = Sketch::new(4096, 40);
        for handle in 0..5 {
            (0..7).for_each(|_| sketch.increment(handle));
        }
        assert!((0..5).all(|handle| sketch.frequency(handle) == 7));
        (0..4).for_each(|_| sketch.increment(9));
        assert_eq!((sketch.frequency(0), sketch.frequency(9)), (7, 4));
        sketch.increment(9);
        assert_eq!((sketch.frequency(0), sketch.frequency(9)), (3, 2));
    }

    #[test]
    fn counters_saturate() {
        let mut sketch = Sketch::new(1, u64::MAX);
        (0..40).for_each(|_| sketch.increment(3));
        assert_eq!(sketch.frequency(3), 15);
    }
}
