//! Frames: how a block gets one, which owner it has, and how it leaves.

use pantler_policy::Handle;

use super::Steward;
use crate::entry::{Entry, NO_LEVEL, Room};
use crate::owners::OwnerKey;
use crate::{Action, Block, Frame, Why};

impl Steward {
    /// Gives a block of `pages` a frame, in no list of its room yet.
    pub(crate) fn add(&mut self, block: Block, room: Room, pages: u32) -> Handle {
        let file = self.files.slot(block.file);
        let frame = self.entries.insert(Entry::new(block, file, room));
        self.entries.set_pages(frame, pages);
        if frame >= self.links.capacity() {
            let frames = (frame + 1).next_power_of_two();
            self.links.grow(frames);
            self.managed.grow(frames);
        }
        self.files.add(file, frame);
        if let Some(tiers) = &mut self.tiers {
            tiers.awaits(frame, block.file);
        }
        frame
    }

    /// The body is to read a block that has a frame.
    pub(crate) fn fetch(&mut self, block: Block, frame: Handle, why: Why) {
        let from = self.tiers.as_ref().and_then(|tiers| tiers.expected(block));
        self.actions.push_back(Action::Fetch { block, frame: Frame(frame), why, from });
    }

    /// A block enters `G` at the MRU end.
    pub(crate) fn push_weighing(&mut self, frame: Handle) {
        self.weighing.push_back(&mut self.links, frame);
        self.more_pages += self.entries.pages(frame) - 1;
    }

    /// L8: a block leaves otherwise than as victim. Its bytes are not there to go anywhere.
    pub(crate) fn remove(&mut self, frame: Handle) {
        self.leave(frame, false);
        self.detach(frame);
        self.release(frame);
    }

    /// The same, where the body has the bytes yet: queues the drop.
    pub(crate) fn give_up(&mut self, frame: Handle) {
        self.detach(frame);
        self.drop_frame(frame);
    }

    /// No placeholder and no manager names a block any more.
    fn detach(&mut self, frame: Handle) {
        if self.entries[frame].room == Room::Weighing {
            self.placeholders.clear(frame);
        }
        self.unmanage(frame);
    }

    /// Takes a block, which no manager lists any more, out of its room, and queues its drop.
    pub(crate) fn drop_frame(&mut self, frame: Handle) {
        let (block, to) = (self.entries[frame].block, self.leave(frame, true));
        self.remember(frame);
        self.release(frame);
        self.actions.push_back(Action::Drop { block, frame: Frame(frame), to });
    }

    fn release(&mut self, frame: Handle) {
        let entry = self.entries.remove(frame);
        match entry.room {
            Room::Weighing => {
                self.weighing.remove(&mut self.links, frame);
                self.more_pages -= self.entries.pages(frame) - 1;
            }
            Room::Waiting => self.stop_waiting(frame),
        }
        self.count_waste(entry.brought);
        if !self.lists.is_empty() {
            self.list_gone(entry.block);
        }
        self.files.remove(entry.file, frame);
        self.owners.uncount_block(entry.owner);
    }

    /// Charges a block to an owner.
    pub(crate) fn charge(&mut self, frame: Handle, owner: OwnerKey) {
        let former = core::mem::replace(&mut self.entries[frame].owner, owner);
        self.owners.count_block(owner);
        self.owners.uncount_block(former);
    }

    /// Puts a block on the list of the manager that keeps its owner's blocks, if there is one.
    pub(crate) fn manage(&mut self, frame: Handle) {
        let entry = &mut self.entries[frame];
        if let Some(manager) = self.owners.manager_for_mut(entry.owner) {
            manager.new_block(&mut self.managed, entry, frame);
            if !self.lists.is_empty() {
                self.list_gained(frame);
            }
        }
    }

    /// Takes a block off its manager's list, if it is on one.
    pub(crate) fn unmanage(&mut self, frame: Handle) {
        let entry = &mut self.entries[frame];
        if entry.level == NO_LEVEL {
            return;
        }
        if let Some(manager) = self.owners.manager_for_mut(entry.owner) {
            manager.block_gone(&mut self.managed, entry, frame);
            if !self.lists.is_empty() {
                self.list_lost(frame);
            }
        }
    }
}
