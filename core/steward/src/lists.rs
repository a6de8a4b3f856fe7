//! Access lists: what an owner says it will read, in order (docs/RULES.md, P1 to P7).
//!
//! ```text
//!            done   cursor      hole                         end of what is unrolled
//!     steps  . . . . . [c] a b a [d] e f b g . . . . . . . .]  ranges not yet unrolled ...
//!                          `---' cached or in flight
//! ```
//!
//! A list is kept as ranges of blocks and unrolled step by step, at most [`HORIZON`] steps ahead of
//! the cursor, so that memory is bounded by the number of ranges and not by the size of files. A
//! block that occurs beyond the horizon only counts as one that never occurs.
//!
//! * P8 (ours) A list is worth what came true of it. A batch has at most one request more than
//!   steps have matched so far. As long as none has, or fewer than did not match of the last 64
//!   references, its owner's manager names victims without it, and no prefetch replaces a block of
//!   the owner's own.
//!
//! What the rules leave open is in docs/decisions/0041-access-lists.md; why there is P8, in
//! 0043-trust.md.
//!
//! Source: P. Cao, E. W. Felten, A. R. Karlin, K. Li, *Implementation and performance of integrated
//! application-controlled file caching, prefetching, and disk scheduling*, ACM TOCS 14(4), 1996.

mod chunk;
mod follow;
mod list;
mod steps;

pub use chunk::Chunk;
pub(crate) use list::{List, Met};

/// Files or ranges of a list that a steward takes at once, unless its options say otherwise (P1).
pub const ENTRIES_MAX: u32 = 5000;

/// Steps of a list that are looked at, at most.
pub const HORIZON: u32 = 1 << 16;

/// How far and how boldly lists are followed (rules P1, P2, P5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetching {
    /// Free blocks before the first request of a batch; further ones need more than that.
    pub threshold: u32,
    /// Requests of one batch, `B`. More pays on devices that serve many requests at once (P7).
    pub batch: u32,
    /// Steps after the cursor against which a reference is matched, `m`.
    pub match_steps: u32,
    /// Whether a batch starts whenever nothing that the owner asked for is in flight, and not only
    /// when the cursor moves.
    pub when_idle: bool,
    /// Whether a cursor that moved while a batch was in flight starts the next one when that has
    /// arrived, and not only when it moves again: for bodies that learn of references in bursts,
    /// some time afterwards.
    pub catches_up: bool,
    /// Whether lists are believed from the start, as in the model of the bound. Else they earn it
    /// (P8).
    pub trusting: bool,
}

impl Default for Prefetching {
    fn default() -> Self {
        Self { threshold: 4, batch: 16, match_steps: 2, when_idle: false, catches_up: false, trusting: false }
    }
}

/// What became of blocks that were prefetched, for lists or by lookahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefetched {
    /// Blocks that were asked for.
    pub prefetched: u64,
    /// Those that were referenced afterwards, late ones included.
    pub used: u64,
    /// Those of them that were referenced while they were in flight. 0 where fetches take no time.
    pub used_late: u64,
    /// Those that left before a reference.
    pub wasted: u64,
    /// Those that could not be read; lookahead counts them as wasted.
    pub failed: u64,
}

/// What is known of an owner's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListStat {
    /// Ranges that are not behind the cursor, the one it is in included.
    pub ranges: u32,
    /// Steps that the cursor has passed or matched.
    pub done: u64,
    /// Steps that are left.
    pub left: u64,
    /// Requests in flight.
    pub in_flight: u32,
}
