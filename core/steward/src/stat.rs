//! What a steward says of itself: of a block, an owner, a priority, a file.

use pantler_policy::PolicyName;

use crate::entry::Room;
use crate::placement::Tier;
use crate::{Counters, FileId, Frame, OwnerId, Traffic};

/// What is known of one cached block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Where it is.
    pub frame: Frame,
    /// In which room.
    pub room: Room,
    /// The owner that it is charged to. `None`: shared, or its owner is gone, or only the common
    /// owner's, or it waits.
    pub owner: Option<OwnerId>,
    /// The priority it has now, if a manager keeps it.
    pub priority: Option<i32>,
    /// Whether that priority is a temporary one.
    pub temporary: bool,
    /// Whether it must not leave now.
    pub pinned: bool,
    /// Whether its fetch is in flight.
    pub arriving: bool,
    /// The tier that keeps it, over lower tiers: 1 is memory. In another it is kept from here on,
    /// and only passes; one past the last is none.
    pub keep: Option<Tier>,
}

/// What is known of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerStat {
    /// `None` for the common owner: blocks that several owners without control used, and owners
    /// past the bound.
    pub id: Option<OwnerId>,
    /// What happened to it.
    pub counters: Counters,
    /// Whether it has made control calls.
    pub in_control: bool,
    /// Whether control was taken away, or would be at its first call (L7).
    pub revoked: bool,
}

/// What is known of one priority of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityStat {
    /// The priority.
    pub priority: i32,
    /// Its policy.
    pub policy: PolicyName,
    /// Blocks that have it now.
    pub blocks: u32,
}

/// What is known of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// The file.
    pub id: FileId,
    /// Blocks cached now.
    pub blocks: u32,
    /// References to its blocks since the first.
    pub traffic: Traffic,
}
