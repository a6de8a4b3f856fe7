//! How lists are followed, and their bounds.

/// Files or ranges of a list that a steward takes at once, unless its options say otherwise (P1).
pub const ENTRIES_MAX: u32 = 5000;

/// Steps of a list that are looked at, at most.
pub const HORIZON: u32 = 1 << 16;

/// Steps after the cursor that are matched, at most (P2).
pub(crate) const MATCH_STEPS_MAX: u32 = 64;

/// How far and how boldly lists are followed (rules P1, P2, P5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefetching {
    /// Free blocks before the first request of a batch; further ones need more than that.
    pub threshold: u32,
    /// Requests of one batch, `B`. More pays on devices that serve many requests at once (P7).
    pub batch: u32,
    /// Steps after the cursor against which a reference is matched, `m`; 64 at most.
    pub match_steps: u32,
    /// Whether references may come in another order than the program makes them: a step is passed
    /// over only when a reference is `m` steps ahead of it (P9).
    pub any_order: bool,
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
        Self {
            threshold: 4,
            batch: 16,
            match_steps: 2,
            any_order: false,
            when_idle: false,
            catches_up: false,
            trusting: false,
        }
    }
}
