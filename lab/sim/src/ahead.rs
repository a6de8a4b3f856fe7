//! Lookahead beside a policy: the [`Steward`] of a mount, with one owner, over a trace.
//!
//! All blocks of a trace without files are one endless file, so i+1 is the next number. Fetches
//! take no time.

use pantler_policy::Spec;
use pantler_steward::lists::Prefetched;
use pantler_steward::{Access, Action, Block, FRAMES_MAX, FileId, Lookahead, Options, OwnerId, Steward};
use pantler_trace::Prepared;

use crate::allocation::RunError;
use crate::demand::{BATCH, Demand, drive};
use crate::outcome::Outcome;
use crate::watch::Watch;

/// What is looked ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The scheme.
    pub lookahead: Lookahead,
    /// Blocks ahead at a time, at least 1.
    pub window: u32,
}

/// What lookahead did in one run, the warm-up included.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LookedAhead {
    /// Blocks brought in, used and wasted.
    pub looked: Prefetched,
    /// Frames of the waiting room, on average over all references.
    pub room: f64,
}

/// Simulates `spec` with `frames` frames and a lookahead over a trace. `seen` is told the size of
/// the waiting room after every reference. The first `warm_up` references are made and not counted.
///
/// # Errors
///
/// [`RunError::Options`] of a policy that must know the future, [`RunError::Stopped`] when
/// `watch` was told so.
pub fn simulate_ahead(
    trace: &Prepared,
    spec: Spec,
    ahead: Ahead,
    frames: u32,
    warm_up: u64,
    watch: &Watch,
    seen: impl FnMut(u32),
) -> Result<(Outcome, LookedAhead), RunError> {
    let Ahead { lookahead, window } = ahead;
    // No more blocks can come in than are referenced and looked ahead, and policies that count by
    // frames would cost memory without bound.
    let blocks = (trace.requests().len() as u64).saturating_mul(2 * u64::from(window) + 2);
    let frames = u64::from(frames).min(blocks).clamp(1, FRAMES_MAX.into()) as u32;
    let steward = Steward::new(Options { lookahead, window, common_policy: spec, ..Options::new(frames) })?;
    let ids = trace.requests();
    let mut cache = Looking { trace, steward, rooms: 0, seen };
    let outcome = drive(trace, ids, warm_up, watch, &mut cache)?;
    let room = if ids.is_empty() { 0.0 } else { cache.rooms as f64 / ids.len() as f64 };
    Ok((outcome, LookedAhead { looked: cache.steward.looked(), room }))
}

/// A cache that looks ahead.
struct Looking<'a, S> {
    trace: &'a Prepared,
    steward: Steward,
    /// Sizes of the waiting room, over all references.
    rooms: u64,
    seen: S,
}

impl<S: FnMut(u32)> Demand for Looking<'_, S> {
    fn batch(&mut self, ids: &[u32], count: usize, missed: &mut [u32; BATCH]) -> usize {
        let mut misses = 0;
        for (at, &id) in (0..).zip(&ids[..count]) {
            let block = self.trace.block_of(id);
            if !is_hit(&mut self.steward, Block::new(FileId(block.file.into()), block.index)) {
                missed[misses] = at;
                misses += 1;
            }
            let room = self.steward.waiting_max();
            self.rooms += u64::from(room);
            (self.seen)(room);
        }
        misses
    }
}

/// One reference, and all that is fetched because of it.
fn is_hit(steward: &mut Steward, block: Block) -> bool {
    let access = steward.access(OwnerId(1), block);
    while let Some(action) = steward.poll() {
        if let Action::Fetch { block, .. } = action {
            steward.fetched(block);
        }
    }
    matches!(access, Access::Hit(_))
}
