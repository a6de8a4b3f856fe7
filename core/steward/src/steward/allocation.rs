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

use super::Steward;
use crate::decision::{Decision, Rule};
use crate::entry::{Brought, Entry, NO_LEVEL, Room};
use crate::owners::{COMMON, NOBODY, OwnerKey};
use crate::{Action, Allocation, Block, Frame, Why};

impl Steward {
    /// Makes room for a block of `pages` in the weighing room. `false` when too much is pinned.
    ///
    /// The newcomer takes victims until it fits (L2): its placeholder names the first candidate at
    /// most, as it is deleted by that.
    pub(super) fn make_room(&mut self, newcomer: Option<Block>, owner: OwnerKey, pages: u32) -> bool {
        self.trim_weighing();
        if !self.rooms.is_too_full_for(pages) {
            // L5: no frame is needed.
            if let Some(block) = newcomer {
                self.placeholders.take(block);
            }
            return true;
        }
        while self.replace(newcomer, owner) {
            if !self.rooms.is_too_full_for(pages) {
                return true;
            }
        }
        false
    }

    /// Shrinks the weighing room to its bound: no block is missing, so candidates come from the LRU
    /// end (W5), or of an owner that scans (L2).
    pub(super) fn trim_weighing(&mut self) {
        while self.rooms.is_too_full_for(0) && self.replace(None, NOBODY) {}
    }

    /// L2 to L4: finds a candidate, asks its owner's manager, and drops the victim.
    pub(super) fn replace(&mut self, newcomer: Option<Block>, owner: OwnerKey) -> bool {
        let Some(oldest) = self.rooms.oldest_unpinned(&self.entries) else { return false };
        let (candidate, rule) = match newcomer.and_then(|block| self.use_placeholder(block)) {
            Some(target) if !self.entries[target].is_pinned() => (target, Rule::Placeholder),
            _ => self.scanned_for(oldest),
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
        let mut oldest = self.rooms.in_order();
        if let Some(next) = oldest.next() {
            self.entries.prefetch_removal(next);
            self.files.prefetch_removal(next);
        }
        if let Some(after) = oldest.next() {
            self.entries.prefetch(after);
            self.files.prefetch(after);
            self.placeholders.prefetch(after);
            self.rooms.prefetch_removal(after);
        }
    }

    /// L2: the oldest block is the candidate, or one of an owner that scans.
    fn scanned_for(&mut self, oldest: Handle) -> (Handle, Rule) {
        let keeper = self.owners.keeper(self.entries[oldest].owner);
        let scanned = self.owners.scanning_for(keeper).and_then(|giver| {
            let mut listed = self.owners.listed(giver);
            Some((giver, listed.find(|&frame| !self.entries[frame].is_pinned())?))
        });
        let Some((giver, frame)) = scanned else { return (oldest, Rule::LeastRecentlyUsed) };
        self.owners.give(giver);
        (frame, Rule::Scanned)
    }

    /// L2: `P[block]` names the candidate, and its owner is charged with a mistake.
    fn use_placeholder(&mut self, block: Block) -> Option<Handle> {
        let target = self.placeholders.take(block)?;
        let keeper = self.owners.keeper(self.entries[target].owner);
        self.owners.placeholder_used(keeper);
        Some(target)
    }

    /// L3: the manager in control names a victim, which leaves its list. Else it is the candidate.
    fn name_victim(&mut self, candidate: Handle) -> Handle {
        let keeper = self.owners.keeper(self.entries[candidate].owner);
        let trusted = |&at: &usize| self.lists[at].is_trusted(&self.options.prefetching);
        let named = match self.lists.at(keeper).filter(trusted) {
            Some(at) => self.lists[at].name_victim(&mut self.owners, &mut self.entries),
            None => {
                let (entries, lookahead) = (&self.entries, &self.lookahead);
                let stays = |frame: Handle| {
                    let entry = &entries[frame];
                    entry.is_pinned() || lookahead.stands_at(entry.block)
                };
                self.owners.replace_block(keeper, &stays)
            }
        };
        match named {
            Some(victim) => {
                self.entries[victim].level = NO_LEVEL;
                self.lists.lost(&self.entries[victim]);
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
            self.rooms.swap(victim, candidate);
        }
        if self.options.allocation == Allocation::LruSp {
            self.placeholders.repoint(victim, candidate);
            self.placeholders.insert(block, candidate);
        }
        let keeper = self.owners.keeper(self.entries[candidate].owner);
        if let Some(counters) = self.owners.counters_mut(keeper) {
            counters.overrules += 1;
        }
        // The common owner's policy was chosen by the user that runs the cache: it cannot be taken
        // away.
        if keeper != COMMON && self.shadow.is_none() {
            self.begin_shadow();
        }
    }

    #[inline]
    fn log(
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
        self.log.push(Decision {
            sequence: 0,
            victim: self.entries[victim].block,
            victim_owner: self.owners.id(self.entries[victim].owner),
            candidate: self.entries[candidate].block,
            newcomer,
            newcomer_owner: self.owners.id(owner),
            rule,
            to: None,
        });
    }

    // The waiting room.

    pub(super) fn trim_waiting(&mut self) {
        while self.rooms.has_surplus() && self.drop_oldest_waiting() {}
        self.rooms.trimmed();
    }

    /// W4: the oldest leaves. `false` when all are pinned.
    pub(super) fn drop_oldest_waiting(&mut self) -> bool {
        let Some(oldest) = self.rooms.oldest_waiting(&self.entries) else { return false };
        self.log(oldest, oldest, None, NOBODY, Rule::NeverReferenced);
        self.drop_frame(oldest);
        true
    }

    /// W1: a looked-ahead block is referenced, and moves to the weighing room: an allocation
    ///     without I/O (L9).
    pub(super) fn promote(&mut self, owner: OwnerKey, frame: Handle) {
        let block = self.entries[frame].block;
        self.rooms.stop_waiting(frame);
        self.owners.missing_block(owner, block);
        self.trim_waiting();
        // Out of both rooms for a moment, the block can neither be candidate nor victim of its own
        // promotion.
        if !self.make_room(Some(block), owner, self.entries.pages(frame)) {
            self.placeholders.take(block);
        }
        self.entries[frame].room = Room::Weighing;
        self.admit(owner, frame);
    }

    // A frame.

    /// Gives a block of `pages` a frame, in no list of its room yet.
    pub(super) fn add(&mut self, block: Block, room: Room, pages: u32) -> Handle {
        let file = self.files.slot(block.file);
        let frame = self.entries.insert(Entry::new(block, file, room));
        self.entries.set_pages(frame, pages);
        self.rooms.make_place(frame);
        self.owners.make_place(frame);
        self.files.add(file, frame);
        if let Some(tiers) = &mut self.tiers {
            tiers.awaits(frame, block.file);
        }
        frame
    }

    /// L5: a block with a frame enters `G` at the MRU end, and is its owner's.
    #[inline]
    pub(super) fn admit(&mut self, owner: OwnerKey, frame: Handle) {
        self.rooms.push(frame, self.entries.pages(frame));
        self.own(owner, frame);
    }

    /// A newcomer without a reference takes a frame at the MRU end, and is in flight.
    pub(super) fn enter_unreferenced(
        &mut self,
        owner: OwnerKey,
        block: Block,
        brought: Brought,
        pages: u32,
    ) -> Handle {
        let frame = self.add(block, Room::Weighing, pages);
        let entry = &mut self.entries[frame];
        entry.brought = brought;
        entry.begin_fetch();
        self.admit(owner, frame);
        frame
    }

    /// W4: a block that was looked ahead waits, newest.
    pub(super) fn enter_waiting(&mut self, block: Block, pages: u32) -> Handle {
        let frame = self.add(block, Room::Waiting, pages);
        self.entries[frame].brought = Brought::Lookahead;
        self.lookahead.count();
        self.rooms.wait(frame);
        frame
    }

    /// The body is to read a block that has a frame.
    pub(super) fn fetch(&mut self, block: Block, frame: Handle, why: Why) {
        let from = self.tiers.as_ref().and_then(|tiers| tiers.expected(block));
        self.actions.push_back(Action::Fetch { block, frame: Frame(frame), why, from });
    }

    /// L8: a block leaves otherwise than as victim. Its bytes are not there to go anywhere.
    pub(super) fn remove(&mut self, frame: Handle) {
        self.leave(frame, false);
        self.detach(frame);
        self.release(frame);
    }

    /// The same, where the body has the bytes yet: queues the drop.
    pub(super) fn give_up(&mut self, frame: Handle) {
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
    fn drop_frame(&mut self, frame: Handle) {
        let Entry { block, owner, .. } = self.entries[frame];
        let to = self.leave(frame, true);
        self.remember(block, owner);
        self.release(frame);
        self.actions.push_back(Action::Drop { block, frame: Frame(frame), to });
    }

    fn release(&mut self, frame: Handle) {
        let entry = self.entries.remove(frame);
        self.rooms.remove(frame, entry.room, self.entries.pages(frame));
        self.count_waste(entry.brought);
        self.lists.gone(entry.block);
        self.files.remove(entry.file, frame);
        self.owners.uncount_block(entry.owner);
    }

    /// A block is charged to an owner, and on the list of the manager that keeps it, if one does.
    #[inline]
    pub(super) fn own(&mut self, owner: OwnerKey, frame: Handle) {
        self.owners.charge(&mut self.entries[frame], owner);
        self.manage(frame);
    }

    /// Puts a block on the list of the manager that keeps its owner's blocks, if there is one.
    #[inline]
    pub(super) fn manage(&mut self, frame: Handle) {
        let entry = &mut self.entries[frame];
        if let Some((manager, managed)) = self.owners.manager_for_mut(entry.owner) {
            manager.new_block(managed, entry, frame);
            self.lists.gained(entry);
        }
    }

    /// Takes a block off its manager's list, if it is on one.
    pub(super) fn unmanage(&mut self, frame: Handle) {
        let entry = &mut self.entries[frame];
        if entry.level != NO_LEVEL
            && let Some((manager, managed)) = self.owners.manager_for_mut(entry.owner)
        {
            manager.block_gone(managed, entry, frame);
            self.lists.lost(entry);
        }
    }
}
