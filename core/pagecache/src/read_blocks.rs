//! Which blocks a thread has read to their end, as far as events tell: they name blocks, and no
//! bytes.
//!
//! A read that begins in the block where the one before ended, or in the next, goes on where that
//! one stopped. After a jump it begins somewhere in its first block, unless that is the first of
//! the file; it ends somewhere in its last, unless that is the last of the file. So a block after a
//! jump is taken for read in part, and a reader that skips the rest of every block for one that
//! reads all of it.
//!
//! Positions are in halves of blocks: the odd one is somewhere in a block.

use core::ops::Range;

use crate::read_through::ReadThrough;

/// One thread that reads one file.
#[derive(Debug, Clone, Default)]
pub struct ReadBlocks {
    through: ReadThrough,
    position: u64,
    /// The first block that it read to its end since it jumped last.
    from: u64,
    /// The block after those of its read that were looked at.
    looked: u64,
    /// The last block of its read, once there was one.
    last: Option<u64>,
}

/// In place of a size that is not known: reads end before it.
const UNKNOWN: u64 = u64::MAX / 4;

impl ReadBlocks {
    /// A read of these blocks (inclusive) began, of which the kernel has looked at those before
    /// `looked`. The file has `size` blocks; 0 if that is not known yet. Returns the blocks that it
    /// has read to their end.
    pub fn read(&mut self, first: u64, last: u64, looked: u64, size: u64) -> Range<u64> {
        let goes_on = self.last.is_some_and(|before| first == before || first == before + 1);
        (self.position, self.from) = match first {
            0 => (0, 0),
            _ if goes_on => (self.position, self.from),
            _ => (2 * first + 1, first + 1),
        };
        self.last = Some(last);
        self.look(looked, size)
    }

    /// The kernel went on with that read, to the blocks before `looked`.
    pub fn look(&mut self, looked: u64, size: u64) -> Range<u64> {
        let size = if size == 0 { UNKNOWN } else { size };
        let reaches_end = looked >= size;
        let reaches_last = self.last.is_some_and(|last| looked > last);
        let position = match (reaches_end, reaches_last) {
            (true, _) => 2 * size,
            (false, true) => 2 * looked - 1,
            (false, false) => 2 * looked,
        };
        let read = self.position..position;
        self.looked = looked;
        self.position = self.position.max(position);
        self.through.read(2, 2 * size, read)
    }

    /// The blocks that it has read to their end since it jumped last, now that the size is known.
    pub fn so_far(&self, size: u64) -> Range<u64> {
        let end = if self.looked >= size { size } else { self.position / 2 };
        self.from..end.max(self.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    /// What the reads of these bytes make of a file, told in events, and in bytes as a mount sees
    /// them.
    fn both(size: u64, reads: &[Range<u64>]) -> (Vec<u64>, Vec<u64>) {
        let (mut events, mut bytes) = (ReadBlocks::default(), ReadThrough::default());
        let (mut by_events, mut by_bytes) = (Vec::new(), Vec::new());
        for read in reads.iter().filter(|read| read.start < size).cloned() {
            let blocks = size.div_ceil(4096);
            let (first, last) = (read.start / 4096, (read.end - 1) / 4096);
            by_events.extend(events.read(first, last, (last + 1).min(blocks), blocks));
            by_bytes.extend(bytes.read(4096, size, read.start..read.end.min(size)));
        }
        for list in [&mut by_events, &mut by_bytes] {
            list.sort_unstable();
            list.dedup();
        }
        (by_events, by_bytes)
    }

    fn in_steps(bytes: Range<u64>, step: u64) -> Vec<Range<u64>> {
        bytes.step_by(step as usize).map(|at| at..at + step).collect()
    }

    #[test]
    fn a_jump_marks_nothing_that_was_passed_over() {
        let (events, bytes) = both(400 * 4096, &[0..100, 4096 * 300 + 100..4096 * 302 + 100]);
        assert_eq!((&events, &bytes), (&vec![301], &vec![301]));
        // The first reads of a thread that came later.
        let (events, bytes) = both(400 * 4096, &[4096 * 50 + 1..4096 * 50 + 2, 4096 * 20 + 1..4096 * 20 + 2]);
        assert!(events.is_empty() && bytes.is_empty());
    }

    #[test]
    fn whole_files_are_done_with_to_their_end() {
        for size in [1_u64, 4096, 5000, 40_960, 100_001] {
            let all: Vec<u64> = (0..size.div_ceil(4096)).collect();
            for step in [1000, 4096, 10_240, 131_072, 1 << 20] {
                let (events, bytes) = both(size, &in_steps(0..size, step));
                assert_eq!((&events, &bytes), (&all, &all), "{size} in steps of {step}");
            }
        }
    }

    #[test]
    fn a_long_read_is_followed_as_the_kernel_goes_on() {
        let mut reader = ReadBlocks::default();
        assert_eq!(reader.read(0, 255, 32, 1000), 0..32);
        assert_eq!(reader.look(64, 1000), 32..64);
        assert_eq!(reader.look(256, 1000), 64..255);
        assert_eq!(reader.read(256, 257, 258, 1000), 255..257);
    }

    #[test]
    fn what_was_read_before_the_size_was_known_is_told_then() {
        let mut reader = ReadBlocks::default();
        assert_eq!(reader.read(0, 31, 2, 0), 0..2);
        assert_eq!((reader.so_far(2), reader.so_far(9)), (0..2, 0..2));
        reader.read(7, 7, 8, 0);
        assert_eq!((reader.so_far(8), reader.so_far(9)), (8..8, 8..8), "somewhere in 7");
    }

    proptest! {
        /// Events tell less than bytes, so fewer blocks may be done with; never one that was not
        /// read to its end, of readers that begin each read where they are, or elsewhere behind it
        /// with a block between.
        #[test]
        fn no_block_is_done_with_that_was_not_read(
            size in 1u64..200_000, steps in prop::collection::vec((0u64..3, 1u64..30_000), 1..40),
        ) {
            let (mut at, mut reads) = (0, Vec::new());
            for (jump, count) in steps {
                at += jump * 8192;
                // Reads that stop within the last block are taken to reach its end.
                let end = if (at + count) / 4096 >= (size - 1) / 4096 { size.max(at + count) } else { at + count };
                reads.push(at..end);
                at = end;
            }
            let (events, bytes) = both(size, &reads);
            prop_assert!(events.iter().all(|block| bytes.contains(block)), "{:?} beyond {:?}", events, bytes);
        }
    }
}
