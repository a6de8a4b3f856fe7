//! A set of the blocks of one chunk.

use alloc::boxed::Box;
use core::iter::once;

use super::CHUNK_BLOCKS;

const WORDS: usize = (CHUNK_BLOCKS / 64) as usize;

/// A set of the blocks of one chunk. Most files are small, and there are sets for each: the first
/// 64 blocks need no memory of their own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bits {
    first: u64,
    rest: Option<Box<[u64; WORDS - 1]>>,
}

impl Bits {
    fn words(&self) -> impl Iterator<Item = u64> {
        once(self.first).chain(self.rest.iter().flat_map(|rest| rest.iter().copied()))
    }

    fn word(&self, at: u64) -> u64 {
        match at / 64 {
            0 => self.first,
            word => self.rest.as_ref().map_or(0, |rest| rest[word as usize - 1]),
        }
    }

    fn word_mut(&mut self, at: u64) -> &mut u64 {
        match at / 64 {
            0 => &mut self.first,
            word => &mut self.rest.get_or_insert_default()[word as usize - 1],
        }
    }

    pub(crate) fn get(&self, at: u64) -> bool {
        self.word(at) >> (at % 64) & 1 == 1
    }

    pub(crate) fn set(&mut self, at: u64) {
        *self.word_mut(at) |= 1 << (at % 64);
    }

    pub(crate) fn clear(&mut self, at: u64) -> bool {
        let was = self.get(at);
        if was {
            *self.word_mut(at) &= !(1 << (at % 64));
        }
        was
    }

    pub(crate) fn add(&mut self, other: &Bits) {
        for (at, more) in (0..).step_by(64).zip(other.words()).filter(|&(_, more)| more != 0) {
            *self.word_mut(at) |= more;
        }
    }

    /// Those that are in the other set as well.
    pub(crate) fn among(mut self, other: &Bits) -> Bits {
        self.first &= other.first;
        for (word, at) in self.rest.iter_mut().flat_map(|rest| rest.iter_mut()).zip((64..).step_by(64)) {
            *word &= other.word(at);
        }
        self
    }

    /// Takes out those of another set.
    pub(crate) fn take_out(&mut self, other: &Bits) {
        for (at, less) in (0..).step_by(64).zip(other.words()).filter(|&(_, less)| less != 0) {
            *self.word_mut(at) &= !less;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words().all(|word| word == 0)
    }

    pub(crate) fn count(&self) -> u32 {
        self.words().map(u64::count_ones).sum()
    }

    /// The runs of set bits as `(first, length)`, from low to high.
    pub(crate) fn runs(self) -> impl Iterator<Item = (u64, u64)> {
        let mut at = 0;
        core::iter::from_fn(move || {
            while at < CHUNK_BLOCKS && !self.get(at) {
                // Skip empty words at once.
                at = if at % 64 == 0 && self.word(at) == 0 { at + 64 } else { at + 1 };
            }
            if at >= CHUNK_BLOCKS {
                return None;
            }
            let first = at;
            while at < CHUNK_BLOCKS && self.get(at) {
                at += 1;
            }
            Some((first, at - first))
        })
    }
}
