//! One run: a trace, a policy, a number of frames.
//!
//! ```text
//!   trace   [ id id id ... 4096 ... id ] [ id ...         batches; 16 ids ahead are prefetched
//!                 |
//!   resident? --- yes --> hit
//!             \-- no ---> miss, evict if full, insert; note the position
//!                 |
//!   tally   misses, bytes, owners, from the noted positions, once per batch
//! ```
//!
//! Where blocks of the trace are many and frames few, handles are names instead of ids:
//! `sparse.rs`.
//!
//! The loop is compiled for each policy apart. It keeps its own record of what is resident, so that
//! a policy is asked only for what it decides; and it counts nothing but positions of misses, so
//! that owners, bytes and warm-up cost a run without them nothing.

use pantler_policy::{Offline, Online, Spec, Visitor};
use pantler_trace::Prepared;

use crate::demand::{Demand, Dense, drive};
use crate::offline;
use crate::outcome::Outcome;
use crate::sparse::{Sparse, is_sparse};
use crate::watch::{Stopped, Watch};

/// Simulates `spec` with `frames` frames over a trace. The first `warm_up` references are made and
/// not counted.
///
/// # Errors
///
/// [`Stopped`] when `watch` was told so.
///
/// ```
/// use pantler_sim::{Watch, simulate};
/// use pantler_trace::Prepared;
///
/// let trace = Prepared::from_ids([1, 2, 3, 1, 2, 3, 1, 2, 3]);
/// let misses = |policy: &str| {
///     simulate(&trace, policy.parse().unwrap(), 2, 0, &Watch::default()).unwrap().total.misses
/// };
/// assert_eq!((misses("lru"), misses("mru"), misses("opt")), (9, 6, 6));
/// ```
pub fn simulate(
    trace: &Prepared,
    spec: Spec,
    frames: u32,
    warm_up: u64,
    watch: &Watch,
) -> Result<Outcome, Stopped> {
    // More frames than blocks change nothing, and would cost policies that count by frames memory
    // without bound.
    let frames = frames.min(trace.distinct().max(1));
    spec.with(frames.max(1), Run { trace, frames, warm_up, watch })
}

#[derive(Clone, Copy)]
struct Run<'a> {
    trace: &'a Prepared,
    frames: u32,
    warm_up: u64,
    watch: &'a Watch,
}

impl Visitor for Run<'_> {
    type Output = Result<Outcome, Stopped>;

    fn online<P: Online>(self, policy: P) -> Self::Output {
        if is_sparse::<P>(self.trace.distinct(), self.frames) {
            return self.refer(Sparse::new(policy, self.frames));
        }
        self.refer(Dense::new(policy, self.trace.distinct(), self.frames))
    }

    fn offline(self, policy: Offline) -> Self::Output {
        offline::run(self.trace, policy, self.frames, self.warm_up, self.watch)
    }
}

impl Run<'_> {
    /// All references of the trace to a cache.
    fn refer(self, mut cache: impl Demand) -> Result<Outcome, Stopped> {
        drive(self.trace, self.trace.requests(), self.warm_up, self.watch, &mut cache)
    }
}
