//! One run: a trace, a policy, a number of frames.
//!
//! ```text
//!   trace   [ id id id ... 4096 ... id ] [ id ...           batches; 16 ids ahead are brought nearer
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

use pantler_policy::{Handle, Links, Offline, Online, Spec, Visitor};
use pantler_trace::Prepared;

use crate::offline;
use crate::outcome::{Outcome, Tally};
use crate::resident::Resident;
use crate::sparse::{Sparse, is_sparse};
use crate::watch::{Stopped, Watch};

/// References in a batch: counting, progress and stopping happen between batches.
pub(crate) const BATCH: usize = 4096;

/// References between the hint that an id will be used and its use. Fewer hide less of the memory's
/// time, more gain nothing.
pub(crate) const AHEAD: usize = 16;

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
    fn refer(self, cache: impl Demand) -> Result<Outcome, Stopped> {
        drive(self.trace, self.trace.requests(), self.warm_up, self.watch, cache)
    }
}

/// Makes all references to a cache, in batches. `words` has what the cache is told of each.
pub(crate) fn drive(
    trace: &Prepared,
    words: &[u32],
    warm_up: u64,
    watch: &Watch,
    mut cache: impl Demand,
) -> Result<Outcome, Stopped> {
    let mut tally = Tally::new(trace, warm_up);
    let mut missed = [0; BATCH];
    let mut start = 0;
    while start < words.len() {
        let end = (start + BATCH).min(words.len());
        let ahead = (end + 2 * AHEAD).min(words.len());
        let misses = cache.batch(&words[start..ahead], end - start, &mut missed);
        tally.batch(start..end, &missed[..misses]);
        watch.advance(end - start)?;
        start = end;
    }
    Ok(tally.finish())
}

/// A demand cache.
pub(crate) trait Demand {
    /// Makes the first `count` references of `words`, writes the positions of misses to `missed`,
    /// and returns how many there are. The rest of `words` is what comes next. A word is the id of
    /// a block, or for an offline policy the time of its next reference.
    fn batch(&mut self, words: &[u32], count: usize, missed: &mut [u32; BATCH]) -> usize;
}

/// A policy with the ids of the trace as handles, and which blocks are in the cache.
#[derive(Clone, Debug)]
pub(crate) struct Dense<P> {
    pub(crate) policy: P,
    pub(crate) links: Links,
    resident: Resident,
    frames: u32,
}

impl<P: Online> Dense<P> {
    pub(crate) fn new(mut policy: P, handles: u32, frames: u32) -> Self {
        policy.reserve(handles);
        Self { policy, links: Links::new(handles), resident: Resident::new(handles), frames }
    }

    /// Makes room for more handles.
    pub(crate) fn grow(&mut self, handles: u32) {
        self.links.grow(handles);
        self.policy.reserve(handles);
        self.resident.grow(handles);
    }

    #[inline(always)]
    pub(crate) fn is_resident(&self, handle: Handle) -> bool {
        self.resident.contains(handle)
    }

    /// A reference to a handle that is not resident.
    #[inline(always)]
    pub(crate) fn bring_in(&mut self, id: Handle) {
        self.policy.miss(&mut self.links, id);
        if self.policy.len() >= self.frames {
            // Nothing is ever pinned here.
            let Some(victim) = self.policy.evict(&mut self.links, &|_| false) else { return };
            self.resident.remove(victim);
        }
        self.policy.insert(&mut self.links, id);
        self.resident.insert(id);
    }
}

impl<P: Online> Demand for Dense<P> {
    #[inline(never)]
    fn batch(&mut self, ids: &[u32], count: usize, missed: &mut [u32; BATCH]) -> usize {
        let mut misses = 0;
        for (at, &id) in ids[..count].iter().enumerate() {
            if let Some(&soon) = ids.get(at + AHEAD) {
                self.policy.prefetch(&self.links, soon);
            }
            missed[misses % BATCH] = at as u32;
            if let Some(hit) = self.policy.reference(&mut self.links, id, self.frames) {
                misses += usize::from(!hit);
            } else if self.resident.contains(id) {
                self.policy.hit(&mut self.links, id);
            } else {
                misses += 1;
                self.bring_in(id);
            }
        }
        misses
    }
}
