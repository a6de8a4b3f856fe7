//! How blocks with numbers for names ([`Names::Numbers`](crate::Names::Numbers)) are found: in a
//! row of a table.
//!
//! N1  Row `index` has the number that stands for the block of that index, or `NONE`; `len` counts
//!     those that have one.

use alloc::vec::Vec;

use pantler_policy::NONE;
use pantler_policy::prefetch::prefetch;

use crate::Block;

/// Finds numbers by the blocks that they stand for. As long as the highest index that was ever
/// added.
#[derive(Clone, Debug, Default)]
pub(crate) struct NumberedIndex {
    rows: Vec<u32>,
    len: u32,
}

impl NumberedIndex {
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(super) fn find(&self, block: Block, is: impl Fn(u32) -> bool) -> Option<u32> {
        let value = *self.rows.get(block.index as usize)?;
        if value == NONE {
            return None;
        }
        debug_assert!(is(value), "N1: {block} is another block by its number");
        Some(value)
    }

    #[inline]
    pub(super) fn prefetch(&self, block: Block) {
        prefetch(&self.rows, block.index as usize);
    }

    #[inline]
    pub(super) fn insert(&mut self, block: Block, value: u32) {
        let row = block.index as usize;
        if row >= self.rows.len() {
            self.rows.resize((row + 1).next_power_of_two(), NONE);
        }
        debug_assert!(self.rows[row] == NONE, "N1: {block} is there already");
        self.rows[row] = value;
        self.len += 1;
    }

    #[inline]
    pub(super) fn remove(&mut self, block: Block, value: u32) {
        let row = &mut self.rows[block.index as usize];
        assert!(*row == value, "N1: {block} is not found");
        *row = NONE;
        self.len -= 1;
    }

    /// Checks N1, given the block that each number stands for.
    pub(super) fn validate(&self, block_of: impl Fn(u32) -> Block) {
        let used = (0..).zip(&self.rows).filter(|(_, value)| **value != NONE);
        assert_eq!(used.clone().count(), self.len as usize, "N1: rows in use");
        for (index, &value) in used {
            assert_eq!(block_of(value).index, index, "N1: row {index} has another block");
        }
    }
}
