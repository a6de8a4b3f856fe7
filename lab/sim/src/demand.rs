//! A demand cache over a trace: batches of references, and a policy beside its own record of what
//! is resident.

use pantler_policy::{Handle, Links, Online};
use pantler_trace::Prepared;

use crate::handles::Handles;
use crate::outcome::{Outcome, Tally};
use crate::watch::{Stopped, Watch};

/// References in a batch: counting, progress and stopping happen between batches.
pub(crate) const BATCH: usize = 4096;

/// References between the hint that an id will be used and its use. Fewer hide less of the memory's
/// time, more gain nothing.
pub(crate) const AHEAD: usize = 16;

/// Makes all references to a cache, in batches. `words` has what the cache is told of each.
pub(crate) fn drive(
    trace: &Prepared,
    words: &[u32],
    warm_up: u64,
    watch: &Watch,
    cache: &mut impl Demand,
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
    resident: Handles,
    frames: u32,
}

impl<P: Online> Dense<P> {
    pub(crate) fn new(mut policy: P, handles: u32, frames: u32) -> Self {
        policy.reserve(handles);
        Self { policy, links: Links::new(handles), resident: Handles::new(handles), frames }
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

    /// A reference to a handle that is not resident. Names the one that was evicted for it.
    #[inline(always)]
    pub(crate) fn bring_in(&mut self, id: Handle) -> Option<Handle> {
        self.policy.miss(&mut self.links, id);
        let mut victim = None;
        if self.policy.len() >= self.frames {
            // Nothing is ever pinned here.
            let evicted = self.policy.evict(&mut self.links, &|_| false)?;
            self.resident.remove(evicted);
            victim = Some(evicted);
        }
        self.policy.insert(&mut self.links, id);
        self.resident.insert(id);
        victim
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
