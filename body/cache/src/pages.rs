//! Blocks of a file and pages of a block: the unit in which memory is taken and bytes are fetched.

use std::ops::Range;

use derive_more::{BitAnd, BitOr, Not};
use pantler_steward::{Block, FileId};

/// A set of pages of one block, a bit for each.
#[derive(BitAnd, BitOr, Clone, Copy, Debug, Default, Not, PartialEq, Eq)]
pub(crate) struct Pages(u64);

impl Pages {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn range(range: Range<u32>) -> Self {
        let below = |page: u32| 1_u64.checked_shl(page).map_or(u64::MAX, |bit| bit - 1);
        Self(below(range.end) & !below(range.start))
    }

    pub(crate) fn count(self) -> u32 {
        self.0.count_ones()
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The first pages that lie side by side.
    pub(crate) fn first_run(self) -> Option<Range<u32>> {
        let start = self.0.trailing_zeros();
        let rest = self.0.checked_shr(start)?;
        Some(start..start + rest.trailing_ones())
    }
}

/// How files are cut into blocks, and blocks into pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    block_bytes: usize,
    page_bytes: usize,
}

impl Cut {
    /// Blocks of `block_bytes`, each of `block_pages`; both are powers of two.
    pub(crate) fn new(block_bytes: usize, block_pages: u32) -> Self {
        Self { block_bytes, page_bytes: block_bytes / block_pages as usize }
    }

    pub(crate) fn block_pages(self) -> u32 {
        (self.block_bytes / self.page_bytes) as u32
    }

    /// The block of a byte of a file, and where in the block the byte is.
    pub(crate) fn locate(self, file: FileId, offset: u64) -> (Block, usize) {
        let start = (offset & (self.block_bytes as u64 - 1)) as usize;
        (Block::new(file, offset >> self.block_bytes.trailing_zeros()), start)
    }

    /// Where in its file a block begins.
    pub(crate) fn offset(self, block: Block) -> u64 {
        block.index.saturating_mul(self.block_bytes as u64)
    }

    /// Bytes that a block has in a file of this size.
    pub(crate) fn extent(self, block: Block, size: u64) -> u32 {
        size.saturating_sub(self.offset(block)).min(self.block_bytes as u64) as u32
    }

    /// The pages of a file that have a byte in this range of it.
    pub(crate) fn pages_of_file(self, bytes: Range<u64>) -> Range<u64> {
        let page = self.page_bytes as u64;
        bytes.start / page..bytes.end.div_ceil(page)
    }

    /// Those of a block among pages of its file.
    pub(crate) fn pages_in(self, block: Block, pages: &Range<u64>) -> Pages {
        let first = block.index.saturating_mul(u64::from(self.block_pages()));
        let within = |page: u64| page.saturating_sub(first).min(u64::from(self.block_pages())) as u32;
        Pages::range(within(pages.start)..within(pages.end))
    }

    pub(crate) fn all(self) -> Pages {
        Pages::range(0..self.block_pages())
    }

    /// The pages that have a byte in this range of a block.
    pub(crate) fn touched(self, bytes: Range<usize>) -> Pages {
        if bytes.is_empty() {
            return Pages::NONE;
        }
        Pages::range((bytes.start / self.page_bytes) as u32..bytes.end.div_ceil(self.page_bytes) as u32)
    }

    /// The bytes of pages side by side.
    pub(crate) fn bytes(self, pages: &Range<u32>) -> Range<usize> {
        pages.start as usize * self.page_bytes..pages.end as usize * self.page_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_pages_are_ranges_and_what_is_left_of_them() {
        let cut = Cut::new(1 << 18, 64);
        assert_eq!(cut.all().count(), 64);
        assert_eq!(Pages::range(0..64) & !Pages::range(3..64), Pages::range(0..3));
        assert_eq!((Pages::range(2..5) | Pages::range(60..64)).first_run(), Some(2..5));
        assert_eq!(Pages::range(60..64).first_run(), Some(60..64));
        assert_eq!(Pages::NONE.first_run(), None);
        assert_eq!(cut.touched(4095..4097), Pages::range(0..2));
        assert_eq!(cut.touched(7..7), Pages::NONE);
        assert_eq!(cut.bytes(&(1..3)), 4096..12288);
    }
}
