//! Events from outside: a fetch ends; a block is dropped, kept or invalidated.

use alloc::collections::VecDeque;

use super::Steward;
use crate::entry::{Brought, Room};
use crate::owners::{COMMON, NOBODY, OwnerKey};
use crate::{Block, FileId, OwnerId};

/// Drops that are remembered with their owner, in case the body cannot carry them out.
const RECENT_DROPS_MAX: usize = 4096;

/// The owner of a dropped block. An owner is remembered by its id: its key may be another's when
/// the block comes back.
#[derive(Clone, Copy, Debug)]
enum Former {
    Nobody,
    Common,
    Owner(OwnerId),
}

/// The last drops, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct RecentDrops(VecDeque<(Block, Former)>);

impl RecentDrops {
    fn push(&mut self, block: Block, former: Former) {
        if self.0.len() == RECENT_DROPS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((block, former));
    }

    fn former(&self, block: Block) -> Former {
        let recent = self.0.iter().rev().find(|(dropped, _)| *dropped == block);
        recent.map_or(Former::Nobody, |&(_, former)| former)
    }
}

impl Steward {
    /// The bytes of `block` are in its frame: unpins it. Can queue its drop, if it was fetched for
    /// a list that went on without it.
    ///
    /// Nothing may be said of a fetch if its block has gone meanwhile: the block may be in flight
    /// again, and would be taken for arrived.
    pub fn fetched(&mut self, block: Block) {
        if let Some(frame) = self.entries.find(block)
            && self.entries[frame].end_fetch()
        {
            self.list_answered(frame);
            self.bytes_came(block);
        }
    }

    /// Lookahead brought `block` in, and it has no reference yet: it waits, newest (A2, W4).
    ///
    /// Queues a drop of the oldest waiting block over the bound. Without a waiting room the block
    /// itself is dropped.
    pub fn looked_ahead(&mut self, block: Block) {
        if self.entries.find(block).is_some() {
            return;
        }
        self.enter_waiting(block, self.options.block_pages);
        self.trim_waiting();
    }

    /// C11: `owner` advised that it will need `block`. The kernel has brought it in, and it has no
    /// reference yet. It takes a frame as by a miss, and has no owner until it is referenced: no
    /// manager names it, and it leaves when it is the candidate. Can queue drops.
    pub fn asked_for(&mut self, owner: OwnerId, block: Block) {
        if self.entries.find(block).is_some() {
            return;
        }
        let (owner, pages) = (self.owners.key(owner), self.options.block_pages);
        if !self.make_room(Some(block), owner, pages) {
            // All are pinned: it is in memory all the same.
            self.placeholders.take(block);
        }
        let frame = self.add(block, Room::Weighing, pages);
        self.entries[frame].brought = Brought::Asked;
        self.lookahead.count();
        self.admit(NOBODY, frame);
    }

    /// The body read `bytes` of `block` because of `owner`: a reference of its own, or what was
    /// fetched ahead of it. Only counts.
    pub fn brought(&mut self, owner: OwnerId, block: Block, bytes: u64) {
        if let Some(counters) = self.owners.find(owner).and_then(|key| self.owners.counters_mut(key)) {
            counters.read_bytes += bytes;
        }
        if let Some(frame) = self.entries.find(block) {
            self.files.traffic_mut(self.entries[frame].file).read_bytes += bytes;
        }
    }

    /// `block` could not be read: it leaves without having been a victim (L8), pins or not.
    ///
    /// A prefetch that fails is counted and forgotten; a reader of the block asks again, and meets
    /// the error.
    pub fn failed(&mut self, block: Block) {
        if let Some(frame) = self.entries.find(block) {
            if self.entries[frame].brought == Brought::Lookahead {
                self.files.ends_before(self.entries[frame].file, block.index);
            }
            self.lists.failed(&mut self.entries[frame]);
            self.remove(frame);
        }
        self.in_shadow(|shadow| shadow.gone(block));
    }

    /// `block` was dropped from outside: it leaves without having been a victim (L8), pins or not.
    pub fn gone(&mut self, block: Block) {
        if let Some(frame) = self.entries.find(block) {
            self.remove(frame);
        }
        self.in_shadow(|shadow| shadow.gone(block));
    }

    /// A drop of `block` was refused: it is still in memory.
    ///
    /// It comes back to its former owner as most recently used and pinned, above the capacity if
    /// need be. Say [`unpin`](Self::unpin) when another try makes sense. Not a reference: counts
    /// nothing.
    pub fn kept(&mut self, block: Block) {
        if self.entries.find(block).is_some() {
            return;
        }
        let owner = match self.recent_drops.former(block) {
            Former::Owner(id) => self.owners.find(id).unwrap_or(NOBODY),
            Former::Common => COMMON,
            Former::Nobody => NOBODY,
        };
        self.placeholders.take(block);
        let frame = self.add(block, Room::Weighing, self.options.block_pages);
        self.admit(owner, frame);
        self.entries[frame].pin();
    }

    /// `block` holds `pages` from now on, 1 to those of a whole block. Can queue drops: what it
    /// needs more is taken from others by W5, as far as those are not pinned.
    pub fn weigh(&mut self, block: Block, pages: u32) {
        let Some(frame) = self.entries.find(block) else { return };
        let pages = pages.clamp(1, self.options.block_pages);
        let former = self.entries.pages(frame);
        self.entries.set_pages(frame, pages);
        if self.entries[frame].room == Room::Waiting || pages == former {
            return;
        }
        self.rooms.reweigh(former, pages);
        if pages > former {
            self.pin(block);
            self.trim_weighing();
            self.unpin(block);
        }
    }

    /// Keeps `block` in its frame until the matching [`unpin`](Self::unpin). Pins are counted. Says
    /// whether it is cached.
    pub fn pin(&mut self, block: Block) -> bool {
        let Some(frame) = self.entries.find(block) else { return false };
        self.entries[frame].pin();
        true
    }

    /// Takes one pin back. The pin of a fetch in flight cannot be taken.
    pub fn unpin(&mut self, block: Block) {
        if let Some(frame) = self.entries.find(block) {
            self.entries[frame].unpin();
        }
    }

    /// `block` is invalid: it leaves without having been a victim (L8). Queues its drop.
    pub fn forget(&mut self, block: Block) {
        if let Some(frame) = self.entries.find(block) {
            self.give_up(frame);
        }
        self.in_shadow(|shadow| shadow.gone(block));
    }

    /// A version of a file is invalid: all its blocks leave as by [`forget`](Self::forget), and
    /// priorities for it end.
    pub fn forget_file(&mut self, file: FileId) {
        loop {
            let Some(frame) = self.files.frames(file).next() else { break };
            self.forget(self.entries[frame].block);
        }
        self.owners.managers_mut().for_each(|manager| manager.forget_file(file));
        self.in_shadow(|shadow| shadow.forget_file(file));
    }

    /// Remembers the owner of a block, in case its drop is refused.
    #[inline]
    pub(super) fn remember(&mut self, block: Block, owner: OwnerKey) {
        let former = match owner {
            COMMON => Former::Common,
            key => self.owners.id(key).map_or(Former::Nobody, Former::Owner),
        };
        self.recent_drops.push(block, former);
    }
}
