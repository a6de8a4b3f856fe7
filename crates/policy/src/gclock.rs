//! GCLOCK, the generalised CLOCK: a counter in place of the bit.
//!
//! ```text
//!   front  [d 2] [a 0] [c 3] [b 1]  back        hit(a):  [d 2] [a 1] [c 3] [b 1]
//!    hand ^ evict                  ^ insert
//! ```
//!
//! A hit counts up, at most to `max`. To evict, the hand walks from the front: a handle whose counter is not zero loses
//! one and goes to the back, the first with zero is the victim.
//!
//! R1  A counter is at most `max`.
//! R2  One evict passes over a handle at most `max + 1` times.
//!
//! With `max` = 1 and `initial` = 0 this is CLOCK; the paper counts without bound.
//! Source: A. J. Smith, Sequentiality and prefetching in database systems, ACM TODS 3(3), 1978.

use crate::parameters::parameters;
use crate::{Handle, Links, List, Online, Policy};

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
    list: List,
    parameters: GclockParameters,
}

impl Online for Gclock {
    type Parameters = GclockParameters;
    const NAME: &'static str = "gclock";
    const SUMMARY: &'static str = "CLOCK with a counter in place of the bit";

    fn new(_frames: u32, parameters: GclockParameters) -> Self {
        Self { list: List::default(), parameters }
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
        self.list.push_back(links, handle);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        // Pinned handles keep their count and their place: whoever holds one is not done with it.
        let mut handle = self.list.front();
        while let Some(current) = handle {
            handle = self.list.after(links, current);
            if pinned(current) {
                continue;
            }
            let count = links.mark(current);
            if count == 0 {
                self.list.remove(links, current);
                return Some(current);
            }
            links.set_mark(current, count - 1);
            self.list.move_to_back(links, current);
            handle = handle.or(Some(current));
        }
        None
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        self.list.remove(links, handle);
    }

    fn len(&self) -> u32 {
        self.list.len()
    }

    fn validate(&self, links: &Links) {
        self.list.validate(links);
        for handle in self.list.iter(links) {
            assert!(links.mark(handle) <= self.parameters.max, "R1: the counter of {handle}");
        }
    }
}
