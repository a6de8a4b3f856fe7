//! GCLOCK, the generalised CLOCK: a counter in place of the bit.
//!
//! ```text
//!   front  [d 2] [a 0] [c 3] [b 1]  back        hit(a):  [d 2] [a 1] [c 3] [b 1]
//!    hand ^ evict                  ^ insert
//! ```
//!
//! A hit counts up, at most to `max`. To evict, the hand walks from the front: a handle whose
//! counter is not zero loses one and goes to the back, the first with zero is the victim.
//!
//! R1  A counter is at most `max`.
//! R2  One evict passes over a handle at most `max + 1` times.
//!
//! With `max` = 1 and `initial` = 0 this is CLOCK. Difference: the paper counts without bound.
//! Defaults: `max=3,initial=0`.
//! Source: A. J. Smith, Sequentiality and prefetching in database systems, ACM TODS 3(3), 1978.

use crate::parameters::parameters;
use crate::{Handle, Links, Online, Policy, Queue, Ring, Verdict};

parameters! {
    /// Parameters of [`Gclock`].
    pub struct GclockParameters {
        /// References that are counted at most.
        "max" => max: u8 = 3, 1..=255;
        /// The counter of a newcomer; not above `max`.
        "initial" => initial: u8 = 0, 0..=255;
    }
}

/// CLOCK with a counter.
#[derive(Clone, Debug)]
pub struct Gclock {
    queue: Ring,
    frames: u32,
    parameters: GclockParameters,
}

impl Online for Gclock {
    type Parameters = GclockParameters;
    const NAME: &'static str = "gclock";
    const SUMMARY: &'static str = "CLOCK with a counter in place of the bit";

    fn new(frames: u32, parameters: GclockParameters) -> Self {
        Self { queue: Ring::default(), frames, parameters }
    }
}

impl Policy for Gclock {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        let count = links.mark(handle);
        links.set_mark(handle, count.saturating_add(1).min(self.parameters.max));
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        links.set_mark(handle, self.parameters.initial.min(self.parameters.max));
        self.queue.push_back(links, handle);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        self.queue.sweep(links, |links, handle| {
            // Pinned handles keep their count and their place: they are still in use.
            if pinned(handle) {
                return Verdict::Keep;
            }
            let count = links.mark(handle);
            if count == 0 {
                return Verdict::Take;
            }
            links.set_mark(handle, count - 1);
            Verdict::Requeue
        })
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        self.queue.remove(links, handle);
    }

    #[inline]
    fn len(&self) -> u32 {
        self.queue.len()
    }

    fn resize(&mut self, links: &mut Links, frames: u32) {
        self.frames = frames;
        self.reserve(links.capacity());
    }

    fn reserve(&mut self, handles: u32) {
        self.queue.reserve(self.frames.min(handles));
    }

    fn validate(&self, links: &Links) {
        self.queue.validate(links);
        for handle in self.queue.iter() {
            assert!(links.mark(handle) <= self.parameters.max, "R1: the counter of {handle}");
        }
    }
}
