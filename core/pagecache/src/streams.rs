//! The streams of reads that are going on: a thread reading a file.
//!
//! At most [`STREAMS_MAX`]; the oldest is forgotten, and begins anew when it goes on.

use alloc::vec::Vec;
use core::ops::Range;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::ledger::Span;
use crate::read_blocks::ReadBlocks;
use crate::window::Window;

/// Streams remembered at once.
pub const STREAMS_MAX: usize = 256;

/// Attempts at taking the readahead of one stream over. A program may close a file and open it
/// again meanwhile, and the new open file has a readahead of its own.
const ATTEMPTS: u8 = 16;
/// Blocks that a stream reads for one more attempt: what an attempt costs is little beside them.
const BLOCKS_OF_ATTEMPT: u64 = 1024;

/// What reads ahead for a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reader {
    /// The kernel, as always.
    #[default]
    Kernel,
    /// This body; the kernel's readahead is off for the open file.
    Body,
}

/// One thread reading one file.
#[derive(Debug, Clone, Default)]
pub struct Stream {
    /// The thread.
    pub tid: u32,
    /// The file's slot.
    pub file: u32,
    /// What to read ahead.
    pub window: Window,
    /// What reads ahead.
    pub reader: Reader,
    /// It used a mapping last, not a descriptor.
    pub is_mapped: bool,
    /// The blocks of large folios that were mapped last, of which the kernel told in part.
    pub mapped_whole: Range<u64>,
    /// What the kernel brought in for it last, in one piece.
    burst: Range<u64>,
    /// The same when we last looked whether the kernel goes on.
    burst_seen: u64,
    /// Attempts left at taking readahead over.
    pub attempts: u8,
    /// Blocks read since there was one more.
    blocks_read: u64,
    /// The block after those of its last read that the kernel has looked at.
    pub looked: u64,
    /// The block after its last read, as long as it was asked for.
    read_end: u64,
    /// Whether that read has only begun.
    is_new_read: bool,
    /// What the last event of a read named: blocks that are about to be copied.
    to_copy: Range<u64>,
    /// When that event came.
    read_ns: u64,
    /// Blocks that it has just asked the kernel to read, until it uses something of the file.
    pub asked: Range<u64>,
    /// What came for it since the kernel told of a read last.
    arrived: Range<u64>,
    /// What it has read to the end.
    blocks: ReadBlocks,
}

impl Stream {
    /// A read of these blocks begins, after the window was told.
    pub fn begin_read(&mut self, first: u64, last: u64) {
        self.blocks_read = self.blocks_read.saturating_add(last - first + 1);
        let more = self.blocks_read / BLOCKS_OF_ATTEMPT;
        self.blocks_read %= BLOCKS_OF_ATTEMPT;
        self.attempts = u64::from(self.attempts).saturating_add(more).min(ATTEMPTS.into()) as u8;
        let burst_end = self.burst_end();
        if burst_end > last + 1 && burst_end != self.burst_seen && self.attempts > 0 {
            // More was brought in than was asked for: the kernel reads ahead, still or again.
            self.burst_seen = burst_end;
            self.reader = Reader::Kernel;
        }
        (self.looked, self.read_end) = (first, last + 1);
        self.asked = 0..0;
        self.is_mapped = false;
        self.mapped_whole = 0..0;
        self.is_new_read = true;
    }

    /// The kernel looked at the blocks before `looked` of a read of `first` to `last`. Returns the
    /// blocks that were read to their end.
    pub fn look_until(&mut self, looked: u64, first: u64, last: u64, size: u64) -> Range<u64> {
        self.looked = looked;
        if core::mem::take(&mut self.is_new_read) {
            self.blocks.read(first, last, looked, size)
        } else {
            self.blocks.look(looked, size)
        }
    }

    /// The blocks that were read to their end since the last jump, now that the size is known.
    pub fn blocks_done(&self, size: u64) -> Range<u64> {
        self.blocks.so_far(size)
    }

    /// What no event has told of yet of its last read.
    pub fn not_looked_at(&self) -> Range<u64> {
        self.looked..self.read_end
    }

    /// An event of a read came: it has still to copy these blocks.
    pub fn will_copy(&mut self, first: u64, last: u64, time_ns: u64) {
        (self.to_copy, self.read_ns) = (first..last + 1, time_ns);
    }

    /// A folio came for it.
    pub fn arrives(&mut self, first: u64, last: u64) {
        let begin = if first == self.arrived.end { self.arrived.start } else { first };
        self.arrived = begin..last + 1;
    }

    /// Takes what came for it since the last call, in one piece.
    pub fn take_arrived(&mut self) -> Range<u64> {
        core::mem::take(&mut self.arrived)
    }

    /// Whether it has just asked for all of these blocks.
    pub fn has_asked_for(&self, first: u64, last: u64) -> bool {
        self.asked.contains(&first) && self.asked.contains(&last)
    }

    /// Takes note of a folio that the kernel brought in.
    pub fn brought(&mut self, first: u64, last: u64) {
        let begin = if first == self.burst.end { self.burst.start } else { first };
        self.burst = begin..last + 1;
    }

    /// Where the kernel's readahead ends, if it is about what the stream reads now; else where the
    /// reads end.
    pub fn burst_end(&self) -> u64 {
        let next = self.window.next();
        if self.burst.start <= next && next <= self.burst.end { self.burst.end } else { next }
    }
}

/// The table of streams.
#[derive(Debug, Default)]
pub struct Streams {
    table: Vec<Stream>,
    by_key: HashMap<(u32, u32), usize, FixedState>,
    oldest: usize,
    last: usize,
}

impl Streams {
    /// The stream of a thread and a file, new if need be.
    pub fn of(&mut self, tid: u32, file: u32) -> &mut Stream {
        let is_last =
            self.table.get(self.last).is_some_and(|stream| stream.tid == tid && stream.file == file);
        if !is_last {
            let known = self.by_key.get(&(tid, file)).copied();
            self.last = known.unwrap_or_else(|| self.begin(tid, file));
        }
        &mut self.table[self.last]
    }

    /// Blocks that reads were about to copy when their last event came, after `since_ns`, as far as
    /// they were asked for.
    pub fn in_use(&self, since_ns: u64) -> impl Iterator<Item = Span> {
        self.table.iter().filter(move |stream| stream.read_ns > since_ns).map(|stream| {
            let Range { start: first, end } = stream.to_copy;
            Span { file: stream.file, first, blocks: end - first }
        })
    }

    fn begin(&mut self, tid: u32, file: u32) -> usize {
        let stream = Stream { tid, file, attempts: ATTEMPTS, ..Stream::default() };
        let at = if self.table.len() < STREAMS_MAX {
            self.table.push(stream);
            self.table.len() - 1
        } else {
            let at = self.oldest;
            self.oldest = (self.oldest + 1) % STREAMS_MAX;
            self.by_key.remove(&(self.table[at].tid, self.table[at].file));
            self.table[at] = stream;
            at
        };
        self.by_key.insert((tid, file), at);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_elsewhere_says_nothing_about_this_place() {
        let mut streams = Streams::default();
        let stream = streams.of(1, 1);
        stream.brought(1000, 1003);
        stream.brought(1004, 1031);
        assert_eq!(stream.burst_end(), 0);
        stream.window.read(1000, 1001, crate::window::Bounds::default());
        assert_eq!(stream.burst_end(), 1032);
        stream.window.read(10, 11, crate::window::Bounds::default());
        assert_eq!(stream.burst_end(), 12);
    }

    #[test]
    fn what_is_read_pays_for_further_attempts() {
        let mut streams = Streams::default();
        let stream = streams.of(1, 1);
        stream.attempts = 0;
        (1..BLOCKS_OF_ATTEMPT).for_each(|block| stream.begin_read(block, block));
        assert_eq!(stream.attempts, 0);
        stream.begin_read(7, 7);
        assert_eq!(stream.attempts, 1);
        stream.begin_read(0, u64::MAX - 1);
        assert_eq!(stream.attempts, ATTEMPTS);
    }

    #[test]
    fn the_table_is_bounded_and_finds_its_streams() {
        let mut streams = Streams::default();
        for tid in 0..1000u32 {
            streams.of(tid, 7).looked = u64::from(tid);
        }
        assert_eq!(streams.table.len(), STREAMS_MAX);
        assert_eq!(streams.by_key.len(), STREAMS_MAX);
        assert_eq!(streams.of(999, 7).looked, 999);
        assert_eq!(streams.of(900, 7).looked, 900);
        assert_eq!(streams.of(1, 7).looked, 0, "forgotten");
    }
}
