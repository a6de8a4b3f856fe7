//! When a block of a file is done with: once all of its bytes have been read, or those up to the
//! end of the file.
//!
//! ```text
//!   blocks     |   0   |   1   |   2   |  3 end
//!   reads       [--a--][---b---]   [-----c----]
//!
//!   a, b read 0 and half of 1; c begins behind a gap: 3 only
//! ```
//!
//! N1  What is remembered is one block, and how far it was read from its start without a gap.

use core::ops::Range;

/// How far one reader has read the block of a file where it is.
///
/// ```
/// use pantler_pagecache::ReadThrough;
///
/// let mut reader = ReadThrough::default();
/// assert_eq!(reader.read(4096, 10_000, 0..1000), 0..0);
/// assert_eq!(reader.read(4096, 10_000, 1000..9000), 0..2);
/// assert_eq!(reader.read(4096, 10_000, 9000..10_000), 2..3);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadThrough {
    block: u64,
    /// The end of what was read of it from its start on.
    until: u64,
}

impl ReadThrough {
    /// These bytes of a file of `size` were read. Returns the blocks that were read to their end
    /// thereby; one that is read to its end again is among them again.
    pub fn read(&mut self, block_bytes: u64, size: u64, bytes: Range<u64>) -> Range<u64> {
        if bytes.is_empty() {
            return 0..0;
        }
        let (first, last) = (bytes.start / block_bytes, (bytes.end - 1) / block_bytes);
        let known = if self.block == first { self.until } else { first * block_bytes };
        let has_gap = bytes.start > known;
        if has_gap && first == last {
            // What was read of the block before counts on.
            *self = ReadThrough { block: first, until: known };
            return 0..0;
        }
        let until = if first == last { bytes.end.max(known) } else { bytes.end };
        *self = ReadThrough { block: last, until };
        let last_is_through = until >= size || until == (last + 1) * block_bytes;
        first + u64::from(has_gap)..last + u64::from(last_is_through)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        /// Against a reader that remembers every byte since it came to the block where it is.
        #[test]
        fn as_a_reader_that_remembers_every_byte(
            size in 1u64..60, reads in prop::collection::vec((0u64..60, 1u64..30), 1..40),
        ) {
            const BLOCK: u64 = 8;
            let mut reader = ReadThrough::default();
            let (mut here, mut known) = (0, Vec::new());
            for (start, count) in reads {
                let bytes = start.min(size - 1)..(start + count).min(size);
                if bytes.is_empty() {
                    continue;
                }
                let mut expected = Vec::new();
                for block in bytes.start / BLOCK..=(bytes.end - 1) / BLOCK {
                    let whole = block * BLOCK..((block + 1) * BLOCK).min(size);
                    if here != block {
                        (here, known) = (block, Vec::new());
                    }
                    let read_now = whole.start.max(bytes.start)..whole.end.min(bytes.end);
                    // Bytes behind a gap are not remembered: they are read again, or the block is
                    // not done with.
                    if read_now.start <= whole.start + known.len() as u64 {
                        let length = (read_now.end - whole.start).max(known.len() as u64);
                        known.resize(length as usize, ());
                    }
                    if known.len() as u64 == whole.end - whole.start {
                        expected.push(block);
                    }
                }
                let done = reader.read(BLOCK, size, bytes.clone());
                prop_assert_eq!(done.collect::<Vec<_>>(), expected, "{:?} of {}", bytes, size);
            }
        }
    }
}
