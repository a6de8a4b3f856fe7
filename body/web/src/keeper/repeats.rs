//! Requests for pieces that are all kept: after the first ones the steward is not told again until
//! a block leaves. Pure.
//!
//! Where all files are in memory, the server serves the same pieces over and over. Telling the
//! steward would cost 256 calls for each megabyte. The policy then counts [`EXACT`] uses of a piece
//! between two misses, and no more.
//!
//! R1  All blocks of every extent here are held by the steward.

use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::ops::Range;

/// Uses of one extent that the steward is told.
const EXACT: u32 = 3;
/// Most extents: past that all are told anew.
const EXTENTS_MAX: usize = 4096;

/// File, first block, one past the last block.
type Extent = (u64, u64, u64);

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    told: HashMap<Extent, u32, FixedState>,
}

impl Repeats {
    /// Whether exactly this extent is here.
    pub(super) fn has(&self, file: u64, blocks: &Range<u64>) -> bool {
        self.told.contains_key(&(file, blocks.start, blocks.end))
    }

    /// Whether the steward is to be told of one more use.
    pub(super) fn must_tell(&self, file: u64, blocks: &Range<u64>) -> bool {
        self.told.get(&(file, blocks.start, blocks.end)).is_none_or(|count| *count < EXACT)
    }

    /// The steward was told, and held all of the extent (R1).
    pub(super) fn add(&mut self, file: u64, blocks: &Range<u64>) {
        if self.told.len() >= EXTENTS_MAX {
            self.told.clear();
        }
        *self.told.entry((file, blocks.start, blocks.end)).or_default() += 1;
    }

    /// A block left, or came.
    pub(super) fn clear(&mut self) {
        self.told.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_uses_are_told_between_two_misses() {
        let mut repeats = Repeats::default();
        for _ in 0..2 {
            for _ in 0..EXACT {
                assert!(repeats.must_tell(1, &(0..2)));
                repeats.add(1, &(0..2));
            }
            assert!(!repeats.must_tell(1, &(0..2)) && repeats.has(1, &(0..2)));
            assert!(repeats.must_tell(1, &(0..3)) && !repeats.has(2, &(0..2)), "another extent");
            repeats.clear();
        }
    }

    #[test]
    fn extents_are_bounded() {
        let mut repeats = Repeats::default();
        (0..3 * EXTENTS_MAX as u64).for_each(|file| repeats.add(file, &(0..1)));
        assert!(repeats.told.len() <= EXTENTS_MAX);
    }
}
