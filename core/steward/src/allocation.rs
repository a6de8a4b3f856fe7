//! Allocation: which owner loses a block (rules L2 to L4), which one, and how a block gets a frame,
//! changes hands, and leaves.
//!
//! ```text
//!            LRU end                              MRU end
//!     G      [a] [.] [.] [v] [.] [.] [.] [.] [.] [.]     a: candidate; its manager names v instead
//!
//!     swap   [v] [.] [.] [a] [.] [.] [.] [.] [.] [.]     v leaves; P[v] = a remembers the overrule
//! ```
//!
//! Swapping keeps an owner that overrules from being asked again at once, so that it loses nothing
//! by being smart. A placeholder makes it pay itself when it was foolish: a miss on v takes a as
//! the candidate.
//!
//! Room is counted in pages: a newcomer takes as many victims as make room for those that it holds
//! (docs/decisions/0084-blocks-weigh-pages.md). Where each block has one page that is one victim.

use pantler_policy::Handle;

use crate::decision::{Decision, Rule};
use crate::entry::{Entry, NO_LEVEL, Room};
use crate::owners::{COMMON, NOBODY, OwnerKey};
use crate::{Action, Allocation, Block, Frame, Steward, Why};

impl Steward {
    /// Pages of the weighing room. Each frame of the waiting room has room for a whole block.
    #[inline]
    pub(crate) fn weighing_max(&self) -> u32 {
        self.options.capacity - self.waiting_max() * self.options.block_pages
    }

    /// Pages that the blocks in the weighing room hold.
    #[inline]
    pub(crate) fn weighed(&self) -> u32 {
        self.weighing.len() + self.more_pages
    }

    /// Whether `pages` more would be too many for the weighing room.
    #[inline]
    pub(crate) fn is_too_full_for(&self, pages: u32) -> bool {
        self.weighed() + pages > self.weighing_max()
    }

    /// Whether there is or can be made room for `pages` in the weighing room.
    #[inline]
    pub(crate) fn has_room(&self, pages: u32) -> bool {
        if !self.is_too_full_for(pages) {
            return true;
        }
        let mut needed = self.weighed() + pages - self.weighing_max();
        let unpinned = self.weighing.iter(&self.links).filter(|&frame| self.entries[frame].pins == 0);
        unpinned.map(|frame| self.entries.pages(frame)).any(|pages| {
            needed = needed.saturating_sub(pages);
            needed == 0
        })
    }

    /// Makes room for a block of `pages` in the weighing room. `false` when too much is pinned.
    ///
    /// The newcomer takes victims until it fits (L2): its placeholder names the first candidate at
    /// most, as it is deleted by that.
    pub(crate) fn make_room(&mut self, newcomer: Option<Block>, owner: OwnerKey, pages: u32) -> bool {
        let (weighed, max) = (self.weighed(), self.weighing_max());
        if weighed > max {
            self.trim_weighing();
        }
        if weighed + pages <= max || weighed > max && !self.is_too_full_for(pages) {
            // L5: no frame is needed.
            if let Some(block) = newcomer {
                self.placeholders.take(block);
            }
            return true;
        }
        loop {
            if !self.replace(newcomer, owner) {
                return false;
            }
            if !self.is_too_full_for(pages) {
                return true;
            }
        }
    }

    /// Shrinks the weighing room to its bound: no block is missing, so candidates come from the LRU
    /// end (W5).
    pub(crate) fn trim_weighing(&mut self) {
        while self.is_too_full_for(0) {
            if !self.replace(None, NOBODY) {
                return;
            }
        }
    }

    /// L2 to L4: finds a candidate, asks its owner's manager, and drops the victim.
    pub(crate) fn replace(&mut self, newcomer: Option<Block>, owner: OwnerKey) -> bool {
        let unpinned = |&frame: &Handle| self.entries[frame].pins == 0;
        let Some(oldest) = self.weighing.iter(&self.links).find(unpinned) else { return false };
        let (candidate, rule) = match newcomer.and_then(|block| self.use_placeholder(block)) {
            Some(target) if self.entries[target].pins == 0 => (target, Rule::Placeholder),
            _ => (oldest, Rule::LeastRecentlyUsed),
        };
        let victim = self.name_victim(candidate);
        if victim == candidate {
            self.log(victim, candidate, newcomer, owner, rule);
            self.placeholders.clear(victim);
        } else {
            self.log(victim, candidate, newcomer, owner, Rule::Overruled);
            self.overrule(victim, candidate);
        }
        self.drop_frame(victim);
        self.expect_candidates();
        true
    }

    /// The next candidates are known long before they are asked for, unless they are referenced.
    /// What their going will touch lies anywhere in memory, and is brought nearer in two steps:
    /// what is found by the frame, one replacement ahead of what is found by that. Decides nothing.
    #[inline]
    fn expect_candidates(&self) {
        let mut oldest = self.weighing.iter(&self.links);
        if let Some(next) = oldest.next() {
            self.entries.prefetch_removal(next);
            self.files.prefetch_removal(next);
        }
        if let Some(after) = oldest.next() {
            self.entries.prefetch(after);
            self.files.prefetch(after);
            self.placeholders.prefetch(after);
            self.links.prefetch_neighbours(after);
        }
    }

    /// L2: `P[block]` names the candidate, and its owner is charged with a mistake.
    fn use_placeholder(&mut self, block: Block) -> Option<Handle> {
        let target = self.placeholders.take(block)?;
        let keeper = self.owners.keeper(self.entries[target].owner);
        if let Some(record) = self.owners.alive_mut(keeper)
            && record.manager.is_some()
            && !record.revoked
        {
            record.counters.mistakes += 1;
        }
        Some(target)
    }

    /// L3: the manager in control names a victim, which leaves its list. Else it is the candidate.
    fn name_victim(&mut self, candidate: Handle) -> Handle {
        let keeper = self.owners.keeper(self.entries[candidate].owner);
        let named = match self.list_at(keeper).filter(|&at| self.is_trusted(at)) {
            Some(at) => self.name_by_list(at),
            None => {
                let (entries, streams) = (&self.entries, &self.streams);
                let (frames, pages) = (self.options.frames(), self.options.block_pages);
                let stays = |frame: Handle| {
                    entries[frame].pins != 0 || streams.stands_at(entries[frame].block, pages, frames)
                };
                self.owners.alive_mut(keeper).and_then(|record| {
                    let manager = record.manager.as_mut().filter(|_| !record.revoked)?;
                    manager.replace_block(&mut self.managed, &stays)
                })
            }
        };
        match named {
            Some(victim) => {
                self.entries[victim].level = NO_LEVEL;
                if !self.lists.is_empty() {
                    self.list_lost(victim);
                }
                victim
            }
            None => {
                self.unmanage(candidate);
                candidate
            }
        }
    }

    /// L4: the victim is not the candidate. Both have the same owner, or the same keeper.
    fn overrule(&mut self, victim: Handle, candidate: Handle) {
        let block = self.entries[victim].block;
        if self.options.allocation.swaps() {
            self.weighing.swap(&mut self.links, victim, candidate);
        }
        if self.options.allocation == Allocation::LruSp {
            self.placeholders.repoint(victim, candidate);
            self.placeholders.insert(block, candidate);
        }
        let keeper = self.owners.keeper(self.entries[candidate].owner);
        if let Some(record) = self.owners.alive_mut(keeper) {
            record.counters.overrules += 1;
        }
        // The common owner's policy was chosen by the user that runs the cache: it cannot be taken
        // away.
        if keeper != COMMON && self.shadow.is_none() {
            self.begin_shadow();
        }
    }

    #[inline]
    pub(crate) fn log(
        &mut self,
        victim: Handle,
        candidate: Handle,
        newcomer: Option<Block>,
        owner: OwnerKey,
        rule: Rule,
    ) {
        if !self.log.is_on() {
            return;
        }
        let id = |key: OwnerKey| self.owners.alive(key).and_then(|record| record.id);
        let decision = Decision {
            sequence: 0,
            victim: self.entries[victim].block,
            victim_owner: id(self.entries[victim].owner),
            candidate: self.entries[candidate].block,
            newcomer,
            newcomer_owner: id(owner),
            rule,
            to: None,
        };
        self.log.push(decision);
    }

    // A frame.

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
    #[inline]
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
