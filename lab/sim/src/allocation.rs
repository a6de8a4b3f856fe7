//! Several owners and a steward: the very same [`Steward`] that bodies drive, over a trace.
//!
//! Every reference is told as [`observed`](Steward::observed): there is no device that a fetch
//! would wait for, so a block has arrived when it is asked for. Decisions are those of
//! [`access`](Steward::access) followed by [`fetched`](Steward::fetched), which a test holds
//! against this.
//!
//! The steward is told ids instead of the blocks they name, so that it finds everything in tables
//! and hashes nothing ([`Names::Numbers`]); and it is told in advance what is referenced next, so
//! that the tables' rows are near when they are asked for. Neither decides anything: a test holds
//! the counts against a steward that is told names.
//!
//! Without an owner in control every allocation is one LRU list, and so is `global-lru` always:
//! that list is run instead, many times faster, and a test holds its counts against the steward's.

use pantler_policy::prefetch::prefetch;
use pantler_steward::{
    Allocation, Block, Counters, FileId, Names, Options, OptionsError, PolicyName, Revocation, Steward,
};
use pantler_trace::Prepared;

use crate::control::{Control, ControlError, owner_id, owner_names};
use crate::demand::{AHEAD, BATCH};
use crate::engine::simulate;
use crate::outcome::{Counts, Outcome};
use crate::record::OwnerRecord;
use crate::watch::{Stopped, Watch};

/// How a cache is shared between owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// By which rules.
    pub allocation: Allocation,
    /// The policy of owners without control.
    pub common_policy: PolicyName,
    /// Bound of the table of placeholders: `None` = as many as frames, `Some(0)` = unbounded (rule
    /// L6).
    pub placeholders: Option<u32>,
    /// When owners lose control (rule L7). Never by default, so that a mode is what its name says.
    pub revocation: Revocation,
    /// What owners want, from the start.
    pub control: Control,
}

impl Sharing {
    /// That allocation, without an owner in control.
    pub fn new(allocation: Allocation) -> Self {
        Self {
            allocation,
            common_policy: PolicyName::Lru,
            placeholders: None,
            revocation: Revocation::NEVER,
            control: Control::default(),
        }
    }

    /// What is wrong with an [idle](Self::is_policy_idle) policy.
    pub const IDLE_POLICY: &'static str =
        "global-lru has one LRU list for all owners and no policy for some; choose another allocation";

    /// Whether all owners together are one LRU list: candidates are always the victims then.
    pub fn is_one_list(&self) -> bool {
        self.allocation == Allocation::GlobalLru
            || (self.control.is_empty() && self.common_policy == PolicyName::Lru)
    }

    /// What blocks are called: sketches and samples go by the hash of their names, and only the
    /// trace's own are the same in every body.
    fn names(&self) -> Names {
        let hashes = |policy| matches!(policy, PolicyName::WTinyLfu | PolicyName::Auto);
        let is_named = hashes(self.common_policy) || self.control.policies().any(hashes);
        if is_named { Names::Any } else { Names::Numbers }
    }

    /// A steward that shares `frames` frames so.
    pub(crate) fn options(&self, frames: u32) -> Options {
        Options {
            allocation: self.allocation,
            common_policy: self.common_policy.spec(),
            placeholders: self.placeholders,
            revocation: self.revocation,
            names: self.names(),
            ..Options::new(frames)
        }
    }

    /// Whether the common policy would not be used: under one LRU list for all.
    pub fn is_policy_idle(&self) -> bool {
        self.allocation == Allocation::GlobalLru && self.common_policy != PolicyName::Lru
    }
}

/// What one run counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// All owners together.
    pub total: Counts,
    /// By owner, in the order of the trace's names; the only one is called `all` where the trace
    /// knows none.
    pub owners: Vec<(String, OwnerRecord)>,
    /// Times that an owner lost control.
    pub revocations: u64,
    /// Wishes about names that the trace lacks, one sentence each.
    pub unknown: Vec<String>,
}

/// Why there is no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A wish passes a bound.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// More frames than a steward can have.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// Stopped from outside.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Simulates a cache of `frames` frames that the trace's owners share. The first `warm_up`
/// references are made and not counted.
///
/// # Errors
///
/// [`RunError`].
pub fn share(
    trace: &Prepared,
    sharing: &Sharing,
    frames: u32,
    warm_up: u64,
    watch: &Watch,
) -> Result<Shared, RunError> {
    let mut steward = Steward::new(sharing.options(frames))?;
    // Wrong options and wishes are refused even where neither changes anything.
    let unknown = sharing.control.apply(trace, &mut steward)?;
    if sharing.is_one_list() {
        let outcome = simulate(trace, PolicyName::Lru.spec(), frames, warm_up, watch)?;
        return Ok(one_list(trace, outcome, unknown));
    }
    let length = trace.requests().len();
    let warm = usize::try_from(warm_up).unwrap_or(usize::MAX).min(length);
    let called = Called::new(trace, sharing);
    drive(called, &mut steward, 0, warm, watch)?;
    let before = snapshot(trace, &steward);
    let revocations = steward.totals().revocations;
    drive(called, &mut steward, warm, length, watch)?;
    let after = snapshot(trace, &steward);
    let owners: Vec<_> = owner_names(trace)
        .iter()
        .zip(before.iter().zip(&after))
        .map(|(name, (before, after))| owner_counts(name, before, after))
        .collect();
    let mut total = Counts::default();
    for (_, owner) in &owners {
        total.requests += owner.counts.requests;
        total.misses += owner.counts.misses;
    }
    Ok(Shared { total, owners, revocations: steward.totals().revocations - revocations, unknown })
}

/// What one LRU list for all did, as a steward would say it.
fn one_list(trace: &Prepared, outcome: Outcome, unknown: Vec<String>) -> Shared {
    let counts = if outcome.owners.is_empty() { vec![outcome.total] } else { outcome.owners };
    let record = |counts| OwnerRecord { counts, overrules: Some(0), mistakes: Some(0) };
    let owner = |(name, counts): (&String, Counts)| (name.clone(), record(counts));
    let owners = owner_names(trace).iter().zip(counts).map(owner).collect();
    Shared { total: outcome.total, owners, revocations: 0, unknown }
}

/// A trace, and what the steward is told of its ids.
#[derive(Clone, Copy)]
pub(crate) struct Called<'a> {
    trace: &'a Prepared,
    names: Names,
}

impl<'a> Called<'a> {
    pub(crate) fn new(trace: &'a Prepared, sharing: &Sharing) -> Self {
        Self { trace, names: sharing.names() }
    }

    #[inline]
    pub(crate) fn block(self, id: u32) -> Block {
        let file = |file: u32| FileId(file.into());
        match self.names {
            Names::Numbers => {
                let file = file(self.trace.files().map_or(0, |files| files[id as usize]));
                Block::new(file, id.into())
            }
            Names::Any => {
                let block = self.trace.block_of(id);
                Block::new(file(block.file), block.index)
            }
        }
    }

    /// What is looked at for the references that follow `ids[at]`, in two steps.
    #[inline]
    fn expect(self, steward: &Steward, ids: &[u32], at: usize) {
        let (Names::Numbers, Some(&far)) = (self.names, ids.get(at + AHEAD)) else { return };
        if let Some(files) = self.trace.files() {
            prefetch(files, far as usize);
        }
        // Whichever its file, the number finds the block.
        let block = |id: u32| Block::new(FileId(0), id.into());
        steward.expect(block(far));
        steward.expect_next(block(ids[at + AHEAD / 2]));
    }
}

/// Makes the references from `from` to `to`.
fn drive(
    called: Called<'_>,
    steward: &mut Steward,
    from: usize,
    to: usize,
    watch: &Watch,
) -> Result<(), Stopped> {
    let (ids, owners) = (called.trace.requests(), called.trace.owners());
    let mut start = from;
    while start < to {
        let end = (start + BATCH).min(to);
        for (at, &id) in (start..end).zip(&ids[start..end]) {
            called.expect(steward, ids, at);
            let owner = owners.map_or(0, |owners| owners[at].into());
            steward.observed(owner_id(owner), called.block(id));
            while steward.poll().is_some() {}
        }
        watch.advance(end - start)?;
        start = end;
    }
    Ok(())
}

fn snapshot(trace: &Prepared, steward: &Steward) -> Vec<Counters> {
    let counters = |index| steward.owner_counters(owner_id(index)).unwrap_or_default();
    (0..owner_names(trace).len()).map(counters).collect()
}

fn owner_counts(name: &str, before: &Counters, after: &Counters) -> (String, OwnerRecord) {
    let counts =
        Counts { requests: after.references - before.references, misses: after.misses - before.misses };
    let overrules = Some(after.overrules - before.overrules);
    let mistakes = Some(after.mistakes - before.mistakes);
    (name.to_owned(), OwnerRecord { counts, overrules, mistakes })
}
