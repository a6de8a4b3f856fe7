//! What lookahead knows: where references come in order, what it may fetch, and what came of it.

use core::ops::Range;

use super::credit::Credit;
use super::streams::{Asked, Streams};
use crate::entry::{Brought, Entries, Room};
use crate::lists::Prefetched;
use crate::{Block, Lookahead, Options};

#[derive(Clone, Debug)]
pub(crate) struct LookaheadState {
    kind: Lookahead,
    is_on: bool,
    /// Blocks looked ahead at a time, at most.
    window: u32,
    frames: u32,
    block_pages: u32,
    /// V12.
    start_pages: u32,
    /// Kept for `streams`, and of reads of less than a block.
    streams: Streams,
    /// V8: of `streams` alone.
    credit: Option<Credit>,
    looked: Prefetched,
}

impl LookaheadState {
    pub(crate) fn new(options: &Options) -> Self {
        let credit = (options.lookahead == Lookahead::Streams).then(|| Credit::new(options.frames()));
        let mut state = Self {
            kind: options.lookahead,
            is_on: false,
            window: 0,
            frames: 0,
            block_pages: options.block_pages,
            start_pages: options.start_pages,
            streams: Streams::default(),
            credit,
            looked: Prefetched::default(),
        };
        state.resize(options);
        state
    }

    /// The cache has another capacity.
    pub(crate) fn resize(&mut self, options: &Options) {
        self.is_on = self.kind != Lookahead::None && options.capacity >= 2 * self.block_pages;
        self.frames = options.frames();
        self.window = options.window.clamp(1, self.frames.max(2) - 1);
        if let Some(credit) = &mut self.credit {
            credit.set_frames(self.frames);
        }
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether what is looked ahead takes frames of other blocks.
    pub(crate) fn takes_frames(&self) -> bool {
        !self.kind.has_waiting_room()
    }

    pub(crate) fn looked(&self) -> Prefetched {
        self.looked
    }

    /// What a request for `pages` asks for of `block`, and of less than all of it which stream goes
    /// on.
    #[inline]
    pub(crate) fn asked(&self, block: Block, pages: &Range<u64>, end: u64) -> Asked {
        let mut asked = Asked::new(block, self.block_pages, pages, end);
        if !asked.is_whole {
            asked.head = self.streams.find(block.file, &asked.pages);
        }
        asked
    }

    /// V10: what to fetch of `block`, in pages of its file: those that are asked for, and where a
    ///     stream goes on, those after them.
    /// V12: At the start of a file at least the first pages, as far as it has them, where no page
    ///      of the block `is_here`.
    #[inline]
    pub(crate) fn part(&self, block: Block, asked: &Asked, is_here: bool) -> Range<u64> {
        let Range { start, end } = asked.pages;
        let least = if start == 0 && !is_here { u64::from(self.start_pages) } else { 0 };
        let runs_into = self.streams.runs_into(asked);
        if least <= end && !runs_into {
            return start..end;
        }
        let extent = block.extent(self.block_pages, asked.end).end;
        start..if runs_into { extent } else { least.min(extent).max(end) }
    }

    /// V11: whether a reference is the same use of its block as the one before.
    #[inline]
    pub(crate) fn goes_on_in(&self, block: Block, asked: &Asked) -> bool {
        self.streams.goes_on_in(block, asked, self.block_pages)
    }

    /// V9: whether a manager is to pass over `block`.
    pub(crate) fn stands_at(&self, block: Block) -> bool {
        self.streams.stands_at(block, self.block_pages, self.frames)
    }

    /// V10: after a read of less than a block its stream moves, if looking ahead did not move it.
    pub(crate) fn reach_part(&mut self, block: Block, asked: &Asked) {
        let moved = self.is_on && self.kind == Lookahead::Streams;
        if !moved && !asked.is_whole {
            self.streams.reach(block.file, asked);
        }
    }

    /// Whether i−1 weighs and was referenced; `false` where no rule asks.
    pub(crate) fn follows(&self, block: Block, entries: &Entries) -> bool {
        if !matches!(self.kind, Lookahead::Obl2 | Lookahead::SaW2r) {
            return false;
        }
        let previous = block.index.checked_sub(1).and_then(|index| entries.find(Block { index, ..block }));
        previous.is_some_and(|frame| {
            let entry = &entries[frame];
            entry.room == Room::Weighing && entry.brought != Brought::Lookahead
        })
    }

    /// Whether i+1 waits; `false` where no rule asks.
    pub(crate) fn next_waits(&self, block: Block, entries: &Entries) -> bool {
        let next = block.after(1).filter(|_| self.kind.adjusts_waiting_room());
        next.and_then(|next| entries.find(next)).is_some_and(|frame| entries[frame].room == Room::Waiting)
    }

    /// W4, V7: how many blocks after `block` may be looked ahead, after a reference to it that
    /// [follows](Self::follows) or not.
    pub(crate) fn window(&mut self, block: Block, follows: bool, asked: &Asked) -> u32 {
        match self.kind {
            Lookahead::Obl2 if !follows => 0,
            Lookahead::Streams => self.window.min(self.streams.reach(block.file, asked)),
            _ => self.window,
        }
    }

    /// V8: takes the credit for a fetch. Says whether there was enough.
    pub(crate) fn pay_fetch(&mut self) -> bool {
        self.credit.as_mut().is_none_or(Credit::pay_fetch)
    }

    /// V8.
    pub(crate) fn missed(&mut self) {
        if let Some(credit) = &mut self.credit {
            credit.earn(0);
        }
    }

    pub(crate) fn count(&mut self) {
        self.looked.prefetched += 1;
    }

    /// A block that was looked ahead is referenced for the first time.
    pub(crate) fn count_use(&mut self, is_late: bool) {
        self.looked.count_use(is_late);
        if let Some(credit) = &mut self.credit {
            credit.earn(1);
        }
    }

    pub(crate) fn count_waste(&mut self) {
        self.looked.wasted += 1;
    }

    pub(crate) fn validate(&self) {
        if let Some(credit) = &self.credit {
            credit.validate();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileId;

    #[test]
    fn a_miss_at_the_start_of_a_file_brings_its_first_pages_as_far_as_there_are_any() {
        let part = |start_pages, index, pages: Range<u64>, end| {
            let options = Options { block_pages: 16, start_pages, ..Options::new(64) };
            let state = LookaheadState::new(&options);
            let block = Block::new(FileId(1), index);
            let asked = state.asked(block, &pages, end);
            assert_eq!(state.part(block, &asked, true), pages, "no miss");
            state.part(block, &asked, false)
        };
        assert_eq!(part(0, 0, 0..1, 9), 0..1, "V10 alone");
        assert_eq!(part(4, 0, 0..1, 9), 0..4);
        assert_eq!(part(4, 0, 0..1, 3), 0..3, "the file ends");
        assert_eq!(part(4, 0, 0..6, 9), 0..6, "more is asked for");
        assert_eq!(part(4, 0, 1..2, 9), 1..2, "not at the start");
        assert_eq!(part(4, 1, 16..17, 40), 16..17, "not of the file");
        assert_eq!(part(20, 0, 0..1, 40), 0..16, "the block ends");
    }
}
