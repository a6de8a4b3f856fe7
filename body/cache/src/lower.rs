//! Lower tiers: where blocks go that leave the frames, and where missing ones are looked for before
//! the origin.
//!
//! ```text
//!   reference --> steward: from which tier, to which                 under the lock of the frames
//!   miss      --> tier 2, tier 3, ... origin                         by the thread that waits
//!   eviction  --> queue of tier 2 --> its worker --> queue of 3      no reader waits
//! ```
//!
//! Which block leaves the frames and where it goes is one decision of the
//! [steward](pantler_steward::Steward::with_tiers): LRU-SP and managers, and ULC (rules U) over the
//! keys that tiers know. A block that ULC wants lower than tier 1 passes through a few frames that
//! are kept for such blocks (U2), so that a scan does not displace what is wanted nearer. Here is
//! what carries it out.
//!
//! B1  The frames of the steward are `base`, and one more for each block that passes. Of those that
//!     are here there are no more than may pass; those in flight use spare buffers, and a request
//!     that finds none reads fewer blocks at a time. So no number of requests takes a frame from
//!     what is kept in tier 1.
//! B2  A block is handed to a tier only under the version that its file has now, and not while the
//!     file changes.
//! B3  No reader waits for a put. Queues are bounded by buffers; what finds no room is dropped, and
//!     counted. While no buffer is left, no block moves nearer at the cost of another. A block in a
//!     queue is read from its buffer.
//! B4  A tier that fails is left alone until its worker finds that it works again: a reader waits
//!     for a broken tier once for its time limit, at most.
//! B5  References to a block that passes are one, as long as fewer others come between two of them
//!     than blocks may pass: programs read a block in pieces, and that says nothing about when they
//!     come back. Which blocks pass, and what is one reference, is decided as in the simulator, by
//!     [`Passage`](pantler_steward::placement::Passage).
//! B6  A block that was asked for before its version got its name has no name below, and goes
//!     nowhere: it was kept in step with a change, which another change may have come in between
//!     of.
//! B7  What goes to a tier together is as much as it carries out within half of its time limit
//!     ([`batch`]): a slow link loses no batch to the limit.

mod attached;
mod batch;
mod breaker;

use attached::FRAMES_MAX;
pub(crate) use attached::{Attached, Below, Order, tier_of};

/// What an entry of the steward's index takes at most, right after its tables were doubled;
/// `Steward::tier_index_bytes` is at most that.
const ENTRY_BYTES_MAX: u64 = 184;
/// Entries for each frame: the stack knows as many blocks that are nowhere (U4).
const ENTRIES_PER_FRAME: u64 = 2;
/// What an index without entries takes.
const EMPTY_BYTES_MAX: u64 = 128 << 10;

/// Most memory that is taken by what a cache of `frames` frames knows of the blocks of tiers of
/// `tiers` frames, beside the cache and what tiers know themselves.
pub fn tier_index_bytes_max(frames: u64, tiers: &[u64]) -> u64 {
    let tiers = tiers.iter().map(|&frames| frames.min(FRAMES_MAX.into()));
    let entries = tiers.fold(frames, u64::saturating_add).saturating_mul(ENTRIES_PER_FRAME);
    entries.saturating_mul(ENTRY_BYTES_MAX).saturating_add(EMPTY_BYTES_MAX)
}
