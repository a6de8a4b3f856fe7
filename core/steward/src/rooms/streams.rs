//! Where references come in order (rules V6, V7 and V9).
//!
//! T1  At most [`HEADS`] streams are known; the one that moved least lately is forgotten first.

use alloc::vec::Vec;

use crate::{Block, FileId};

/// Streams that are known at a time.
const HEADS: usize = 64;

/// References in order before anything is looked ahead.
const RUN: u32 = 3;

/// Blocks looked ahead then; as many again with every further reference.
const REACH: u32 = 2;

/// Streams whose blocks a manager passes over, at most.
const HELD: u64 = 16;

/// The last reference of a stream.
#[derive(Clone, Copy, Debug)]
struct Head {
    file: FileId,
    index: u64,
    /// References in order so far; a file's first block counts as a run.
    run: u32,
    /// When it moved.
    moved: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    heads: Vec<Head>,
    now: u64,
}

impl Streams {
    /// A reference to `block`. Says how many blocks after it may be looked ahead.
    pub(crate) fn reach(&mut self, block: Block) -> u32 {
        self.now += 1;
        let now = self.now;
        let goes_on = |head: &&mut Head| {
            head.file == block.file
                && (head.index == block.index || head.index.checked_add(1) == Some(block.index))
        };
        let run = match self.heads.iter_mut().filter(goes_on).max_by_key(|head| head.moved) {
            Some(head) => {
                head.run = head.run.saturating_add(u32::from(head.index != block.index));
                (head.index, head.moved) = (block.index, now);
                head.run
            }
            None => {
                let run = if block.index == 0 { RUN } else { 1 };
                let head = Head { file: block.file, index: block.index, run, moved: now };
                let is_full = self.heads.len() == HEADS;
                match self.heads.iter_mut().min_by_key(|head| head.moved).filter(|_| is_full) {
                    Some(oldest) => *oldest = head,
                    None => self.heads.push(head),
                }
                run
            }
        };
        match run.checked_sub(RUN) {
            Some(further) => REACH.saturating_mul(1 << further.min(16)),
            None => 0,
        }
    }

    /// Whether a stream that moved lately stands at `block` (V9). Few are believed to in a cache of
    /// few frames.
    pub(crate) fn stands_at(&self, block: Block, frames: u32) -> bool {
        let since = self.now.saturating_sub(HELD.min(u64::from(frames / 8)));
        let stands = |head: &Head| head.moved > since && (head.index, head.file) == (block.index, block.file);
        self.heads.iter().any(stands)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(file: u64, index: u64) -> Block {
        Block::new(FileId(file), index)
    }

    #[test]
    fn a_stream_reaches_twice_as_far_with_every_step() {
        let mut streams = Streams::default();
        let reaches: Vec<u32> = (5..11).map(|index| streams.reach(block(0, index))).collect();
        assert_eq!(reaches, [0, 0, 2, 4, 8, 16]);
        assert_eq!(streams.reach(block(0, 10)), 16, "the same block again is no step");
        assert_eq!(streams.reach(block(1, 0)), 2, "a file is read from its start");
        assert_eq!(streams.reach(block(0, 50)), 0);
        assert_eq!(streams.reach(block(0, 11)), 32, "streams are told apart");
    }

    #[test]
    fn more_streams_than_are_known_are_forgotten_the_stillest_first() {
        let mut streams = Streams::default();
        for file in 0..=HEADS as u64 {
            streams.reach(block(file, 0));
        }
        assert_eq!(streams.heads.len(), HEADS, "T1");
        assert_eq!(streams.reach(block(0, 1)), 0, "forgotten");
        assert_eq!(streams.reach(block(HEADS as u64, 1)), 4);
    }
}
