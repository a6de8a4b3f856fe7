//! A set of the blocks of one chunk.

use super::CHUNK_BLOCKS;

const WORDS: usize = (CHUNK_BLOCKS / 64) as usize;

/// A set of the blocks of one chunk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Bits([u64; WORDS]);

impl Bits {
    pub(super) fn get(&self, at: u64) -> bool {
        self.0[(at / 64) as usize] >> (at % 64) & 1 == 1
    }

    pub(super) fn set(&mut self, at: u64) {
        self.0[(at / 64) as usize] |= 1 << (at % 64);
    }

    pub(super) fn clear(&mut self, at: u64) -> bool {
        let was = self.get(at);
        self.0[(at / 64) as usize] &= !(1 << (at % 64));
        was
    }

    pub(super) fn add(&mut self, other: &Bits) {
        for (word, more) in self.0.iter_mut().zip(other.0) {
            *word |= more;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    pub(super) fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The runs of set bits as `(first, length)`, from low to high.
    pub(super) fn runs(self) -> impl Iterator<Item = (u64, u64)> {
        let mut at = 0;
        core::iter::from_fn(move || {
            while at < CHUNK_BLOCKS && !self.get(at) {
                // Skip empty words at once.
                at = if at % 64 == 0 && self.0[(at / 64) as usize] == 0 { at + 64 } else { at + 1 };
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
