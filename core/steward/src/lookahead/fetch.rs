//! Lookahead in the steward: what is fetched after a reference, and where it goes (rules W1 to W6).
//!
//! Fetches take time: a waiting block is pinned until it arrives, and when all of the waiting room
//! is in flight nothing more is looked ahead. Where a file ends is learnt: a block that lookahead
//! could not read is not looked ahead again until a reference goes beyond it.

use crate::entry::{Brought, Room};
use crate::lists::Prefetched;
use crate::owners::{NOBODY, OwnerKey};
use crate::rooms::Asked;
use crate::{Block, Lookahead, Steward, Why};

impl Steward {
    /// What lookahead of the steward's own did so far.
    pub fn looked(&self) -> Prefetched {
        self.looked
    }

    /// Frames that the waiting room has now, and the weighing room may not use.
    #[inline]
    pub fn waiting_max(&self) -> u32 {
        if !self.options.lookahead.has_waiting_room() {
            return self.options.waiting;
        }
        // Blocks in flight stay where their room has shrunk.
        self.sizing.size().max(self.waiting.len()).min(self.options.frames() - 1)
    }

    /// Blocks that may wait now.
    pub(crate) fn waiting_limit(&self) -> u32 {
        if self.options.lookahead.has_waiting_room() { self.sizing.size() } else { self.options.waiting }
    }

    pub(crate) fn looks_ahead(&self) -> bool {
        self.options.lookahead != Lookahead::None && self.options.capacity >= 2 * self.options.block_pages
    }

    /// Whether i−1 weighs and was referenced.
    pub(crate) fn follows(&self, block: Block) -> bool {
        if !matches!(self.options.lookahead, Lookahead::Obl2 | Lookahead::SaW2r) {
            return false;
        }
        let previous =
            block.index.checked_sub(1).and_then(|index| self.entries.find(Block { index, ..block }));
        previous.is_some_and(|frame| {
            let entry = &self.entries[frame];
            entry.room == Room::Weighing && entry.brought != Brought::Lookahead
        })
    }

    /// W3, V8: `block` missed.
    pub(crate) fn size_for_miss(&mut self, block: Block, follows: bool) {
        let next_waits = self.options.lookahead == Lookahead::SaW2r
            && after(block, 1)
                .and_then(|next| self.entries.find(next))
                .is_some_and(|frame| self.entries[frame].room == Room::Waiting);
        self.sizing.missed(next_waits, follows);
        self.trim_waiting();
    }

    /// W4, after a reference of `owner` to `block`. Can queue drops and fetches.
    pub(crate) fn look_ahead(&mut self, owner: OwnerKey, block: Block, follows: bool, asked: &Asked) {
        let mut window = self.options.window.clamp(1, self.options.frames() - 1);
        match self.options.lookahead {
            Lookahead::Obl2 if !follows => return,
            Lookahead::Streams => window = window.min(self.streams.reach(block.file, asked)),
            _ => {}
        }
        for by in 1..=u64::from(window) {
            let Some(ahead) = after(block, by) else { return };
            let pages = self.extent(ahead, asked.end);
            if pages.is_empty() {
                return;
            }
            if self.entries.find(ahead).is_some() {
                continue;
            }
            if self.files.end(ahead.file) <= ahead.index {
                return;
            }
            if !self.sizing.pay_fetch() {
                continue;
            }
            if !self.look_at(owner, ahead, (pages.end - pages.start) as u32) {
                return;
            }
        }
    }

    /// Looks `block`, of `pages`, ahead for `owner`. `false` when there is no frame for it.
    fn look_at(&mut self, owner: OwnerKey, block: Block, pages: u32) -> bool {
        let frame = if self.options.lookahead.has_waiting_room() {
            if !self.make_waiting_room() {
                return false;
            }
            let frame = self.add(block, Room::Waiting, pages);
            self.entries[frame].brought = Brought::Lookahead;
            self.wait(frame);
            frame
        } else {
            if !self.make_room(Some(block), owner, pages) {
                return false;
            }
            self.enter_unreferenced(NOBODY, block, Brought::Lookahead, pages)
        };
        self.looked.prefetched += 1;
        let entry = &mut self.entries[frame];
        if !entry.arriving {
            entry.arriving = true;
            entry.pins += 1;
        }
        self.fetch(block, frame, Why::Lookahead);
        true
    }

    /// Leaves a frame of the waiting room free. `false` when all of it is in flight, or pins keep
    /// what the other room uses of it.
    fn make_waiting_room(&mut self) -> bool {
        while self.waiting.len() >= self.waiting_limit() {
            if !self.drop_oldest_waiting() {
                return false;
            }
        }
        !self.is_too_full_for(0)
    }
}

fn after(block: Block, by: u64) -> Option<Block> {
    Some(Block { index: block.index.checked_add(by)?, ..block })
}
