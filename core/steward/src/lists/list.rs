//! One owner's access list: the cursor, the next hole, and what is in flight.
//!
//! ```text
//!                 begin_batch, fetches --> fetching --- answered: the last of the batch ---+
//!   new --> idle                                                                           |
//!            ^    await_serving ---------> unserved --- answered: the reader's block ------+
//!            +-----------------------------------------------------------------------------+
//!   `Lists::remove` ends it in any state: all steps are done, P2 discards it, its owner says so
//! ```
//!
//! I1  Every step from the first after the cursor to before `hole` has its block in the weighing
//!     room, or failed, or was referenced.
//! I2  `marks` has the next use of exactly the owner's blocks that the steps name.

use alloc::vec::Vec;

use pantler_policy::Handle;

use super::steps::Steps;
use super::{Chunk, HORIZON, ListStat, MATCH_STEPS_MAX, Prefetching, chunk};
use crate::entry::{Entries, NO_LEVEL, Room};
use crate::marks::Marks;
use crate::owners::{NOBODY, OwnerKey, Owners};
use crate::{Block, HintError};

/// References to listed files that are remembered (P2).
const HISTORY: u32 = 64;

/// Blocks of failed prefetches that are remembered, so that they are not tried again at once.
const FAILED_MAX: usize = 64;

/// What a reference was to the list (P2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Met {
    /// A file that the list does not name, or no list.
    Nothing,
    /// The cursor's own block, or that of a step that was matched early.
    Current,
    /// A step: those before this number are to be passed.
    Step(u64),
    /// A step behind one that is still awaited (P9): nothing is to be passed.
    Early,
    /// A listed file, but none of the next steps.
    Stranger,
    /// The same, once too often: the list is worth nothing.
    Bogus,
}

#[derive(Clone, Debug)]
pub(crate) struct List {
    owner: OwnerKey,
    steps: Steps,
    /// The last range as it was given.
    last: Option<Chunk>,
    marks: Marks,
    /// The cursor's block.
    current: Option<Block>,
    /// The steps from the first after the cursor on that were referenced, that one lowest (P9).
    early: u128,
    hole: u64,
    /// Prefetches in flight, at most a batch.
    in_flight: Vec<Block>,
    /// A reference that the list did not foresee, and that is not served yet.
    unserved: Option<Block>,
    failed: Vec<Block>,
    /// The last references to listed files, the newest lowest: 1 did not match.
    history: u64,
    /// References that matched a step.
    matched: u32,
    /// The cursor has moved since the last batch.
    moved: bool,
}

impl List {
    /// A list of these ranges, which no owner has yet.
    pub(crate) fn new(chunks: &[Chunk], limit: u32, seed: u64) -> Result<Self, HintError> {
        let mut list = Self {
            owner: NOBODY,
            steps: Steps::new(HORIZON, seed),
            last: None,
            marks: Marks::new(HORIZON),
            current: None,
            early: 0,
            hole: 0,
            in_flight: Vec::new(),
            unserved: None,
            failed: Vec::new(),
            history: 0,
            matched: 0,
            moved: false,
        };
        list.extend(chunks, limit)?;
        Ok(list)
    }

    pub(super) fn of(self, owner: OwnerKey) -> Self {
        Self { owner, ..self }
    }

    pub(crate) fn owner(&self) -> OwnerKey {
        self.owner
    }

    /// P1: adds ranges at the end.
    pub(crate) fn extend(&mut self, chunks: &[Chunk], limit: u32) -> Result<(), HintError> {
        let accepted = chunk::check(self.last, chunks)?;
        if accepted.len() + self.steps.ranges() as usize > limit as usize {
            return Err(HintError::TooManyEntries(limit));
        }
        accepted.into_iter().for_each(|chunk| self.steps.push(chunk));
        self.last = chunks.last().copied().or(self.last);
        Ok(())
    }

    /// P2: what a reference of the owner to `block` is. Nothing moves yet.
    pub(crate) fn meet(&mut self, block: Block, options: &Prefetching) -> Met {
        if self.current == Some(block) {
            self.history <<= 1;
            return Met::Current;
        }
        let match_steps = u64::from(options.match_steps.min(MATCH_STEPS_MAX));
        let near = self.steps.base() + self.early_steps() + match_steps;
        if let Some(step) = self.steps.next_use(block).filter(|&step| step < near) {
            self.history <<= 1;
            return self.meet_step(step, if options.any_order { match_steps } else { 0 });
        }
        let named = |current: Block| current.file == block.file;
        if !self.steps.names(block.file) && !self.current.is_some_and(named) {
            return Met::Nothing;
        }
        self.history = self.history << 1 | 1;
        if self.history.count_ones() > HISTORY / 2 { Met::Bogus } else { Met::Stranger }
    }

    /// P9: `step` is referenced, and steps are awaited until a reference is `awaited` steps ahead.
    fn meet_step(&mut self, step: u64, awaited: u64) -> Met {
        let base = self.steps.base();
        let bit = 1 << (step - base);
        if self.early & bit != 0 {
            return Met::Current;
        }
        self.early |= bit;
        self.matched = self.matched.saturating_add(1);
        let done = (step + 1).saturating_sub(awaited);
        if done > base || self.is_early(base) { Met::Step(done) } else { Met::Early }
    }

    /// Steps after the cursor, as far as the last that was referenced.
    fn early_steps(&self) -> u64 {
        u64::from(u128::BITS - self.early.leading_zeros())
    }

    /// Whether a step after the cursor was referenced already.
    fn is_early(&self, step: u64) -> bool {
        let ahead = step - self.steps.base();
        ahead < self.early_steps() && self.early >> ahead & 1 != 0
    }

    // The cursor.

    /// P2, P9: steps before `done` count as done, and those after them that were referenced. Gives
    ///     the blocks of those passed over that are not needed again.
    pub(crate) fn pass(&mut self, done: u64, entries: &Entries) -> Vec<Handle> {
        let mut useless = Vec::new();
        while self.steps.base() < done || self.is_early(self.steps.base()) {
            let number = self.steps.base();
            let Some(block) = self.steps.block(number) else { break };
            let own = self.own_frame(block, entries);
            if own.is_some() {
                self.marks.remove(number);
            }
            let was_referenced = self.is_early(number);
            self.early >>= 1;
            let again = self.steps.pass();
            self.current = Some(block);
            match (own, again) {
                (Some(_), Some(again)) => self.marks.add(again),
                (Some(frame), None) if !was_referenced => useless.push(frame),
                _ => {}
            }
        }
        self.moved = true;
        self.hole = self.hole.max(self.steps.base());
        useless
    }

    /// Unrolls as far as the horizon.
    pub(crate) fn unroll(&mut self, entries: &Entries) {
        while let Some((number, block, new)) = self.steps.unroll() {
            if new && self.own_frame(block, entries).is_some() {
                self.marks.add(number);
            }
        }
    }

    /// The frame of a block that the owner's manager keeps.
    fn own_frame(&self, block: Block, entries: &Entries) -> Option<Handle> {
        let kept = |&frame: &Handle| entries[frame].owner == self.owner && entries[frame].level != NO_LEVEL;
        entries.find(block).filter(kept)
    }

    pub(crate) fn ranges(&self) -> u32 {
        self.steps.ranges()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.steps.left() == 0
    }

    /// When `block` is next used.
    pub(crate) fn next_use(&self, block: Block) -> Option<u64> {
        self.steps.next_use(block)
    }

    // What leaves.

    /// P8: whether the list has a say in what leaves: some of it came true, and no less than did
    /// not lately.
    pub(crate) fn is_trusted(&self, options: &Prefetching) -> bool {
        options.trusting || self.matched > 0 && self.history.count_ones() <= self.matched
    }

    /// P6 for the owner of a candidate: its manager chooses among the blocks that its list names no
    /// more, else it is the block that the list names last. `None` when all are pinned.
    pub(crate) fn name_victim(&self, owners: &mut Owners, entries: &mut Entries) -> Option<Handle> {
        if owners.is_revoked(self.owner) {
            return None;
        }
        let kept = |frame: Handle| {
            let entry = &entries[frame];
            entry.is_pinned() || self.next_use(entry.block).is_some()
        };
        if self.marks.len() < owners.blocks(self.owner)
            && let Some(victim) = owners.replace_block(self.owner, &kept)
        {
            return Some(victim);
        }
        let (_, victim) = self.furthest(entries)?;
        if let Some((manager, managed)) = owners.manager_mut(self.owner) {
            manager.block_gone(managed, &mut entries[victim], victim);
        }
        Some(victim)
    }

    /// P6: whether [`name_victim`](Self::name_victim) would give up `candidate` or another block
    /// that is not needed before `hole`.
    pub(crate) fn spares(&self, hole: u64, candidate: Handle, owners: &Owners, entries: &Entries) -> bool {
        let use_of = |frame: Handle| self.next_use(entries[frame].block);
        if owners.is_revoked(self.owner) {
            return use_of(candidate).is_none_or(|step| step > hole);
        }
        let is_free = |frame: Handle| !entries[frame].is_pinned() && use_of(frame).is_none();
        self.furthest(entries).is_some_and(|(step, _)| step > hole) || owners.listed(self.owner).any(is_free)
    }

    /// The owner's unpinned block that the list names last, and where.
    fn furthest(&self, entries: &Entries) -> Option<(u64, Handle)> {
        let mut end = self.steps.end();
        while let Some(step) = self.marks.last_before(self.steps.base(), end) {
            let frame = entries.find(self.steps.block(step)?)?;
            if !entries[frame].is_pinned() {
                return Some((step, frame));
            }
            end = step;
        }
        None
    }

    // What is fetched.

    /// P5: begins a batch, if there may be one. Says how many requests it may have, by P8 for what
    /// came true of the list so far.
    pub(crate) fn begin_batch(&mut self, options: &Prefetching) -> Option<u32> {
        if !self.in_flight.is_empty() || self.unserved.is_some() {
            return None;
        }
        self.moved = false;
        let deserved = if options.trusting { u32::MAX } else { self.matched.saturating_add(1) };
        Some(options.batch.min(deserved))
    }

    /// P5: whether the cursor has moved since the last batch.
    pub(crate) fn has_moved(&self) -> bool {
        self.moved
    }

    /// P3: the first step after the cursor with a block that is neither cached nor in flight, and
    /// the block. One that waits is a hole (W6); one that could not be read is none.
    pub(crate) fn next_hole(&mut self, entries: &Entries) -> Option<(u64, Block)> {
        while self.hole < self.steps.end() {
            let block = self.steps.block(self.hole)?;
            let weighs = entries.find(block).is_some_and(|frame| entries[frame].room == Room::Weighing);
            if !weighs && !self.failed.contains(&block) && !self.is_early(self.hole) {
                return Some((self.hole, block));
            }
            self.hole += 1;
        }
        None
    }

    /// A hole is filled by another.
    pub(crate) fn skip_hole(&mut self) {
        self.hole += 1;
    }

    /// Blocks of the owner that are used before the hole (P3).
    pub(crate) fn needed(&self) -> u32 {
        self.marks.count(self.steps.base()..self.hole)
    }

    /// The owner's reader waits for a block: nothing is prefetched until that is served.
    pub(crate) fn await_serving(&mut self, block: Block) {
        self.unserved = Some(block);
    }

    pub(super) fn fetches(&mut self, block: Block) {
        self.in_flight.push(block);
    }

    // What happens to blocks.

    pub(super) fn gained(&mut self, block: Block) {
        if let Some(step) = self.next_use(block) {
            self.marks.add(step);
        }
    }

    pub(super) fn lost(&mut self, block: Block) {
        if let Some(step) = self.next_use(block) {
            self.marks.remove(step);
        }
    }

    /// A block could not be read: it is not tried again at once. Says whether it was in flight for
    /// this list.
    pub(super) fn failed(&mut self, block: Block) -> bool {
        let was_in_flight = self.in_flight.contains(&block);
        if was_in_flight {
            if self.failed.len() == FAILED_MAX {
                self.failed.remove(0);
            }
            self.failed.push(block);
        }
        was_in_flight
    }

    /// `block` is there, or will not come. Says whether the list had waited for it.
    pub(super) fn answered(&mut self, block: Block) -> bool {
        let served = self.unserved.take_if(|unserved| *unserved == block).is_some();
        let at = self.in_flight.iter().position(|&other| other == block);
        at.map(|at| self.in_flight.swap_remove(at)).is_some() || served
    }

    /// `block` left the weighing room: it may be the next hole (P3).
    pub(super) fn gone(&mut self, block: Block) {
        if let Some(step) = self.steps.next_use(block) {
            self.hole = self.hole.min(step);
        }
    }

    pub(crate) fn stat(&self) -> ListStat {
        ListStat {
            ranges: self.steps.ranges(),
            done: self.steps.base(),
            left: self.steps.left(),
            in_flight: self.in_flight.len() as u32,
        }
    }

    /// Checks I1, I2 and the steps, given the blocks that the owner's manager keeps.
    pub(super) fn validate(&self, entries: &Entries, own: impl Iterator<Item = Block>) {
        self.steps.validate();
        let mut marked = 0;
        for step in own.filter_map(|block| self.next_use(block)) {
            assert!(self.marks.has(step), "I2: step {step} is not marked");
            marked += 1;
        }
        assert_eq!(self.marks.len(), marked, "I2: marks");
        for step in self.steps.base()..self.hole.min(self.steps.end()) {
            let block = self.steps.block(step).expect("D1: the step is unrolled");
            let is_cached = entries.find(block).is_some();
            let is_hole = !is_cached && !self.failed.contains(&block) && !self.is_early(step);
            assert!(!is_hole, "I1: {block} at step {step} is a hole");
        }
    }
}
