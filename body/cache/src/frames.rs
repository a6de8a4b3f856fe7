//! The bookkeeping behind the cache's one lock: what each frame holds.
//!
//! F1  A slot that is not empty has a buffer, unless the kernel has its block (K2 of `lending`);
//!     no two slots have the same.
//! F2  Every buffer that was taken is in a slot, or was put back: also while a fetch or an update
//!     goes on with it after its slot was taken away.
//! F3  A slot's ticket changes whenever its content is invalidated, so a thread that waited or
//!     worked outside the lock can tell.
//! F4  A slot that is queued belongs to no thread yet: the holder of the lock may take it, a demand
//!     before its turn unless it keeps its place in a batch.
//! F5  A block that ends before what a reader asks for and knows the file to have is brought again,
//!     by this reader, and taken as it comes: the file may have shrunk behind the cache
//!     (docs/decisions/0128-a-reader-that-knows-more-fetches-again.md).

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use pantler_kernel::clock;
use pantler_steward::{Action, Block, FileId, Frame, Kept, OwnerId, Steward, Why};
use pantler_tier::Put;

use crate::lending::Lending;
use crate::lower::Below;
use crate::memory::{Buffers, Slab};
use crate::notices::Notices;
use crate::pages::{Cut, Pages};
use crate::request::Request;
use crate::scheduler::{BlockFetch, Scheduler, Wanted};

/// No buffer.
const NONE: u32 = u32::MAX;

/// What a frame holds.
///
/// ```text
///          obey: for a list, or looked ahead            take_queued: a prefetch begins it,
///   Empty ----------------------------------> Queued    or a reader needs it now
///     |  obey: a reader waits                    |          |
///     '---------------------------------------.  |  .-------'
///                                             v  v  v   publish
///   any --- empty: dropped, invalid --> Empty Filling --------------> Ready
///           or failed (F3)                       ^                      |
///                                                '----------------------'
///                                  begin_more: other pages of it; update: a write
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing.
    Empty,
    /// Nothing yet: a prefetch that is not begun (F4).
    Queued,
    /// A buffer that is being filled; wait for it.
    Filling,
    /// Bytes.
    Ready,
}

/// A frame of no block.
pub(crate) const EMPTY: Slot =
    Slot { ticket: 0, buffer: NONE, valid: 0, state: State::Empty, held: Pages::NONE };

/// One frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) ticket: u64,
    pub(crate) buffer: u32,
    /// Bytes that the file had in this block; fewer than a block at the end of the file.
    pub(crate) valid: u32,
    pub(crate) state: State,
    /// Pages that are here. While others are brought, the slot is being filled, and readers of the
    /// block wait.
    pub(crate) held: Pages,
}

impl Slot {
    /// Whether it has a buffer: bytes that the kernel has need none.
    pub(crate) fn has_buffer(&self) -> bool {
        self.buffer != NONE
    }

    /// Which of these pages are to be brought: those of the file that are not here.
    pub(crate) fn lacks(&self, pages: Pages, cut: Cut) -> Pages {
        pages & cut.touched(0..self.valid as usize) & !self.held
    }
}

/// A block, or pages of one, that a thread fetches.
#[derive(Clone, Copy)]
pub(crate) struct Missing {
    pub(crate) block: Block,
    pub(crate) frame: Frame,
    /// As it was when the fetch began. If it held pages, others of them are fetched now.
    pub(crate) slot: Slot,
    /// What is fetched: side by side.
    pub(crate) pages: Pages,
    /// Bytes that the block has at least, as far as is known; 0 when nothing is.
    pub(crate) extent: u32,
    /// Whether the block comes anew, and not more of it.
    pub(crate) is_new: bool,
    /// The owner whose reference or lookahead asks for it.
    pub(crate) owner: OwnerId,
}

impl Missing {
    /// Where in its block the bytes are.
    pub(crate) fn range(&self, cut: Cut) -> Range<usize> {
        cut.bytes(&self.pages.first_run().unwrap_or_default())
    }

    /// What the block holds after `count` bytes of this came, and how many bytes the file has
    /// there. Fewer than there should be are the last before the end of the file.
    pub(crate) fn holds_with(&self, count: usize, cut: Cut) -> (Pages, u32) {
        let range = self.range(cut);
        let (end, expected) = (range.start + count, range.end.min(self.extent as usize));
        let valid = if end < expected { end } else { end.max(self.extent as usize) };
        let held = self.slot.held | cut.touched(range.start..end);
        (held & cut.touched(0..valid), valid as u32)
    }
}

pub(crate) struct Frames {
    steward: Steward,
    /// Lower tiers, when there are some.
    below: Option<Below>,
    /// What the kernel has, where it keeps blocks.
    lending: Option<Lending>,
    slots: Vec<Slot>,
    buffers: Buffers,
    tickets: u64,
    /// Threads that sleep until something arrives or is given up.
    sleepers: u32,
    notices: Notices,
    /// What is wanted and not handed over yet.
    wanted: VecDeque<Wanted>,
    scheduler: Scheduler,
    /// Threads that read ahead.
    workers: u32,
    /// They end.
    is_stopping: bool,
}

impl Frames {
    pub(crate) fn new(
        steward: Steward,
        buffers: Buffers,
        scheduler: Scheduler,
        below: Option<Below>,
        lending: Option<Lending>,
    ) -> Self {
        Self {
            steward,
            below,
            lending,
            slots: Vec::new(),
            buffers,
            tickets: 0,
            sleepers: 0,
            notices: Notices::default(),
            wanted: VecDeque::new(),
            scheduler,
            workers: 0,
            is_stopping: false,
        }
    }

    pub(crate) fn steward(&self) -> &Steward {
        &self.steward
    }

    pub(crate) fn steward_mut(&mut self) -> &mut Steward {
        &mut self.steward
    }

    pub(crate) fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    pub(crate) fn scheduler_mut(&mut self) -> &mut Scheduler {
        &mut self.scheduler
    }

    pub(crate) fn notices_mut(&mut self) -> &mut Notices {
        &mut self.notices
    }

    pub(crate) fn below(&self) -> Option<&Below> {
        self.below.as_ref()
    }

    pub(crate) fn slot(&self, frame: Frame) -> Slot {
        self.slots[frame.0 as usize]
    }

    fn slot_mut(&mut self, frame: Frame) -> &mut Slot {
        &mut self.slots[frame.0 as usize]
    }

    /// Whether the bytes of a block are still awaited where they are brought to (F3).
    pub(crate) fn awaits(&self, missing: &Missing) -> bool {
        self.slot(missing.frame).ticket == missing.slot.ticket
    }

    /// The slot of a block, if it has one.
    pub(crate) fn find(&self, block: Block) -> Option<(Frame, Slot)> {
        let frame = self.steward.lookup(block)?;
        Some((frame, self.slot(frame)))
    }

    /// Carries out what the steward decided.
    pub(crate) fn obey(&mut self, slab: &Slab) {
        while let Some(action) = self.steward.poll() {
            match action {
                Action::Drop { block, frame, to } => {
                    if let Some(to) = to {
                        self.put(frame, to, Put::Demote, slab);
                    }
                    self.empty(block, frame, slab);
                }
                Action::Put { frame, to } => self.put(frame, to, Put::Keep, slab),
                Action::Pass { label, from, accessed_us } => {
                    let below = self.below.as_ref();
                    if !below.is_some_and(|below| below.pass(label, from, accessed_us)) {
                        self.steward.left(label, None);
                    }
                }
                Action::Remove { label, from } => {
                    if let Some(below) = &self.below {
                        below.remove(label, from);
                    }
                }
                // Whichever tier has it: another client may have moved it.
                Action::Fetch { block, frame, why, from: _ } => {
                    if why == Why::Demand {
                        self.reserve(frame, State::Filling);
                        continue;
                    }
                    let ticket = self.reserve(frame, State::Queued);
                    self.wanted.push_back(Wanted { block, frame, ticket, why });
                }
                Action::Notice { owner, notice } => self.notices.push(owner, notice),
                _ => {}
            }
        }
    }

    /// The lists of owners that have none any more are not read ahead for.
    pub(crate) fn keep_lists(&mut self) {
        let Self { scheduler, steward, .. } = self;
        scheduler.keep_lists(steward.lists(), |owner| steward.list(owner).is_some());
    }

    /// Tells the steward something of lower tiers, if there are some.
    pub(crate) fn tell_steward(&mut self, tell: impl FnOnce(&Below, &mut Steward)) {
        if let Some(below) = &self.below {
            tell(below, &mut self.steward);
        }
    }

    /// Whether something is wanted that is not queued yet.
    pub(crate) fn wants(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Queues what the steward wants beside what a reader waits for. What it looked ahead comes
    /// from where the reader's file does. Says how many blocks are new.
    pub(crate) fn queue_wanted(&mut self, request: Option<&Request<'_>>, cut: Cut, slab: &Slab) -> u32 {
        let mut count = 0;
        while let Some(wanted) = self.wanted.pop_front() {
            if !self.is_queued(&wanted) {
                continue;
            }
            if self.workers == 0 {
                self.give_up(wanted, slab);
                continue;
            }
            let offset = cut.offset(wanted.block);
            let is_known = match (wanted.why, request) {
                (Why::List, _) => {
                    let owner = self.steward.explain(wanted.block).and_then(|known| known.owner);
                    owner.is_some_and(|owner| self.scheduler.submit_listed(wanted, owner, offset))
                }
                // Not past the end of the file.
                (_, Some(request)) if request.file == wanted.block.file && offset < request.size => {
                    let (owner, source) = (request.owner, Arc::clone(request.source));
                    self.scheduler.submit(BlockFetch { wanted, owner, position: 0, source });
                    true
                }
                _ => false,
            };
            match is_known {
                true => count += 1,
                false => self.fail(wanted.block, wanted.frame, slab),
            }
        }
        count
    }

    pub(crate) fn is_queued(&self, wanted: &Wanted) -> bool {
        let slot = self.slot(wanted.frame);
        slot.ticket == wanted.ticket && slot.state == State::Queued
    }

    /// A prefetch that will not be begun. It says nothing about its block.
    pub(crate) fn give_up(&mut self, wanted: Wanted, slab: &Slab) {
        if self.is_queued(&wanted) {
            self.discard(wanted.block, slab);
        }
    }

    /// What was ordered of lower tiers may be done.
    pub(crate) fn release(&mut self, slab: &Slab) {
        self.obey(slab);
        if let Some(below) = &self.below {
            below.release_orders();
        }
    }

    /// The bytes of a frame go to a lower tier, if they are here and there is room on the way.
    fn put(&mut self, frame: Frame, to: Kept, why: Put, slab: &Slab) {
        let Slot { state, buffer, valid, .. } = self.slots[frame.0 as usize];
        if let Some(below) = self.below.as_ref().filter(|_| state == State::Ready) {
            slab.enter(buffer);
            if below.put(to, why, (buffer, valid)) {
                return;
            }
            slab.leave(buffer);
        }
        self.steward.left(to.label, Some(to.tier));
    }

    /// Gives a frame that awaits bytes an idle buffer, with memory for `pages`, of which the caller
    /// becomes the only user. `None` while all spare buffers are in use.
    pub(crate) fn equip(&mut self, frame: Frame, pages: Pages, slab: &Slab) -> Option<Slot> {
        let buffer = self.buffers.take(slab)?;
        self.buffers.back(buffer, pages, slab);
        slab.enter(buffer);
        let slot = self.slot_mut(frame);
        assert!(slot.state == State::Filling && slot.buffer == NONE, "F1: {frame:?} has a buffer already");
        slot.buffer = buffer;
        Some(*slot)
    }

    /// From now on a frame that has bytes is being filled with more of them, and readers of its
    /// block wait. The caller becomes a user of its buffer, which has memory for `pages`, too.
    /// `None` while it needs a buffer and all spare ones are in use.
    pub(crate) fn refill(&mut self, frame: Frame, pages: Pages, slab: &Slab) -> Option<Slot> {
        if !self.slot(frame).has_buffer() {
            self.slot_mut(frame).buffer = self.buffers.take(slab)?;
        }
        let slot = self.slot_mut(frame);
        assert!(slot.state == State::Ready, "F1: {frame:?} has no bytes");
        slot.state = State::Filling;
        let slot = *slot;
        slab.enter(slot.buffer);
        self.buffers.back(slot.buffer, slot.held | pages, slab);
        Some(slot)
    }

    /// A block holds these bytes from now on, `valid` of which the file has: readers may have them.
    pub(crate) fn publish(&mut self, block: Block, frame: Frame, held: Pages, valid: u32, slab: &Slab) {
        let slot = self.slot_mut(frame);
        *slot = Slot { valid, held, state: State::Ready, ..*slot };
        let buffer = slot.buffer;
        self.buffers.back(buffer, held, slab);
        self.steward.weigh(block, (held | self.lent(frame)).count());
    }

    /// Pages of a frame's block that the kernel may have.
    pub(crate) fn lent(&self, frame: Frame) -> Pages {
        self.lending.as_ref().map_or(Pages::NONE, |lending| lending.pages(frame))
    }

    /// Blocks of which the kernel may have pages.
    pub(crate) fn lent_blocks(&self) -> u64 {
        self.lending.as_ref().map_or(0, Lending::blocks)
    }

    /// The kernel will get pages of a block, and asked for them by now (K1).
    pub(crate) fn lend(&mut self, block: Block, frame: Frame, pages: Pages, inode: u64) {
        let Some(lending) = &mut self.lending else { return };
        lending.lend(frame, pages, inode, clock::monotonic_ns());
        if lending.pass(block, frame) {
            self.steward.pin(block);
        }
        while let Some(block) = lending.pass_no_more() {
            self.steward.unpin(block);
        }
    }

    /// The kernel gets what it asked for of a block: of a block that it has all of nothing is kept
    /// here (K2). A thread that reads it now is a user of the buffer, which stays as it is until
    /// then (M2).
    pub(crate) fn hand_over(&mut self, block: Block, slab: &Slab) {
        let Some((frame, slot)) = self.find(block) else { return };
        let lent = self.lent(frame);
        if slot.state == State::Ready && slot.has_buffer() && (slot.held & !lent).is_empty() {
            *self.slot_mut(frame) = Slot { buffer: NONE, held: Pages::NONE, ..slot };
            self.buffers.put_back(slot.buffer, slab);
        }
        self.steward.weigh(block, (self.slot(frame).held | lent).count());
    }

    /// Pages of a block were read at that time: those for which that is a new reference.
    pub(crate) fn seen(&mut self, block: Block, frame: Frame, pages: Pages, time_ns: u64) -> Pages {
        let valid = self.slot(frame).valid;
        let Some(lending) = &mut self.lending else { return Pages::NONE };
        let new = lending.seen(frame, pages, time_ns);
        if lending.has_passed(frame, valid) {
            self.steward.unpin(block);
        }
        new
    }

    /// The kernel dropped pages of a block at that time.
    pub(crate) fn gone(&mut self, block: Block, frame: Frame, pages: Pages, time_ns: u64, slab: &Slab) {
        let Some(lending) = &mut self.lending else { return };
        lending.gone(frame, pages, time_ns);
        let (lent, slot) = (lending.pages(frame), self.slot(frame));
        if slot.state != State::Ready {
            // What comes weighs it.
            return;
        }
        match (slot.held | lent).count() {
            0 => self.discard(block, slab),
            count => self.steward.weigh(block, count),
        }
    }

    /// The kernel gets pages of a block that has left: it gives them back at once.
    pub(crate) fn refuse(&self, block: Block, pages: Pages, inode: u64) {
        if let Some(lending) = &self.lending {
            lending.drop_pages(inode, block, pages);
        }
    }

    /// The version `old` of a file is no more, `new` is. The kernel is told by the body to drop
    /// what it has of the file.
    pub(crate) fn supersede(&mut self, old: FileId, new: FileId, slab: &Slab) {
        self.steward.supersede(old, new);
        self.set_quiet(true);
        self.obey(slab);
        self.set_quiet(false);
    }

    fn set_quiet(&mut self, is_quiet: bool) {
        if let Some(lending) = &mut self.lending {
            lending.set_quiet(is_quiet);
        }
    }

    /// A write made the last bytes of a block that the kernel has.
    pub(crate) fn extend(&mut self, frame: Frame, valid: u32) {
        let slot = self.slot_mut(frame);
        slot.valid = slot.valid.max(valid);
    }

    /// The block leaves without being replaced: a failed fetch, or content that was invalidated.
    pub(crate) fn discard(&mut self, block: Block, slab: &Slab) {
        self.steward.forget(block);
        self.obey(slab);
    }

    /// A block of this frame is needed by `owner`: takes it out of the queue, if it is there and
    /// does not keep its place (Q6). The caller that gets it brings its bytes (F4); else they come.
    pub(crate) fn take_needed(&mut self, frame: Frame, owner: OwnerId) -> bool {
        let Slot { ticket, state, .. } = self.slot(frame);
        if state == State::Queued && self.scheduler.keeps_its_place(ticket) {
            self.scheduler.hurry(ticket, owner);
            return false;
        }
        self.take_queued(frame)
    }

    /// Takes a slot out of the queue, if it is there: the caller brings its bytes (F4).
    pub(crate) fn take_queued(&mut self, frame: Frame) -> bool {
        let slot = self.slot_mut(frame);
        let Slot { ticket, state: State::Queued, .. } = *slot else { return false };
        slot.state = State::Filling;
        self.scheduler.cancel(ticket);
        true
    }

    /// A prefetch brought nothing: counted and forgotten.
    pub(crate) fn fail(&mut self, block: Block, frame: Frame, slab: &Slab) {
        self.empty(block, frame, slab);
        self.steward.failed(block);
        self.obey(slab);
    }

    fn reserve(&mut self, frame: Frame, state: State) -> u64 {
        let index = frame.0 as usize;
        if index >= self.slots.len() {
            self.slots.resize(index + 1, EMPTY);
        }
        assert!(self.slots[index].state == State::Empty, "F1: {frame:?} is not empty");
        self.tickets += 1;
        self.slots[index] = Slot { ticket: self.tickets, state, ..EMPTY };
        self.tickets
    }

    fn empty(&mut self, block: Block, frame: Frame, slab: &Slab) {
        if let Some(lending) = &mut self.lending {
            lending.leave(block, frame);
        }
        self.tickets += 1;
        let emptied = Slot { ticket: self.tickets, ..EMPTY };
        let before = std::mem::replace(self.slot_mut(frame), emptied);
        if before.state == State::Queued {
            self.scheduler.cancel(before.ticket);
        }
        if before.buffer != NONE {
            self.buffers.put_back(before.buffer, slab);
        }
    }

    /// Threads that sleep until something arrives or is given up.
    pub(crate) fn sleepers(&self) -> u32 {
        self.sleepers
    }

    pub(crate) fn sleeper_begins(&mut self) {
        self.sleepers += 1;
    }

    pub(crate) fn sleeper_ends(&mut self) {
        self.sleepers -= 1;
    }

    /// Threads that read ahead.
    pub(crate) fn workers(&self) -> u32 {
        self.workers
    }

    pub(crate) fn worker_begins(&mut self) {
        self.workers += 1;
    }

    /// Queued blocks do not come any more after the last, and a queued block is pinned: they are
    /// given up then, and this is true.
    pub(crate) fn worker_ends(&mut self, slab: &Slab) -> bool {
        self.workers -= 1;
        if self.workers == 0 {
            for fetch in self.scheduler.abandon() {
                self.give_up(fetch.wanted, slab);
            }
        }
        self.workers == 0
    }

    /// Threads that read ahead end.
    pub(crate) fn stop(&mut self) {
        self.is_stopping = true;
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// Whether a frame can be [equipped](Self::equip) now.
    pub(crate) fn has_idle_buffer(&self, slab: &Slab) -> bool {
        self.buffers.has_idle(slab)
    }

    /// Recomputes what must hold, and panics with the number of what does not.
    pub(crate) fn validate(&self, slab: &Slab) {
        self.steward.validate();
        self.scheduler.validate();
        let mut used = vec![None; slab.buffers() as usize];
        for (index, slot) in self.slots.iter().enumerate() {
            let filled = slot.has_buffer();
            let is_lent = !self.lent(Frame(index as u32)).is_empty();
            assert!(
                slot.state != State::Ready || filled || is_lent && slot.held.is_empty(),
                "F1: slot {index} is ready without a buffer"
            );
            assert!(slot.state != State::Empty || !filled, "F1: slot {index} is empty with a buffer");
            assert!(slot.state != State::Queued || !filled, "F4: slot {index} is queued with a buffer");
            if filled {
                let before = used[slot.buffer as usize].replace(slot.held);
                assert_eq!(before, None, "F1: buffer {} is in two slots", slot.buffer);
            }
        }
        self.buffers.validate(&used);
    }
}
