//! Policies that are told the future: MIN, and MIN that may leave a block out.

use pantler_policy::Offline;
use pantler_policy::min::{Min, Reference};
use pantler_trace::Prepared;

use crate::engine::{AHEAD, BATCH};
use crate::outcome::{Outcome, Tally};
use crate::watch::{Stopped, Watch};

/// Simulates an offline policy. It needs no names of blocks: a block in the cache is the time of
/// its next reference.
pub(crate) fn run(
    trace: &Prepared,
    policy: Offline,
    frames: u32,
    warm_up: u64,
    watch: &Watch,
) -> Result<Outcome, Stopped> {
    let next_uses = next_uses(trace, watch)?;
    let length = u32::try_from(next_uses.len()).expect("a prepared trace counts its references in 32 bits");
    let mut min = Min::new(frames, length, policy == Offline::MinWithBypass);
    let mut tally = Tally::new(trace, warm_up);
    let mut missed = [0; BATCH];
    let mut start = 0;
    while start < next_uses.len() {
        let end = (start + BATCH).min(next_uses.len());
        let misses = batch(&mut min, next_uses, start..end, &mut missed);
        tally.batch(start..end, &missed[..misses]);
        watch.advance(end - start)?;
        start = end;
    }
    Ok(tally.finish())
}

/// The next uses of a trace, computed by the first that asks.
///
/// # Errors
///
/// [`Stopped`] when `watch` was told so.
pub fn next_uses<'a>(trace: &'a Prepared, watch: &Watch) -> Result<&'a [u32], Stopped> {
    trace.next_uses_while(&|references| watch.advance(references).is_ok()).ok_or(Stopped)
}

/// Makes the references at `batch`, writes the positions of misses to `missed`, and returns how
/// many there are.
#[inline(never)]
fn batch(
    min: &mut Min,
    next_uses: &[u32],
    batch: std::ops::Range<usize>,
    missed: &mut [u32; BATCH],
) -> usize {
    let mut misses = 0;
    for now in batch.clone() {
        if let Some(&soon) = next_uses.get(now + AHEAD) {
            min.prefetch(soon);
        }
        if min.reference(now as u32, next_uses[now]) != Reference::Hit {
            missed[misses % BATCH] = (now - batch.start) as u32;
            misses += 1;
        }
    }
    misses
}
