//! What lists and lookahead fetch, and what leaves for it (rules P2 to P6, L9, W3, W4).
//!
//! ```text
//!   reference --- matches a step ---> cursor moves ---> free blocks? ---> batch: hole by hole,
//!             |                                                           at most B, in order
//!             |                                                           of position
//!             +-- matches none -----> nothing until it is served
//!             +-- of no list -------> lookahead: the blocks after it, up to its window
//! ```
//!
//! P4 as it is kept here: what is fetched is the next hole; what leaves, if it is the prefetcher's
//! own, is named by the list (P6), and never a block that the list needs before the hole; the first
//! chance is the first reference after which enough blocks are free.
//!
//! Fetches take time: a waiting block is pinned until it arrives, and when all of the waiting room
//! is in flight nothing more is looked ahead. Where a file ends is learnt: a block that lookahead
//! could not read is not looked ahead again until a reference goes beyond it.

use alloc::vec::Vec;

use pantler_policy::Handle;

use super::Steward;
use crate::entry::{Brought, Entry};
use crate::lists::{Chunk, List, Met};
use crate::lookahead::Asked;
use crate::owners::{NOBODY, OwnerKey};
use crate::{Action, Block, HintError, Notice, OwnerId, Why};

impl Steward {
    // The calls.

    /// `owner` will read these ranges in this order. Replaces the list that it had. Can queue drops
    /// and fetches.
    ///
    /// A range that begins in the last block of the one before it has no step for that block; one
    /// that begins further inside and goes on beyond is cut to what is new. A first list is a
    /// control call (rule C8). Without managers (`global-lru`) lists are accepted and change
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`HintError`] past a bound, or for a range that ends before it begins. Nothing
    /// changes.
    pub fn give_list(&mut self, owner: OwnerId, chunks: &[Chunk]) -> Result<(), HintError> {
        let limits = self.options.limits;
        if !self.options.allocation.has_managers() {
            self.owners.key(owner);
            return Ok(());
        }
        let former = self.owners.find(owner).and_then(|key| self.lists.at(key));
        if former.is_none() && self.lists.len() >= limits.lists as usize {
            return Err(HintError::TooManyLists(limits.lists));
        }
        let list = List::new(chunks, limits.list_entries, self.options.seed)?;
        let key = self.take_control(owner)?;
        let at = self.lists.put(key, list);
        self.lists[at].unroll(&self.entries);
        self.prefetch(at);
        Ok(())
    }

    /// `owner` will read these ranges after those of its list. Without a list, or after its end,
    /// this is a new one.
    ///
    /// A list can be of any length this way: [`Notice::ListLow`] says when half of the bound is
    /// free again.
    ///
    /// # Errors
    ///
    /// As [`give_list`](Self::give_list).
    pub fn extend_list(&mut self, owner: OwnerId, chunks: &[Chunk]) -> Result<(), HintError> {
        let Some(at) = self.owners.find(owner).and_then(|key| self.lists.at(key)) else {
            return self.give_list(owner, chunks);
        };
        self.lists[at].extend(chunks, self.options.limits.list_entries)?;
        self.lists[at].unroll(&self.entries);
        self.prefetch(at);
        Ok(())
    }

    /// The list of `owner` ends here. What was prefetched stays.
    pub fn end_list(&mut self, owner: OwnerId) {
        if let Some(key) = self.owners.find(owner) {
            self.lists.remove(key);
        }
    }

    /// P7: from now on a batch has at most this number of requests, and at least one. What goes by
    /// P4 stays as it is: a larger batch fetches no block for one that is needed before.
    pub fn set_batch(&mut self, requests: u32) {
        self.options.prefetching.batch = requests.max(1);
    }

    /// `owner` references `block`, which is in memory because of another program and takes no frame
    /// here: only its list hears of it. Can queue drops and fetches.
    pub fn passed(&mut self, owner: OwnerId, block: Block) {
        if self.lists.is_empty() {
            return;
        }
        let key = self.owners.key(owner);
        let met = self.meet_list(key, block);
        self.follow_list(key, block, met, false);
    }

    /// The fetch of `block` that a list asked for is not needed: it is in memory because of another
    /// program, and takes no frame here. It counts neither as prefetched nor as failed. Says
    /// whether it was in flight; else nothing changes.
    ///
    /// As after [`failed`](Self::failed) the list takes it for no hole for a while.
    pub fn cancel_needless(&mut self, block: Block) -> bool {
        let Some(frame) = self.entries.find(block) else { return false };
        let was_in_flight = self.lists.cancel(&mut self.entries[frame]);
        if was_in_flight {
            self.remove(frame);
            (0..self.lists.len()).for_each(|at| self.go_on(at));
        }
        was_in_flight
    }

    // Matching.

    /// P2: `owner` references `block`, and nothing has been done about it yet. Moves the cursor;
    ///     can queue drops.
    pub(super) fn meet_list(&mut self, owner: OwnerKey, block: Block) -> Met {
        let Some(at) = self.lists.at(owner) else { return Met::Nothing };
        let met = self.lists[at].meet(block, &self.options.prefetching);
        match met {
            Met::Step(done) => self.move_cursor(at, done),
            Met::Bogus => {
                self.lists.remove(owner);
                self.tell(owner, Notice::ListDiscarded);
            }
            Met::Nothing | Met::Current | Met::Early | Met::Stranger => {}
        }
        met
    }

    /// P5: the reference has been dealt with; the block comes from the device or not. Can queue
    ///     drops and fetches.
    pub(super) fn follow_list(&mut self, owner: OwnerKey, block: Block, met: Met, arriving: bool) {
        let Some(at) = self.lists.at(owner) else { return };
        match met {
            Met::Step(_) if self.lists[at].is_done() => self.lists.remove(owner),
            // The device is busy for this owner, and will fall idle.
            Met::Step(_) | Met::Early | Met::Stranger
                if arriving && (met == Met::Stranger || self.when_idle()) =>
            {
                self.lists[at].await_serving(block);
            }
            Met::Step(_) | Met::Early => self.prefetch(at),
            _ => {}
        }
    }

    fn when_idle(&self) -> bool {
        self.options.prefetching.when_idle
    }

    /// P2: steps before `done` count as done. What was prefetched for those passed over, and is not
    ///     needed again, leaves.
    fn move_cursor(&mut self, at: usize, done: u64) {
        let ranges = self.lists[at].ranges();
        for frame in self.lists[at].pass(done, &self.entries) {
            let entry = &mut self.entries[frame];
            if entry.brought == Brought::List && !entry.is_pinned() {
                let block = entry.block;
                self.forget(block);
            } else if entry.brought == Brought::List && entry.arriving {
                entry.brought = Brought::PassedOver;
            }
        }
        let half = self.options.limits.list_entries / 2;
        let list = &mut self.lists[at];
        list.unroll(&self.entries);
        if ranges > half && list.ranges() <= half {
            let owner = list.owner();
            self.tell(owner, Notice::ListLow);
        }
    }

    fn tell(&mut self, key: OwnerKey, notice: Notice) {
        if let Some(owner) = self.owners.id(key) {
            self.actions.push_back(Action::Notice { owner, notice });
        }
    }

    // Fetching.

    /// P5: a batch, if there may be one.
    pub(super) fn prefetch(&mut self, at: usize) {
        let threshold = self.options.prefetching.threshold;
        let Some(most) = self.lists[at].begin_batch(&self.options.prefetching) else { return };
        let mut batch: Vec<(Block, Handle)> = Vec::new();
        while (batch.len() as u32) < most {
            let Some((hole, block)) = self.lists[at].next_hole(&self.entries) else { break };
            let free = self.free_blocks(at);
            if if batch.is_empty() { free < threshold } else { free <= threshold } {
                break;
            }
            match self.fill(at, hole, block) {
                Filled::Cancelled => break,
                Filled::Moved => {}
                Filled::Fetching(frame) => batch.push((block, frame)),
            }
        }
        // Neighbours stand together, so that the body can merge them.
        batch.sort_unstable();
        for (block, frame) in batch {
            self.fetch(block, frame, Why::List);
        }
    }

    /// P3: blocks of this owner that are used after the next hole, or never; and frames that hold
    /// nothing, because filling one takes nothing from any owner.
    fn free_blocks(&self, at: usize) -> u32 {
        let list = &self.lists[at];
        let free = self.rooms.weighing_max().saturating_sub(self.rooms.weighed());
        self.owners.blocks(list.owner()) - list.needed() + free / self.options.block_pages
    }

    /// L9: gives the block of the next hole a frame as a miss would. P6: not at the cost of a block
    /// of the same owner that is needed before.
    fn fill(&mut self, at: usize, hole: u64, block: Block) -> Filled {
        let owner = self.lists[at].owner();
        let waits = self.entries.find(block);
        if let Some(frame) = waits
            && self.entries[frame].arriving
        {
            // Lookahead's fetch is in flight: a reader of the block waits for that one.
            self.lists[at].skip_hole();
            return Filled::Moved;
        }
        // How long a file is, its list does not say.
        let pages = waits.map_or(self.options.block_pages, |frame| self.entries.pages(frame));
        self.trim_weighing();
        if self.rooms.is_too_full_for(pages) && !self.may_replace(at, hole, block) {
            return Filled::Cancelled;
        }
        if let Some(frame) = waits {
            // Lookahead foresaw it, whether it will be referenced or not.
            self.count_use(frame);
            self.entries[frame].brought = Brought::Foreseen;
            self.promote(owner, frame);
            return Filled::Moved;
        }
        while self.rooms.is_too_full_for(pages) {
            // The first victim may hold less than comes.
            if !self.may_replace(at, hole, block) || !self.replace(Some(block), owner) {
                return Filled::Cancelled;
            }
        }
        self.placeholders.take(block);
        let frame = self.enter_unreferenced(owner, block, Brought::List, pages);
        self.lists.fetches(at, block);
        Filled::Fetching(frame)
    }

    /// P6: whether the block that would leave for a prefetch may.
    fn may_replace(&self, at: usize, hole: u64, block: Block) -> bool {
        let (list, entries) = (&self.lists[at], &self.entries);
        let Some(oldest) = self.rooms.oldest_unpinned(entries) else { return false };
        let named = self.placeholders.peek(block).filter(|&frame| !entries[frame].is_pinned());
        let candidate = named.unwrap_or(oldest);
        if self.owners.keeper(entries[candidate].owner) != list.owner() {
            return true;
        }
        list.is_trusted(&self.options.prefetching) && list.spares(hole, candidate, &self.owners, entries)
    }

    /// A fetch has ended well.
    pub(super) fn list_answered(&mut self, frame: Handle) {
        let Entry { block, room, .. } = self.entries[frame];
        let waited = self.lists.answered(block, room);
        self.flush_passed_over(frame);
        waited.into_iter().for_each(|at| self.go_on(at));
    }

    /// P2: a block that the cursor passed over while it was in flight has arrived.
    fn flush_passed_over(&mut self, frame: Handle) {
        let entry = &mut self.entries[frame];
        if entry.brought != Brought::PassedOver || entry.is_pinned() {
            return;
        }
        let block = entry.block;
        if self.lists.needs(entry.owner, block) {
            entry.brought = Brought::List;
        } else {
            self.forget(block);
        }
    }

    /// P5: something that the list waited for is settled.
    fn go_on(&mut self, at: usize) {
        if self.when_idle() || self.options.prefetching.catches_up && self.lists[at].has_moved() {
            self.prefetch(at);
        }
    }

    // Lookahead.

    /// W3, V8: `block` missed.
    pub(super) fn size_for_miss(&mut self, block: Block, follows: bool) {
        let next_waits = self.lookahead.next_waits(block, &self.entries);
        self.rooms.missed(next_waits, follows);
        self.lookahead.missed();
        self.trim_waiting();
    }

    /// W4, after a reference of `owner` to `block`. Can queue drops and fetches.
    pub(super) fn look_ahead(&mut self, owner: OwnerKey, block: Block, follows: bool, asked: &Asked) {
        for by in 1..=u64::from(self.lookahead.window(block, follows, asked)) {
            let Some(ahead) = block.after(by) else { return };
            let pages = ahead.extent(self.options.block_pages, asked.end);
            if pages.is_empty() {
                return;
            }
            if self.entries.find(ahead).is_some() {
                continue;
            }
            if self.files.end(ahead.file) <= ahead.index {
                return;
            }
            if !self.lookahead.pay_fetch() {
                continue;
            }
            if !self.look_at(owner, ahead, (pages.end - pages.start) as u32) {
                return;
            }
        }
    }

    /// Looks `block`, of `pages`, ahead for `owner`. `false` when there is no frame for it.
    fn look_at(&mut self, owner: OwnerKey, block: Block, pages: u32) -> bool {
        let frame = if self.lookahead.takes_frames() {
            if !self.make_room(Some(block), owner, pages) {
                return false;
            }
            self.lookahead.count();
            self.enter_unreferenced(NOBODY, block, Brought::Lookahead, pages)
        } else {
            if !self.make_waiting_room() {
                return false;
            }
            let frame = self.enter_waiting(block, pages);
            self.entries[frame].begin_fetch();
            frame
        };
        self.fetch(block, frame, Why::Lookahead);
        true
    }

    /// Leaves a frame of the waiting room free. `false` when all of it is in flight, or pins keep
    /// what the other room uses of it.
    fn make_waiting_room(&mut self) -> bool {
        while self.rooms.waiting() >= self.rooms.waiting_limit() {
            if !self.drop_oldest_waiting() {
                return false;
            }
        }
        !self.rooms.is_too_full_for(0)
    }

    // What came of it.

    /// A prefetched block is referenced for the first time.
    pub(super) fn count_use(&mut self, frame: Handle) {
        let entry = &mut self.entries[frame];
        match core::mem::replace(&mut entry.brought, Brought::Reference) {
            Brought::List | Brought::PassedOver => self.lists.count_use(entry.arriving),
            Brought::Lookahead | Brought::Asked => self.lookahead.count_use(entry.arriving),
            Brought::Reference | Brought::Retired | Brought::Foreseen | Brought::Nothing => {}
        }
    }

    /// A block left before its first reference.
    #[inline]
    pub(super) fn count_waste(&mut self, brought: Brought) {
        match brought {
            Brought::List | Brought::PassedOver => self.lists.count_waste(),
            Brought::Lookahead | Brought::Asked => self.lookahead.count_waste(),
            Brought::Reference | Brought::Retired | Brought::Foreseen | Brought::Nothing => {}
        }
    }
}

/// What came of a hole.
enum Filled {
    Cancelled,
    /// It is none any more, and nothing is to be read.
    Moved,
    Fetching(Handle),
}
