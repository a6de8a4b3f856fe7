//! What can be asked about a cache: counters by owner, priority and file, and the story of one
//! file.

use serde::{Deserialize, Serialize};
use serde_with::{As, DisplayFromStr};
use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::{BodyInfo, PolicyName};

mod steward;

pub use pantler_steward::Counters;
pub use pantler_steward::lists::Prefetched;
pub use steward::{FileStory, KnownOwner};

/// Files of a body that are told of one by one.
pub const FILES_SHOWN: usize = 100;

/// Pairs of owners that are told of one by one.
pub const TAKINGS_SHOWN: usize = 20;

/// One priority of one owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriorityStat {
    /// The priority.
    pub priority: i32,
    /// Its policy.
    #[serde(with = "As::<DisplayFromStr>")]
    pub policy: PolicyName,
    /// Blocks cached at this priority.
    pub blocks: u64,
}

/// One owner.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OwnerStat {
    /// Name for people: a run's name, or `program(pid)`.
    pub owner: String,
    /// User of the owner; absent for the common owner.
    pub uid: Option<u32>,
    /// A process of the owner, where there is one.
    pub pid: Option<u32>,
    /// False once the owner ended and only its counters remain.
    pub live: bool,
    /// Whether it controls its blocks: it gave a hint, and control was not taken away.
    pub control: bool,
    /// Whether control was taken away (L7).
    pub revoked: bool,
    /// Its counters.
    pub counters: Counters,
    /// Its priorities, lowest first.
    pub priorities: Vec<PriorityStat>,
}

/// An owner that lost control (L7).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevocationStat {
    /// Counts revocations of the body from 0.
    pub number: u64,
    /// Name of the owner, as in [`OwnerStat`].
    pub owner: String,
    /// User of the owner, where it has one.
    pub uid: Option<u32>,
    /// Misses of owners without control beside it, of the blocks that were sampled.
    pub missed: u64,
    /// What they would have missed of them if no owner had had control.
    pub without: u64,
    /// Whether it was granted control since.
    pub granted: bool,
}

impl RevocationStat {
    /// Why control was lost, in words.
    pub fn reason(&self) -> String {
        let Self { missed, without, .. } = self;
        format!("programs beside it missed {missed} blocks, and {without} if none had control")
    }
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStat {
    /// Path, as the body knows it; for a mount, below its mount point.
    #[serde(serialize_with = "crate::text::path")]
    pub path: PathBuf,
    /// Its counters; overrules, mistakes and revocations are counted by owner only and stay 0 here.
    pub counters: Counters,
}

/// Blocks of one owner that left for blocks of another, among the decisions that are remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakingStat {
    /// Name of the owner that lost them, as in [`OwnerStat`].
    pub from: String,
    /// Its user, where it has one: owners of two users may have one name.
    #[serde(default)]
    pub from_uid: Option<u32>,
    /// Name of the owner that got their frames.
    pub to: String,
    /// Its user.
    #[serde(default)]
    pub to_uid: Option<u32>,
    /// How many.
    pub blocks: u64,
}

/// What became of prefetched blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrefetchStat {
    /// From access lists.
    pub lists: Prefetched,
    /// By lookahead.
    pub lookahead: Prefetched,
}

/// A lower tier of a mount.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierStat {
    /// Which, as given, without user and password.
    pub name: String,
    /// Whether it works now; if not it is left alone until it does.
    pub works: bool,
    /// Blocks that it holds for this mount, as far as known.
    pub blocks: u64,
    /// Blocks that fit, as far as known.
    pub capacity_blocks: u64,
    /// Blocks found there.
    pub hits: u64,
    /// Blocks looked for in vain.
    pub misses: u64,
    /// Bytes of blocks found there.
    pub read_bytes: u64,
    /// Blocks that came from the tier above.
    pub demotions: u64,
    /// Blocks that came from the origin or a farther tier.
    pub placements: u64,
    /// Bytes of both.
    pub written_bytes: u64,
    /// Blocks that should have come, and were dropped.
    pub dropped: u64,
    /// Blocks that left, as the tier told.
    pub notices: u64,
    /// Times that it was unknown what left.
    pub unknown: u64,
    /// Blocks that were not looked for because it did not work.
    pub skipped: u64,
    /// Blocks that were not what they should be.
    pub damaged: u64,
    /// Times that it broke.
    pub failures: u64,
    /// Times that it worked again.
    pub heals: u64,
    /// Blocks on their way to it.
    pub queued: u64,
}

/// Everything `pantler stat` shows of one body.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BodyStat {
    /// The body.
    pub body: BodyInfo,
    /// Sums over all owners.
    pub totals: Counters,
    /// The policy in whose order blocks of owners without hints leave now: of `auto`, the one that
    /// it follows.
    #[serde(default, with = "As::<DisplayFromStr>")]
    pub followed: PolicyName,
    /// What became of prefetched blocks; `None` where nothing is prefetched.
    pub prefetching: Option<PrefetchStat>,
    /// Owners, by name.
    pub owners: Vec<OwnerStat>,
    /// Owners that are not listed: those with the fewest references, where they are too many for a
    /// message.
    #[serde(default)]
    pub owners_left_out: u64,
    /// Files, most blocks first; bounded by the body.
    pub files: Vec<FileStat>,
    /// Files that are not listed: those with the fewest blocks. 0 for users without rights to see
    /// files.
    #[serde(default)]
    pub files_left_out: u64,
    /// The last revocations, oldest first; bounded by the body.
    #[serde(default)]
    pub revocations: Vec<RevocationStat>,
    /// What owners took from each other lately, most blocks first; at most [`TAKINGS_SHOWN`].
    #[serde(default)]
    pub takings: Vec<TakingStat>,
    /// Lower tiers of a mount, nearest first.
    #[serde(default)]
    pub tiers: Vec<TierStat>,
    /// What else the body counts, by name: `events_lost`, `drops_refused`, `stale_versions` and the
    /// like.
    pub body_counters: BTreeMap<String, u64>,
}

impl BodyStat {
    /// Leaves out owners, and files if that is not enough, until the whole takes at most
    /// `bytes_max` bytes as JSON.
    pub fn bound(&mut self, bytes_max: usize) {
        while serde_json::to_vec(self).is_ok_and(|line| line.len() > bytes_max) {
            if self.owners.is_empty() && self.files.is_empty() {
                return;
            }
            let keep = self.owners.len() / 2;
            self.owners_left_out += (self.owners.len() - keep) as u64;
            self.owners.sort_by_key(|owner| std::cmp::Reverse(owner.counters.references));
            self.owners.truncate(keep);
            if keep == 0 {
                let keep = self.files.len() / 2;
                self.files_left_out += (self.files.len() - keep) as u64;
                self.files.truncate(keep);
            }
        }
        self.owners.sort_by(|one, other| one.owner.cmp(&other.owner));
    }
}

/// One decision of the steward about a block of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionLine {
    /// Number of the decision since the body started.
    pub number: u64,
    /// Block of the file.
    pub block: u64,
    /// The rule that decided, by the name that the steward gives it: `overruled` and so on.
    pub rule: String,
    /// One sentence: which owner lost which block to which.
    pub text: String,
}

/// The owner of most blocks of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its name, as in [`OwnerStat`].
    pub owner: String,
    /// Whether it controls its blocks: if not, they leave in the common order.
    pub control: bool,
    /// The file's priority for it.
    pub priority: i32,
    /// The policy that orders its blocks of that priority.
    #[serde(with = "As::<DisplayFromStr>")]
    pub policy: PolicyName,
}

/// Everything `pantler explain` shows of one file on one body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileExplanation {
    /// The body.
    pub body: BodyInfo,
    /// The path, as it was asked for.
    #[serde(serialize_with = "crate::text::path")]
    pub path: PathBuf,
    /// Size of the file in blocks of the body.
    pub blocks: u64,
    /// Blocks cached now.
    pub cached_blocks: u64,
    /// Cached blocks by owner; the common owner is called `common`, blocks without one `shared`.
    pub owners: BTreeMap<String, u64>,
    /// The owner of most of its blocks, with what holds for it. `None` if no single owner has any.
    #[serde(default)]
    pub holder: Option<Holder>,
    /// The file's priority for the speaker's owner (or default).
    pub priority: i32,
    /// The policy of that priority.
    #[serde(with = "As::<DisplayFromStr>")]
    pub policy: PolicyName,
    /// The last decisions about its blocks, oldest first. Empty when the log is off.
    pub decisions: Vec<DecisionLine>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_for_a_message_is_left_out_and_counted() {
        let owner = |references: u64| OwnerStat {
            owner: format!("o{references}"),
            counters: Counters { references, ..Counters::default() },
            ..OwnerStat::default()
        };
        let mut stat = BodyStat {
            owners: (0..1000).map(owner).collect(),
            files: vec![FileStat { path: "f".into(), counters: Counters::default() }; 10],
            files_left_out: 7,
            ..BodyStat::default()
        };
        let mut nothing = stat.clone();
        stat.bound(1 << 20);
        assert_eq!((stat.owners.len(), stat.owners_left_out), (1000, 0));
        stat.bound(20_000);
        assert!(serde_json::to_vec(&stat).unwrap().len() <= 20_000 && stat.owners.len() > 30);
        assert_eq!(stat.owners.len() as u64 + stat.owners_left_out, 1000);
        assert!(stat.owners.iter().all(|owner| owner.counters.references > 900), "the busiest stay");
        assert!(stat.owners.is_sorted_by_key(|owner| &owner.owner));
        nothing.bound(10);
        assert_eq!((nothing.owners.len(), nothing.owners_left_out), (0, 1000));
        assert_eq!((nothing.files.len(), nothing.files_left_out), (0, 17));
    }
}
