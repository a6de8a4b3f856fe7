//! Where references come in order (rules V6, V7 and V9).
//!
//! T1  At most [`HEADS`] streams are known; the one that moved least lately is forgotten first.
//! T2  `heads` is in the order in which they moved.

use alloc::collections::VecDeque;
use core::ops::Range;

use crate::{Block, FileId};

/// Streams that are known at a time.
const HEADS: usize = 64;

/// References in order before anything is looked ahead.
const RUN: u32 = 3;

/// Blocks looked ahead then; as many again with every further reference.
const REACH: u32 = 2;

/// Most streams with blocks that a manager passes over.
const HELD: u64 = 16;

/// What a reference asks for, in pages of its file.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Those of its block; all that exist of it, or fewer.
    pub(crate) pages: Range<u64>,
    /// Whether it asks for the whole block.
    pub(crate) is_whole: bool,
    /// Pages from here on do not exist; 0 where nothing is to be looked ahead.
    pub(crate) end: u64,
    /// Of a part of a block, once [looked for](Streams::find): the stream with which it goes on.
    pub(crate) head: Option<usize>,
}

impl Asked {
    /// What a request for `pages` asks of a block of `size`. The first page of a block is never
    /// behind the end of its file, whatever the caller believes: it is referenced.
    #[inline]
    pub(crate) fn new(block: Block, size: u32, pages: &Range<u64>, end: u64) -> Self {
        let whole = block.extent(size, end);
        let whole = whole.start..whole.end.max(whole.start.saturating_add(1));
        let start = pages.start.clamp(whole.start, whole.end - 1);
        let asked = start..pages.end.clamp(start + 1, whole.end.max(start + 1));
        Self { is_whole: asked == whole, pages: asked, end, head: None }
    }
}

/// The last reference of a stream.
#[derive(Clone, Debug)]
struct Head {
    file: FileId,
    pages: Range<u64>,
    /// References in order so far; a file's whole first block counts as a run.
    run: u32,
    /// When it moved.
    moved: u64,
}

impl Head {
    /// Whether a reference goes on where this one ended, or reads something of it again.
    fn reaches(&self, file: FileId, pages: &Range<u64>) -> bool {
        // From start to end by one comparison; it seldom holds, and is the first.
        let Range { start, end } = self.pages;
        pages.start.wrapping_sub(start) <= end.wrapping_sub(start) && self.file == file
    }

    /// References in order with this one.
    fn run_with(&self, pages: &Range<u64>) -> u32 {
        self.run.saturating_add(u32::from(pages.end > self.pages.end))
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    heads: VecDeque<Head>,
    now: u64,
}

impl Streams {
    /// The stream with which a reference to `pages` goes on: of several, the one that moved last.
    #[inline]
    pub(crate) fn find(&self, file: FileId, pages: &Range<u64>) -> Option<usize> {
        self.heads.iter().rposition(|head| head.reaches(file, pages))
    }

    /// A reference to `asked` of `file`. Says how many blocks after it may be looked ahead.
    pub(crate) fn reach(&mut self, file: FileId, asked: &Asked) -> u32 {
        self.now += 1;
        let (moved, mut pages) = (self.now, asked.pages.clone());
        let head = if asked.is_whole { self.find(file, &pages) } else { asked.head };
        let run = match head.and_then(|head| self.heads.remove(head)) {
            Some(head) => {
                let run = head.run_with(&pages);
                pages.end = pages.end.max(head.pages.end);
                run
            }
            None if pages.start == 0 && asked.is_whole => RUN,
            None => 1,
        };
        if self.heads.len() == HEADS {
            self.heads.pop_front();
        }
        self.heads.push_back(Head { file, pages, run, moved });
        match run.checked_sub(RUN) {
            Some(further) => REACH.saturating_mul(1 << further.min(16)),
            None => 0,
        }
    }

    /// Whether a reference to `asked` goes on with a stream for the third time, so that more of its
    /// block is worth a fetch (V10).
    #[inline]
    pub(crate) fn runs_into(&self, asked: &Asked) -> bool {
        asked.head.is_some_and(|head| self.heads[head].run_with(&asked.pages) >= RUN)
    }

    /// Whether a reference to `asked` goes on in the block, of `size`, in which the last one of a
    /// stream ended (V11).
    #[inline]
    pub(crate) fn goes_on_in(&self, block: Block, asked: &Asked, size: u32) -> bool {
        let index = |head: &Head| head.pages.end.saturating_sub(1) / u64::from(size);
        let goes_on = |head: &Head| head.reaches(block.file, &asked.pages) && index(head) == block.index;
        asked.head.is_some_and(|last| self.heads.range(..=last).rev().any(goes_on))
    }

    /// Whether a stream that moved lately stands at `block`, of `pages` (V9). Few are believed to
    /// in a cache of few frames.
    pub(crate) fn stands_at(&self, block: Block, pages: u32, frames: u32) -> bool {
        let since = self.now.saturating_sub(HELD.min(u64::from(frames / 8)));
        let index = |head: &Head| head.pages.end.saturating_sub(1) / u64::from(pages);
        let stands = |head: &Head| head.file == block.file && index(head) == block.index;
        self.heads.iter().rev().take_while(|head| head.moved > since).any(stands)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// A reference to a block of one page.
    fn reach(streams: &mut Streams, file: u64, index: u64) -> u32 {
        let asked = Asked { pages: index..index + 1, is_whole: true, end: u64::MAX, head: None };
        streams.reach(FileId(file), &asked)
    }

    #[test]
    fn a_stream_reaches_twice_as_far_with_every_step() {
        let mut streams = Streams::default();
        let reaches: Vec<u32> = (5..11).map(|index| reach(&mut streams, 0, index)).collect();
        assert_eq!(reaches, [0, 0, 2, 4, 8, 16]);
        assert_eq!(reach(&mut streams, 0, 10), 16, "the same block again is no step");
        assert_eq!(reach(&mut streams, 1, 0), 2, "a file is read from its start");
        assert_eq!(reach(&mut streams, 0, 50), 0);
        assert_eq!(reach(&mut streams, 0, 11), 32, "streams are told apart");
    }

    #[test]
    fn parts_of_a_block_are_a_stream_once_they_came_in_order_three_times() {
        let mut streams = Streams::default();
        let mut runs_into = |pages: Range<u64>| {
            let head = streams.find(FileId(0), &pages);
            let asked = Asked { pages, is_whole: false, end: u64::MAX, head };
            let runs = streams.runs_into(&asked);
            streams.reach(FileId(0), &asked);
            runs
        };
        assert!(!runs_into(0..2), "the first page of a file is often all that is read");
        assert!(!runs_into(9..10), "another place");
        assert!(!runs_into(2..4));
        assert!(!runs_into(3..4), "the same again");
        assert!(runs_into(3..5), "requests need not begin where a page does");
        assert!(!runs_into(12..13));
    }
}
