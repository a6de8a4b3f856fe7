//! Following access lists: when to fetch, and what leaves for it (rules P2 to P6, L9).
//!
//! ```text
//!   reference --- matches a step ---> cursor moves ---> free blocks? ---> batch: hole by hole,
//!             \-- matches none -----> nothing until it is served          at most B, in order
//!                                                                         of position
//! ```
//!
//! P4 as it is kept here: what is fetched is the next hole; what leaves, if it is the prefetcher's
//! own, is named by the list (P6), and never a block that the list needs before the hole; the first
//! chance is the first reference after which enough blocks are free.

use alloc::vec::Vec;

use pantler_policy::Handle;

use super::{Chunk, List, ListStat, Met, Prefetched};
use crate::entry::{Brought, NO_LEVEL, Room};
use crate::marks::Marks;
use crate::owners::OwnerKey;
use crate::{Action, Block, HintError, Notice, OwnerId, Steward, Why};

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
        let former = self.owners.find(owner).and_then(|key| self.list_at(key));
        if former.is_none() && self.lists.len() >= limits.lists as usize {
            return Err(HintError::TooManyLists(limits.lists));
        }
        let mut list = List::new(0, self.options.seed);
        list.extend(chunks, limits.list_entries)?;
        list.owner = self.take_control(owner)?;
        if let Some(former) = former {
            self.lists.remove(former);
        }
        self.lists.push(list);
        let at = self.lists.len() - 1;
        self.unroll(at);
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
        let Some(at) = self.owners.find(owner).and_then(|key| self.list_at(key)) else {
            return self.give_list(owner, chunks);
        };
        self.lists[at].extend(chunks, self.options.limits.list_entries)?;
        self.unroll(at);
        self.prefetch(at);
        Ok(())
    }

    /// The list of `owner` ends here. What was prefetched stays.
    pub fn end_list(&mut self, owner: OwnerId) {
        if let Some(at) = self.owners.find(owner).and_then(|key| self.list_at(key)) {
            self.lists.remove(at);
        }
    }

    /// What is known of the list of `owner`.
    pub fn list(&self, owner: OwnerId) -> Option<ListStat> {
        let key = self.owners.find(owner)?;
        self.list_at(key).map(|at| self.lists[at].stat())
    }

    /// Owners that have a list.
    pub fn lists(&self) -> usize {
        self.lists.len()
    }

    /// What became of blocks that lists brought in, all owners together.
    pub fn prefetched(&self) -> Prefetched {
        self.prefetched
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
        let mut lists = self.lists.iter_mut().filter(|list| list.in_flight.contains(&block));
        let Some(list) = lists.next() else { return false };
        list.remember_failed(block);
        self.prefetched.prefetched -= 1;
        if !self.entries[frame].brought.is_listed() {
            // Referenced already, and counted so.
            self.prefetched.used -= 1;
            self.prefetched.used_late -= 1;
        }
        self.entries[frame].brought = Brought::Reference;
        self.remove(frame);
        (0..self.lists.len()).for_each(|at| self.go_on(at));
        true
    }

    pub(crate) fn list_at(&self, owner: OwnerKey) -> Option<usize> {
        self.lists.iter().position(|list| list.owner == owner)
    }

    // Matching.

    /// P2: `owner` references `block`, and nothing has been done about it yet. Moves the cursor;
    ///     can queue drops.
    pub(crate) fn meet_list(&mut self, owner: OwnerKey, block: Block) -> Met {
        let Some(at) = self.list_at(owner) else { return Met::Nothing };
        let met = self.lists[at].meet(block, self.options.prefetching.match_steps);
        match met {
            Met::Step(step) => self.move_cursor(at, step),
            Met::Bogus => {
                self.lists.remove(at);
                self.tell(owner, Notice::ListDiscarded);
            }
            Met::Nothing | Met::Current | Met::Stranger => {}
        }
        met
    }

    /// P5: the reference has been dealt with; the block comes from the device or not. Can queue
    ///     drops and fetches.
    pub(crate) fn follow_list(&mut self, owner: OwnerKey, block: Block, met: Met, arriving: bool) {
        let Some(at) = self.list_at(owner) else { return };
        match met {
            Met::Step(_) if self.lists[at].steps.left() == 0 => {
                self.lists.remove(at);
            }
            // The device is busy for this owner, and will fall idle.
            Met::Step(_) | Met::Stranger if arriving && (met == Met::Stranger || self.when_idle()) => {
                self.lists[at].unserved = Some(block);
            }
            Met::Step(_) => self.prefetch(at),
            _ => {}
        }
    }

    fn when_idle(&self) -> bool {
        self.options.prefetching.when_idle
    }

    /// P2: steps up to `step` count as done. What was prefetched for those passed over, and is not
    ///     needed again, leaves.
    fn move_cursor(&mut self, at: usize, step: u64) {
        let half = self.options.limits.list_entries / 2;
        let ranges = self.lists[at].steps.ranges();
        let owner = self.lists[at].owner;
        let mut useless = Vec::new();
        while self.lists[at].steps.base() <= step {
            let list = &mut self.lists[at];
            let (number, Some(block)) = (list.steps.base(), list.steps.block(list.steps.base())) else {
                break;
            };
            let own = own_frame(&self.entries, owner, block);
            if own.is_some() {
                list.marks.remove(number);
            }
            let again = list.steps.pass();
            list.current = Some(block);
            match (own, again) {
                (Some(_), Some(again)) => list.marks.add(again),
                (Some(frame), None) if number < step => useless.push(frame),
                _ => {}
            }
        }
        let list = &mut self.lists[at];
        list.moved = true;
        list.hole = list.hole.max(list.steps.base());
        for frame in useless {
            let entry = self.entries[frame];
            if entry.brought == Brought::List && entry.pins == 0 {
                self.forget(entry.block);
            } else if entry.brought == Brought::List && entry.arriving {
                self.entries[frame].brought = Brought::PassedOver;
            }
        }
        self.unroll(at);
        if ranges > half && self.lists[at].steps.ranges() <= half {
            self.tell(owner, Notice::ListLow);
        }
    }

    /// Unrolls as far as the horizon.
    fn unroll(&mut self, at: usize) {
        let list = &mut self.lists[at];
        while let Some((number, block, new)) = list.steps.unroll() {
            if new && own_frame(&self.entries, list.owner, block).is_some() {
                list.marks.add(number);
            }
        }
    }

    fn tell(&mut self, key: OwnerKey, notice: Notice) {
        if let Some(owner) = self.owners.alive(key).and_then(|record| record.id) {
            self.actions.push_back(Action::Notice { owner, notice });
        }
    }

    // Fetching.

    /// P5: a batch, if there may be one.
    pub(crate) fn prefetch(&mut self, at: usize) {
        let options = self.options.prefetching;
        if !self.lists[at].in_flight.is_empty() || self.lists[at].unserved.is_some() {
            return;
        }
        self.lists[at].moved = false;
        let deserved = if options.trusting { u32::MAX } else { self.lists[at].deserved_batch() };
        let mut batch: Vec<(Block, Handle)> = Vec::new();
        while (batch.len() as u32) < options.batch.min(deserved) {
            let Some(hole) = self.next_hole(at) else { break };
            let free = self.free_blocks(at);
            if if batch.is_empty() { free < options.threshold } else { free <= options.threshold } {
                break;
            }
            let Some(block) = self.lists[at].steps.block(hole) else { break };
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

    /// P3: the first step after the cursor with a block that is neither cached nor in flight. A
    /// block that waits is a hole (W6); one that could not be read is none.
    fn next_hole(&mut self, at: usize) -> Option<u64> {
        let list = &mut self.lists[at];
        while list.hole < list.steps.end() {
            let block = list.steps.block(list.hole)?;
            let frame = self.entries.find(block);
            let weighs = frame.is_some_and(|frame| self.entries[frame].room == Room::Weighing);
            if !weighs && !list.has_failed(block) {
                return Some(list.hole);
            }
            list.hole += 1;
        }
        None
    }

    /// P3: blocks of this owner that are used after the next hole, or never; and frames that hold
    /// nothing, because filling one takes nothing from any owner.
    fn free_blocks(&self, at: usize) -> u32 {
        let list = &self.lists[at];
        let own = self.owners.alive(list.owner).map_or(0, |record| record.counters.blocks);
        let needed = list.marks.count(list.steps.base()..list.hole);
        let free = self.weighing_max().saturating_sub(self.weighed());
        own - needed + free / self.options.block_pages
    }

    /// L9: gives the block of the next hole a frame as a miss would. P6: not at the cost of a block
    /// of the same owner that is needed before.
    fn fill(&mut self, at: usize, hole: u64, block: Block) -> Filled {
        let owner = self.lists[at].owner;
        let waits = self.entries.find(block);
        if let Some(frame) = waits
            && self.entries[frame].arriving
        {
            // Lookahead's fetch is in flight: a reader of the block waits for that one.
            self.lists[at].hole += 1;
            return Filled::Moved;
        }
        // How long a file is, its list does not say.
        let pages = waits.map_or(self.options.block_pages, |frame| self.entries.pages(frame));
        self.trim_weighing();
        if self.is_too_full_for(pages) && !self.may_replace(at, hole, block) {
            return Filled::Cancelled;
        }
        if let Some(frame) = waits {
            // Lookahead foresaw it, whether it will be referenced or not.
            self.count_use(frame);
            self.entries[frame].brought = Brought::Foreseen;
            self.promote(owner, frame);
            return Filled::Moved;
        }
        while self.is_too_full_for(pages) {
            // The first victim may hold less than comes.
            if !self.may_replace(at, hole, block) || !self.replace(Some(block), owner) {
                return Filled::Cancelled;
            }
        }
        self.placeholders.take(block);
        let frame = self.enter_unreferenced(owner, block, Brought::List, pages);
        self.prefetched.prefetched += 1;
        self.lists[at].in_flight.push(block);
        Filled::Fetching(frame)
    }

    /// P6: whether the block that would leave for a prefetch may.
    fn may_replace(&self, at: usize, hole: u64, block: Block) -> bool {
        let list = &self.lists[at];
        let unpinned = |&frame: &Handle| self.entries[frame].pins == 0;
        let Some(oldest) = self.weighing.iter(&self.links).find(unpinned) else { return false };
        let named = self.placeholders.peek(block).filter(unpinned);
        let candidate = named.unwrap_or(oldest);
        if self.owners.keeper(self.entries[candidate].owner) != list.owner {
            return true;
        }
        if !self.is_trusted(at) {
            return false;
        }
        let revoked = self.owners.alive(list.owner).is_none_or(|record| record.revoked);
        let use_of = |frame: Handle| list.steps.next_use(self.entries[frame].block);
        if revoked {
            return use_of(candidate).is_none_or(|step| step > hole);
        }
        if furthest(list, &self.entries).is_some_and(|(step, _)| step > hole) {
            return true;
        }
        let record = self.owners.alive(list.owner);
        let manager = record.and_then(|record| record.manager.as_deref());
        manager.is_some_and(|manager| {
            manager.frames(&self.managed).any(|frame| unpinned(&frame) && use_of(frame).is_none())
        })
    }

    /// P8: whether the list has a say in what leaves.
    pub(crate) fn is_trusted(&self, at: usize) -> bool {
        self.options.prefetching.trusting || self.lists[at].is_trusted()
    }

    /// P6 for the owner of a candidate: its manager chooses among the blocks that its list names no
    /// more, else it is the block that the list names last. `None` when all are pinned.
    pub(crate) fn name_by_list(&mut self, at: usize) -> Option<Handle> {
        let list = &self.lists[at];
        let entries = &self.entries;
        let record = self.owners.alive_mut(list.owner)?;
        let manager = record.manager.as_mut().filter(|_| !record.revoked)?;
        let kept =
            |frame: Handle| entries[frame].pins != 0 || list.steps.next_use(entries[frame].block).is_some();
        if list.marks.len() < record.counters.blocks
            && let Some(victim) = manager.replace_block(&mut self.managed, &kept)
        {
            return Some(victim);
        }
        let (_, victim) = furthest(list, entries)?;
        manager.block_gone(&mut self.managed, &mut self.entries[victim], victim);
        Some(victim)
    }

    // What happens to blocks.

    /// A block became its owner's, and its manager keeps it (I2).
    pub(crate) fn list_gained(&mut self, frame: Handle) {
        self.with_mark(frame, Marks::add);
    }

    /// A block that a manager kept is its owner's no longer (I2).
    pub(crate) fn list_lost(&mut self, frame: Handle) {
        self.with_mark(frame, Marks::remove);
    }

    fn with_mark(&mut self, frame: Handle, change: impl FnOnce(&mut Marks, u64)) {
        let entry = &self.entries[frame];
        if let Some(list) = self.lists.iter_mut().find(|list| list.owner == entry.owner)
            && let Some(step) = list.steps.next_use(entry.block)
        {
            change(&mut list.marks, step);
        }
    }

    /// A block left the cache.
    pub(crate) fn list_gone(&mut self, block: Block) {
        for list in &mut self.lists {
            list.gone(block);
            list.answered(block);
        }
    }

    /// A fetch has ended, well or not.
    pub(crate) fn list_answered(&mut self, block: Block, room: Room) {
        if room == Room::Waiting {
            // Cached now, and waiting: a hole again (W6).
            self.lists.iter_mut().for_each(|list| list.gone(block));
        }
        let waited: Vec<usize> = (0..self.lists.len()).filter(|&at| self.lists[at].answered(block)).collect();
        self.flush_passed_over(block);
        waited.into_iter().for_each(|at| self.go_on(at));
    }

    /// P2: a block that the cursor passed over while it was in flight has arrived.
    pub(crate) fn flush_passed_over(&mut self, block: Block) {
        let Some(frame) = self.entries.find(block) else { return };
        let entry = self.entries[frame];
        if entry.brought != Brought::PassedOver || entry.pins > 0 {
            return;
        }
        let list = self.list_at(entry.owner).map(|at| &self.lists[at]);
        if list.is_some_and(|list| list.steps.next_use(block).is_some()) {
            self.entries[frame].brought = Brought::List;
        } else {
            self.forget(block);
        }
    }

    /// P5: something that the list waited for is settled.
    fn go_on(&mut self, at: usize) {
        if self.when_idle() || self.options.prefetching.catches_up && self.lists[at].moved {
            self.prefetch(at);
        }
    }

    /// A prefetch could not be read: it is counted and forgotten. The later demand read reports the
    /// error.
    pub(crate) fn list_failed(&mut self, frame: Handle) {
        let entry = self.entries[frame];
        if entry.brought.is_listed() {
            self.prefetched.failed += 1;
            self.entries[frame].brought = Brought::Reference;
        }
        for list in &mut self.lists {
            if list.in_flight.contains(&entry.block) {
                list.remember_failed(entry.block);
            }
        }
    }

    /// A prefetched block is referenced for the first time.
    pub(crate) fn count_use(&mut self, frame: Handle) {
        let entry = &mut self.entries[frame];
        match core::mem::replace(&mut entry.brought, Brought::Reference) {
            Brought::List | Brought::PassedOver => {
                self.prefetched.used += 1;
                self.prefetched.used_late += u64::from(entry.arriving);
            }
            Brought::Lookahead => {
                self.looked.used += 1;
                self.looked.used_late += u64::from(entry.arriving);
                self.sizing.proved();
            }
            Brought::Reference | Brought::Foreseen | Brought::Nothing => {}
        }
    }

    /// A block left before its first reference.
    pub(crate) fn count_waste(&mut self, brought: Brought) {
        match brought {
            Brought::List | Brought::PassedOver => self.prefetched.wasted += 1,
            Brought::Lookahead => self.looked.wasted += 1,
            Brought::Reference | Brought::Foreseen | Brought::Nothing => {}
        }
    }

    /// Checks I1 and I2, and the steps of every list.
    pub(crate) fn validate_lists(&self) {
        for list in &self.lists {
            list.steps.validate();
            let used = |frame: Handle| list.steps.next_use(self.entries[frame].block);
            let own = self.weighing.iter(&self.links).filter(|&frame| {
                self.entries[frame].owner == list.owner && self.entries[frame].level != NO_LEVEL
            });
            let mut marked = 0;
            for step in own.filter_map(used) {
                assert!(list.marks.has(step), "I2: step {step} is not marked");
                marked += 1;
            }
            assert_eq!(list.marks.len(), marked, "I2: marks");
            for step in list.steps.base()..list.hole.min(list.steps.end()) {
                let block = list.steps.block(step).expect("D1: the step is unrolled");
                let frame = self.entries.find(block);
                assert!(frame.is_some() || list.has_failed(block), "I1: {block} at step {step} is a hole");
            }
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

/// The frame of a block that its owner's manager keeps.
fn own_frame(entries: &crate::entry::Entries, owner: OwnerKey, block: Block) -> Option<Handle> {
    let kept = |&frame: &Handle| entries[frame].owner == owner && entries[frame].level != NO_LEVEL;
    entries.find(block).filter(kept)
}

/// The owner's unpinned block that the list names last, and where.
fn furthest(list: &List, entries: &crate::entry::Entries) -> Option<(u64, Handle)> {
    let mut end = list.steps.end();
    while let Some(step) = list.marks.last_before(list.steps.base(), end) {
        let frame = entries.find(list.steps.block(step)?)?;
        if entries[frame].pins == 0 {
            return Some((step, frame));
        }
        end = step;
    }
    None
}
