//! Events in, the steward asked, system calls out. One thread runs it; it reads no clock and opens
//! no trace itself.
//!
//! An event only changes beliefs and queues work; [`Engine::pump`] carries the work out once per
//! round, in batches: dropping is cheaper by the run than by the block, and pages that were just
//! added sit in a per-CPU batch of the kernel's, from which only a drain of all CPUs gets them.
//!
//! | chapter | |
//! | --- | --- |
//! | `events` | what an event changes |
//! | `ahead` | which files are looked for, and what is read ahead of whom |
//! | `lists`, `foretold` | what hints say will be read, and how it arrives |
//! | `drops` | what the steward gave up leaves, or comes back |
//! | `audit` | beliefs that no event corrects |

use pantler_control::{LIST_FILES_MAX, Revocations};
use pantler_steward::lists::Prefetching;
use pantler_steward::{Action, Block, FileId, Notice, SampledLru, Steward, Why};

use crate::counters::SteerCounters;
use crate::error::SteerError;
use crate::files::Files;
use crate::ledger::{Belief, Ledger};
use crate::options::SteerOptions;
use crate::owners::RunOwners;
use crate::takeover::TakenOver;

mod ahead;
mod audit;
mod drops;
mod events;
mod foretold;
mod lists;

use ahead::Ahead;
use drops::Drops;
use foretold::Foretold;

/// Whether references to cached blocks are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hits {
    /// Everything fits, nobody gave a hint: nothing to decide, and watching would cost an event per
    /// read.
    Unwatched,
    /// Something may have to be decided from now on: the tracepoints shall be switched on.
    Wanted,
    /// Events come.
    Watched,
}

/// The state of one run.
///
/// E1  A block is `ours` in the ledger if and only if the steward has it.
#[derive(Debug)]
pub struct Engine {
    pub(crate) steward: Steward,
    pub(crate) files: Files,
    pub(crate) ledger: Ledger,
    pub(crate) counters: SteerCounters,
    pub(crate) owners: RunOwners,
    pub(crate) revocations: Revocations,
    pub(crate) taken_over: TakenOver,
    ahead: Ahead,
    drops: Drops,
    capacity: u32,
    /// The reserve for drops that lag: the budget is the capacity and this.
    lag: u32,
    pub(crate) hits: Hits,
    /// Chunks looked at since the audit began anew.
    audited: usize,
    /// What access lists want.
    foretold: Foretold,
    /// Events until then have been taken.
    pub(crate) taken_until_ns: u64,
    /// What LRU would have missed with the whole budget.
    pub(crate) lru: SampledLru,
    /// Files that came since the other instance's filter was last made.
    pub(crate) new_files: bool,
}

impl Engine {
    /// An engine over an empty cache. What is drawn is drawn from `seed`.
    ///
    /// # Errors
    /// Options that make no sense.
    pub fn new(options: &SteerOptions, seed: u64) -> Result<Engine, SteerError> {
        options.check()?;
        let capacity = options.budget_blocks() - options.lag_blocks();
        let mut chosen = pantler_steward::Options::new(capacity);
        chosen.waiting = options.waiting_blocks();
        chosen.allocation = options.allocation;
        chosen.common_policy = options.common_policy;
        chosen.revocation = options.revocation;
        chosen.log = options.log;
        chosen.prefetching =
            Prefetching { batch: foretold::BATCH, catches_up: true, ..Prefetching::default() };
        // Nothing streams lists into a run: what one may hold at once is what a mount holds in all.
        chosen.limits.list_entries = LIST_FILES_MAX as u32;
        chosen.seed = seed;
        let mut steward = Steward::new(chosen).map_err(|error| SteerError::Options(error.to_string()))?;
        let owners = RunOwners::new(options, &mut steward)?;
        Ok(Engine {
            steward,
            files: Files::default(),
            ledger: Ledger::default(),
            counters: SteerCounters::default(),
            owners,
            revocations: Revocations::default(),
            taken_over: TakenOver::default(),
            ahead: Ahead::new(options),
            drops: Drops::new(options),
            capacity,
            lag: options.lag_blocks(),
            hits: if options.starts_calm() { Hits::Unwatched } else { Hits::Watched },
            audited: 0,
            foretold: Foretold::default(),
            taken_until_ns: 0,
            lru: SampledLru::new(options.budget_blocks(), seed),
            new_files: false,
        })
    }

    /// Carries out what the events of a round asked for. Returns whether anything was done that
    /// should soon be looked after again.
    pub fn pump(&mut self, now_ns: u64) -> bool {
        self.counters.now_ns = now_ns;
        let (ahead, ours, leaving) =
            (self.ledger.ahead_blocks(), self.ledger.ours_blocks(), self.ledger.leaving_blocks());
        self.counters.ahead_peak = self.counters.ahead_peak.max(ahead.into());
        self.counters.leaving_peak = self.counters.leaving_peak.max(leaving.into());
        self.counters.resident_peak = self.counters.resident_peak.max((ahead + ours + leaving).into());
        self.make_room_for_the_unseen();
        while let Some((tid, file)) = self.ahead.to_resolve.pop_front() {
            self.resolve(file, tid, now_ns);
        }
        let mut active = self.drop_ripe(now_ns);
        while let Some((tid, file)) = self.ahead.ends.pop() {
            self.end_bursts(tid, file);
        }
        active |= self.follow_lists(now_ns);
        active |= !self.ahead.wants.is_empty();
        while let Some(want) = self.ahead.wants.pop() {
            self.read_ahead(want, now_ns);
        }
        // Blocks that wait are being read up to: more will be wanted soon.
        active
            || std::mem::take(&mut self.ahead.near_gap)
            || self.ledger.leaving_blocks() + self.steward.waiting() > 0
    }

    /// Takes the steward's decisions.
    pub(crate) fn poll(&mut self) {
        while let Some(action) = self.steward.poll() {
            match action {
                Action::Drop { block, .. } => {
                    self.counters.drops += 1;
                    self.ledger.leave(slot_of(block.file), block.index, self.counters.now_ns);
                }
                Action::Fetch { block, why: Why::List, .. } => self.foretell(block),
                Action::Notice { notice, owner } => {
                    let name = self.owners.name(owner);
                    if notice == Notice::ListDiscarded {
                        tracing::info!(
                            owner = name,
                            "a list was discarded: what is read is not what it says"
                        );
                        self.counters.lists_discarded += 1;
                    }
                    self.revocations.note(owner, notice, name, Some(self.owners.uid()));
                }
                _ => {}
            }
        }
    }

    /// Something may have to be decided: hits are to be watched from now on.
    pub(crate) fn want_hits(&mut self) {
        if self.hits == Hits::Unwatched {
            self.hits = Hits::Wanted;
        }
    }

    fn enter(&mut self, file: u32, index: u64) {
        if self.ledger.belief(file, index) == Belief::Leaving {
            self.counters.rescued += 1;
        }
        self.ledger.enter(file, index);
    }

    fn block_gone(&mut self, file: u32, index: u64) {
        match self.ledger.gone(file, index) {
            Belief::Unknown => return,
            Belief::Ours | Belief::Shared => self.steward.gone(Block::new(self.file_id(file), index)),
            Belief::Ahead | Belief::Leaving => {}
        }
        let known = self.files.get_mut(file);
        known.blocks = known.blocks.saturating_sub(1);
    }

    /// Recomputes what is known, and compares what ledger and steward believe.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn validate(&self) {
        self.ledger.validate();
        self.steward.validate();
        assert_eq!(self.ledger.ours_blocks(), self.steward.used(), "E1: ledger and steward believe the same");
    }

    /// Blocks the run may keep, the reserve for lagging drops taken off.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Changes how many blocks the run may keep; the reserve for lagging drops is taken off
    /// already.
    ///
    /// # Errors
    /// No block is left.
    pub fn set_capacity(&mut self, blocks: u32) -> Result<(), SteerError> {
        self.steward.set_capacity(blocks).map_err(|error| SteerError::Options(error.to_string()))?;
        self.lru.set_frames(blocks + self.lag);
        self.capacity = blocks;
        self.poll();
        Ok(())
    }

    /// The steward's name for this version of a file.
    pub(crate) fn file_id(&self, slot: u32) -> FileId {
        FileId(u64::from(self.files.get(slot).version) << 32 | u64::from(slot))
    }
}

/// The slot in a steward's name for a file.
pub(crate) fn slot_of(file: FileId) -> u32 {
    file.0 as u32
}
