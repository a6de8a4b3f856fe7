//! Policies that are told the future: MIN, and MIN that may leave a block out.

use pantler_policy::Offline;
use pantler_policy::min::{Min, Reference};
use pantler_trace::Prepared;

use crate::demand::{AHEAD, BATCH, Demand, drive};
use crate::outcome::Outcome;
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
    let min = Min::new(frames, length, policy == Offline::MinWithBypass);
    drive(trace, next_uses, warm_up, watch, &mut Foretold { min, now: 0 })
}

/// The next uses of a trace, computed by the first that asks.
///
/// # Errors
///
/// [`Stopped`] when `watch` was told so.
pub fn next_uses<'a>(trace: &'a Prepared, watch: &Watch) -> Result<&'a [u32], Stopped> {
    trace.next_uses_while(&|references| watch.advance(references).is_ok()).ok_or(Stopped)
}

/// A cache under an offline policy, told of each reference when its block is referenced next.
struct Foretold {
    min: Min,
    /// References made.
    now: u32,
}

impl Demand for Foretold {
    #[inline(never)]
    fn batch(&mut self, next_uses: &[u32], count: usize, missed: &mut [u32; BATCH]) -> usize {
        let mut misses = 0;
        for (at, &next_use) in next_uses[..count].iter().enumerate() {
            if let Some(&soon) = next_uses.get(at + AHEAD) {
                self.min.prefetch(soon);
            }
            if self.min.reference(self.now, next_use) != Reference::Hit {
                missed[misses % BATCH] = at as u32;
                misses += 1;
            }
            self.now += 1;
        }
        misses
    }
}
