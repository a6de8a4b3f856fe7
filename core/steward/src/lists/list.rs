//! One owner's access list: the cursor, the next hole, and what is in flight.
//!
//! I1  Every step from the first after the cursor to before `hole` has its block in the weighing
//!     room, or failed.
//! I2  `marks` has the next use of exactly the owner's blocks that the steps name.

use alloc::vec::Vec;

use super::steps::Steps;
use super::{Chunk, HORIZON, ListStat, chunk};
use crate::marks::Marks;
use crate::owners::OwnerKey;
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
    /// The cursor's own block.
    Current,
    /// The step with this number: those up to it are to be passed.
    Step(u64),
    /// A listed file, but none of the next steps.
    Stranger,
    /// The same, once too often: the list is worth nothing.
    Bogus,
}

#[derive(Clone, Debug)]
pub(crate) struct List {
    pub(crate) owner: OwnerKey,
    pub(crate) steps: Steps,
    /// The last range as it was given.
    last: Option<Chunk>,
    pub(crate) marks: Marks,
    /// The cursor's block.
    pub(crate) current: Option<Block>,
    pub(crate) hole: u64,
    /// Prefetches in flight, at most a batch.
    pub(crate) in_flight: Vec<Block>,
    /// A reference that the list did not foresee, and that is not served yet.
    pub(crate) unserved: Option<Block>,
    failed: Vec<Block>,
    /// The last references to listed files, the newest lowest: 1 did not match.
    history: u64,
    /// References that matched a step.
    matched: u32,
    /// The cursor has moved since the last batch.
    pub(crate) moved: bool,
}

impl List {
    pub(crate) fn new(owner: OwnerKey, seed: u64) -> Self {
        Self {
            owner,
            steps: Steps::new(HORIZON, seed),
            last: None,
            marks: Marks::new(HORIZON),
            current: None,
            hole: 0,
            in_flight: Vec::new(),
            unserved: None,
            failed: Vec::new(),
            history: 0,
            matched: 0,
            moved: false,
        }
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
    pub(crate) fn meet(&mut self, block: Block, match_steps: u32) -> Met {
        if self.current == Some(block) {
            self.history <<= 1;
            return Met::Current;
        }
        let base = self.steps.base();
        let near = base..base + u64::from(match_steps);
        if let Some(step) = near.into_iter().find(|&step| self.steps.block(step) == Some(block)) {
            self.history <<= 1;
            self.matched = self.matched.saturating_add(1);
            return Met::Step(step);
        }
        let named = |current: Block| current.file == block.file;
        if !self.steps.names(block.file) && !self.current.is_some_and(named) {
            return Met::Nothing;
        }
        self.history = self.history << 1 | 1;
        if self.history.count_ones() > HISTORY / 2 { Met::Bogus } else { Met::Stranger }
    }

    /// P8: how many requests a batch may have for what came true of the list so far.
    pub(crate) fn deserved_batch(&self) -> u32 {
        self.matched.saturating_add(1)
    }

    /// P8: whether some of the list came true, and no less than did not lately.
    pub(crate) fn is_trusted(&self) -> bool {
        self.matched > 0 && self.history.count_ones() <= self.matched
    }

    /// Whether `block` is one of those that could not be read lately.
    pub(crate) fn has_failed(&self, block: Block) -> bool {
        self.failed.contains(&block)
    }

    pub(crate) fn remember_failed(&mut self, block: Block) {
        if self.failed.len() == FAILED_MAX {
            self.failed.remove(0);
        }
        self.failed.push(block);
    }

    /// `block` is there, or will not come. Says whether the list had waited for it.
    pub(crate) fn answered(&mut self, block: Block) -> bool {
        let served = self.unserved == Some(block);
        if served {
            self.unserved = None;
        }
        let at = self.in_flight.iter().position(|&other| other == block);
        at.map(|at| self.in_flight.swap_remove(at)).is_some() || served
    }

    /// `block` left the weighing room: it may be the next hole (P3).
    pub(crate) fn gone(&mut self, block: Block) {
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
}
