//! What the steward answers, and what it wants done.

use crate::placement::Tier;
use crate::{Block, Frame, Label, OwnerId};

/// What a reference met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The block is cached.
    Hit(Frame),
    /// The block has a frame, and its fetch is still in flight.
    Arriving(Frame),
    /// The block got a frame just now.
    Miss(Frame),
    /// Every frame is pinned. Nothing changed: try again after an unpin.
    Full,
}

/// Why a block is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// A reader waits for it.
    Demand,
    /// An access list names it: after all demands.
    List,
    /// The block before it was referenced: after everything else.
    Lookahead,
}

/// What the body shall do. Polled after every event until there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named for what they are")]
pub enum Action {
    /// Read `block` into `frame`, then say [`fetched`](crate::Steward::fetched) or
    /// [`failed`](crate::Steward::failed).
    Fetch {
        block: Block,
        frame: Frame,
        why: Why,
        /// The lower tier where it is believed to be. `None`: it has to come from the origin.
        from: Option<Tier>,
    },
    /// Give up `block`. `frame` is free from here on, and may carry another block in a later action
    /// already.
    Drop {
        block: Block,
        frame: Frame,
        /// Where its bytes go: they are to be put there before the frame is used again. `None`:
        /// nowhere. A body that cannot says [`left`](crate::Steward::left).
        to: Option<Kept>,
    },
    /// Put a copy of the bytes of `frame` into a lower tier: the block is kept there, and only
    /// passes here (U2). A body that cannot says [`left`](crate::Steward::left).
    Put { frame: Frame, to: Kept },
    /// Pass a block from this lower tier to the next one (U3). A body that cannot says
    /// [`left`](crate::Steward::left).
    Pass {
        label: Label,
        from: Tier,
        /// When it was referenced last, in microseconds.
        accessed_us: u64,
    },
    /// Remove a block from this lower tier.
    Remove { label: Label, from: Tier },
    /// Tell an owner.
    Notice { owner: OwnerId, notice: Notice },
}

/// A block that is kept in a lower tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Which block.
    pub label: Label,
    /// Where.
    pub tier: Tier,
    /// When it was referenced last, in microseconds.
    pub accessed_us: u64,
}

/// What owners are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Owners without control missed too much beside it: it lost control (rule L7).
    Revoked {
        /// Misses of owners without control, of the blocks that the shadow follows.
        missed: u64,
        /// Misses of the same references in the shadow.
        without: u64,
    },
    /// Most of its references were not what its access list said: the list is discarded (rule P2).
    ListDiscarded,
    /// Half of the ranges that an access list may have are free again (rule P1).
    ListLow,
}
