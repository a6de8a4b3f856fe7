//! What can be chosen about a run, with its defaults and bounds.

use std::fs::File;
use std::sync::Arc;

use pantler_control::{Profile, RunSpec, Size};
use pantler_pagecache::asks_for_an_order;
use pantler_steward::{Allocation, FRAMES_MAX, PolicyName, Revocation, Spec};

use crate::error::SteerError;
use pantler_kernel::pages::block_bytes;

/// The smallest budget: below it the reserves would leave nothing to decide about. The same for
/// large pages is [`BUDGET_BLOCKS_MIN`].
pub const BUDGET_BYTES_MIN: u64 = 1 << 20;
/// The smallest budget in pages: 2 MiB of pages of 64 KiB.
pub const BUDGET_BLOCKS_MIN: u64 = 32;
/// The largest trace buffer per CPU, in KiB.
const BUFFER_KB_MAX: u32 = 1 << 20;

/// When references to blocks that are cached are watched. Each costs the program an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum HitWatch {
    /// From the first reference on: counters are complete.
    Always,
    /// Once something may have to be decided: when half of the budget is used and the kernel does
    /// not reclaim, or a hint came, or counters were asked for. A profile, or a policy other than
    /// LRU and `auto`, watches from the start. Until then a block counts as referenced when it
    /// comes, and hits are not counted.
    #[default]
    WhenNeeded,
}

/// Everything that can be chosen about a run.
#[derive(Debug, Clone)]
pub struct SteerOptions {
    /// Name of the run, for people and for `--on`.
    pub name: String,
    /// Name of the owner; the same as `name` unless given.
    pub owner_name: Option<String>,
    /// Bytes of file blocks that the run may keep in the page cache.
    pub budget_bytes: u64,
    /// Bytes that the whole group may hold, anonymous and kernel memory included, if those shall
    /// not come on top: the blocks then get what the rest leaves, at most the budget.
    pub total_bytes: Option<u64>,
    /// User that it runs for.
    pub uid: u32,
    /// Hints for the program's files.
    pub profile: Option<Profile>,
    /// How frames are shared between owners.
    pub allocation: Allocation,
    /// Policy of an owner that gave no hints; without one `auto`. Where runs join, each has that to
    /// itself, and what is of none of them leaves by LRU.
    pub common_policy: Option<Spec>,
    /// When control is lost.
    pub revocation: Revocation,
    /// Whether runs join and leave, each an owner; else the session is one run, and that one owner.
    pub takes_runs: bool,
    /// Trace buffer per CPU for the run's own events, in KiB; those of others get a quarter.
    pub buffer_kb: u32,
    /// When references to cached blocks are watched.
    pub watch_hits: HitWatch,
    /// Whether to watch what other programs do with the run's files, so that pages they use are
    /// left alone.
    pub watch_others: bool,
    /// Whether `posix_fadvise` and `readahead` of the programs are hints, where the kernel tells of
    /// them.
    pub heeds_advice: bool,
    /// Decisions remembered for `explain`; 0 = none.
    pub log: u32,
    /// Where references are written as they come, as a trace. Hits are watched from the start then.
    pub record: Option<Arc<File>>,
}

impl SteerOptions {
    /// Defaults for a run of this name and budget.
    pub fn new(name: impl Into<String>, budget_bytes: u64) -> SteerOptions {
        SteerOptions {
            name: name.into(),
            owner_name: None,
            budget_bytes,
            total_bytes: None,
            uid: rustix::process::getuid().as_raw(),
            profile: None,
            allocation: Allocation::default(),
            common_policy: None,
            revocation: Revocation::default(),
            takes_runs: false,
            buffer_kb: 1024,
            watch_hits: HitWatch::default(),
            watch_others: true,
            heeds_advice: false,
            log: 0,
            record: None,
        }
    }

    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// [`SteerError::Options`] names the value and what is allowed.
    pub fn check(&self) -> Result<(), SteerError> {
        let refused = |text| Err(SteerError::Options(text));
        let least = BUDGET_BYTES_MIN.max(BUDGET_BLOCKS_MIN * block_bytes());
        let [budget, least, most] =
            [self.budget_bytes, least, u64::from(FRAMES_MAX) * block_bytes()].map(Size::new);
        if !(least..=most).contains(&budget) {
            return refused(format!("--memory {budget}: expected {least} to {most}"));
        }
        if !(4..=BUFFER_KB_MAX).contains(&self.buffer_kb) {
            let kb = self.buffer_kb;
            return refused(format!("a trace buffer of {kb} KiB is outside 4 to {BUFFER_KB_MAX}"));
        }
        Ok(())
    }

    /// The run of a session for one.
    pub(crate) fn run(&self) -> RunSpec {
        RunSpec {
            name: self.owner_name.clone().unwrap_or_else(|| self.name.clone()),
            keep: self.owner_name.is_some(),
            leader: std::process::id(),
            uid: self.uid,
            profile: self.profile.clone(),
            is_steered: true,
        }
    }

    /// The policy of blocks without an owner that gave hints.
    pub(crate) fn policy(&self) -> Spec {
        let unless_chosen = if self.takes_runs { PolicyName::Lru } else { PolicyName::Auto };
        self.common_policy.unwrap_or(unless_chosen.spec())
    }

    /// Whether hits need not be watched yet.
    pub(crate) fn starts_calm(&self) -> bool {
        let wishes = self.profile.is_some() || asks_for_an_order(self.policy());
        self.watch_hits == HitWatch::WhenNeeded && !wishes && self.record.is_none()
    }

    /// Blocks of the budget.
    pub fn budget_blocks(&self) -> u32 {
        u32::try_from(self.budget_bytes / block_bytes()).unwrap_or(FRAMES_MAX)
    }
}
