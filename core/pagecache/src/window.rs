//! Reading ahead of one sequential stream: which blocks are wanted after this read. Pure.
//!
//! ```text
//!    read so far        asked for already          asked for now
//!   |--------------next|==================ahead|~~~~~~~~~~~~~~~~~next + window|
//! ```
//!
//! As the kernel's own readahead, but bounded per stream: it begins after a few sequential blocks,
//! and the window doubles up to its bound while the stream goes on. New blocks are asked for when
//! half of the window is used up, so that two requests are in flight.

use core::ops::Range;

use crate::options::BLOCK_BYTES;

/// Bounds of all windows, in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Sequential blocks before a stream is one.
    pub start: u64,
    /// First window.
    pub min: u64,
    /// Largest window.
    pub max: u64,
}

impl Bounds {
    /// 16 KiB to begin, windows from 128 KiB to 1 MiB. Of large blocks two begin a stream: one
    /// alone does not tell a sequence from a single read.
    pub fn of_blocks(block_bytes: u32) -> Bounds {
        let blocks = |bytes: u32| u64::from(bytes / block_bytes).max(2);
        Bounds { start: blocks(16 << 10), min: blocks(128 << 10), max: blocks(1 << 20) }
    }
}

impl Default for Bounds {
    /// Those of blocks of 4 KiB.
    fn default() -> Bounds {
        Bounds::of_blocks(BLOCK_BYTES)
    }
}

/// One stream of reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    next: u64,
    ahead: u64,
    sequential: u64,
    size: u64,
    last_read: (u64, u64),
    /// The first block of what was reported last.
    at: u64,
}

/// How many folios a single look at the page cache covers at least: a longer read is reported again
/// for its rest.
pub const BATCH: u64 = 15;

impl Window {
    /// Whether this report is the rest of the read reported before: the kernel looks at a long read
    /// in batches and reports all that is left each time. A batch ends before a block that is
    /// missing or on its way, so any of them may be short. The last block alone may be the next of
    /// many small reads. The same blocks again are another read.
    pub fn takes_rest(&mut self, first: u64, last: u64) -> bool {
        let (begun, end) = self.last_read;
        let is_part = self.at < first && last == end && self.sequential > 0;
        let is_rest = is_part && (first < last || end - begun >= BATCH);
        if is_rest {
            self.at = first;
        }
        is_rest
    }

    /// Whether these blocks are among those of the read that was taken last.
    pub fn was_read(&self, first: u64, last: u64) -> bool {
        self.sequential > 0 && self.last_read.0 <= first && last <= self.last_read.1
    }

    /// Takes a read of these blocks (inclusive) and answers what to ask for now; empty for nothing.
    pub fn read(&mut self, first: u64, last: u64, bounds: Bounds) -> Range<u64> {
        let blocks = last - first + 1;
        // A read may begin in the block where the one before ended, or skip a block at most.
        let follows = first + 1 >= self.next && first <= self.next + 1 && self.sequential > 0;
        (self.last_read, self.at) = ((first, last), first);
        if follows || first == 0 && self.sequential == 0 {
            self.sequential = self.sequential.saturating_add(blocks);
        } else {
            *self = Window { sequential: blocks.min(bounds.start - 1), size: 0, ahead: 0, ..*self };
        }
        self.next = last + 1;
        if self.sequential < bounds.start {
            return 0..0;
        }
        self.ahead = self.ahead.max(self.next);
        if self.size != 0 && self.ahead - self.next > self.size / 2 {
            return 0..0;
        }
        self.size = if self.size == 0 { bounds.min } else { (self.size * 2).min(bounds.max) };
        let from = self.ahead;
        self.ahead = (self.next + self.size).max(from);
        from..self.ahead
    }

    /// How many blocks were read in sequence.
    pub fn sequential(&self) -> u64 {
        self.sequential
    }

    /// Blocks before `end` were asked for elsewhere.
    pub fn asked_until(&mut self, end: u64) {
        self.ahead = self.ahead.max(end);
    }

    /// What was asked for and was not read yet.
    pub fn wanted(&self) -> Range<u64> {
        self.next..self.ahead.max(self.next)
    }

    /// The block after the last one read.
    pub fn next(&self) -> u64 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { start: 4, min: 8, max: 32 };

    #[test]
    fn bounds_are_the_same_bytes_for_all_blocks() {
        assert_eq!(Bounds::default(), Bounds { start: 4, min: 32, max: 256 });
        assert_eq!(Bounds::of_blocks(16 << 10), Bounds { start: 2, min: 8, max: 64 });
        assert_eq!(Bounds::of_blocks(64 << 10), Bounds { start: 2, min: 2, max: 16 });
    }

    #[test]
    fn a_scan_is_asked_for_once_and_in_order() {
        let mut window = Window::default();
        let mut asked = 0;
        for first in (0..1000).step_by(2) {
            let range = window.read(first, first + 1, BOUNDS);
            if !range.is_empty() {
                assert!(asked == 0 || range.start == asked, "no gap and no overlap");
                asked = range.end;
            }
            assert!(asked <= first + 2 + BOUNDS.max, "bounded");
            assert!(first < 4 || asked > first + 2, "always ahead");
        }
    }

    #[test]
    fn a_part_of_the_last_read_is_known() {
        let mut window = Window::default();
        assert!(!window.was_read(0, 0));
        window.read(16, 31, BOUNDS);
        assert!(window.was_read(16, 31) && window.was_read(20, 20));
        assert!(!window.was_read(15, 20) && !window.was_read(31, 32));
    }

    #[test]
    fn random_reads_ask_for_nothing() {
        let mut window = Window::default();
        for index in [900, 3, 77, 500, 12, 600] {
            assert!(window.read(index, index + 1, BOUNDS).is_empty());
        }
    }

    #[test]
    fn a_jump_begins_anew() {
        let mut window = Window::default();
        for first in (0..64).step_by(2) {
            window.read(first, first + 1, BOUNDS);
        }
        assert_eq!(window.sequential(), 64);
        assert!(window.read(500, 501, BOUNDS).is_empty());
        assert_eq!(window.sequential(), 2);
        assert_eq!(window.read(502, 503, BOUNDS), 504..512);
    }

    #[test]
    fn the_rest_of_a_long_read_is_not_a_read() {
        let mut window = Window::default();
        window.read(0, 255, BOUNDS);
        assert!(window.takes_rest(4, 255) && window.takes_rest(31, 255) && window.takes_rest(248, 255));
        assert!(!window.takes_rest(248, 255), "the same again");
        assert!(!window.takes_rest(256, 300) && !window.takes_rest(0, 255));
        window.read(256, 263, BOUNDS);
        assert!(window.takes_rest(258, 263) && !window.takes_rest(263, 263));
        assert!(!window.takes_rest(258, 263));
    }

    #[test]
    fn one_long_read_is_a_stream() {
        let mut window = Window::default();
        assert_eq!(window.read(0, 255, BOUNDS), 256..264);
    }
}
