//! CLOCK: FIFO with a second chance; and GCLOCK, with as many chances as there were hits.
//!
//! ```text
//!   front  [d *] [a .] [c *] [b .]  back
//!    hand ^ evict                  ^ insert
//! ```
//!
//! A hit only sets a bit (`*`). To evict, the hand walks from the front: a handle with its bit set
//! loses the bit and goes to the back, the first one without is the victim. The circle of the
//! textbook is this queue cut at the hand.
//!
//! The bit is clear on insertion, so a block referenced once leaves in order of arrival;
//! [`ClockSet`] sets it, as an operating system does if the hardware sets the bit when the faulting
//! instruction runs again.
//!
//! [`Gclock`] has a counter in place of the bit: a hit counts up, at most to `max`, and each visit
//! of the hand takes one off. CLOCK is a counter up to 1.
//!
//! R1  A counter is at most `max`. A walk lowers each one that it meets, so one evict passes over a
//!     handle at most `max + 1` times.
//!
//! Difference: the paper of GCLOCK counts without bound. Defaults of `gclock`: `max=3,initial=0`;
//! CLOCK has no parameters.
//! Sources: F. J. Corbató, A paging experiment with the Multics system, MIT Project MAC, MAC-M-384,
//! 1968; A. J. Smith, Sequentiality and prefetching in database systems, ACM TODS 3(3), 1978.

use crate::parameters::parameters;
use crate::{Handle, Links, List, NoParameters, Online, Policy, Queue, Ring, Verdict};

parameters! {
    /// Parameters of [`Gclock`].
    pub struct GclockParameters {
        /// References that are counted at most.
        "max" => max: u8 = 3, 1..=255;
        /// The counter of a newcomer; not above `max`.
        "initial" => initial: u8 = 0, 0..=255;
    }
}

/// CLOCK, also called second chance. `COUNTS` is whether it has counters and not bits.
#[derive(Clone, Debug)]
pub struct Clock<Q = Ring, const SET: bool = false, const COUNTS: bool = false> {
    pub(crate) queue: Q,
    frames: u32,
    parameters: GclockParameters,
}

/// CLOCK with the bit of newcomers set.
pub type ClockSet<Q = Ring> = Clock<Q, true>;

/// CLOCK with a counter.
pub type Gclock = Clock<Ring, false, true>;

impl Clock<List> {
    /// Takes over a list with another policy's marks: all bits are clear.
    pub(crate) fn over(list: List, links: &mut Links) -> Self {
        let mut handle = list.front();
        while let Some(current) = handle {
            links.set_mark(current, 0);
            handle = list.after(links, current);
        }
        Self { queue: list, ..Self::new(0, NoParameters) }
    }
}

impl<Q: Queue, const SET: bool> Online for Clock<Q, SET> {
    type Parameters = NoParameters;
    const NAME: &'static str = if SET { "clock-set" } else { "clock" };
    const SUMMARY: &'static str = if SET {
        "FIFO with a second chance; the bit is set on insertion"
    } else {
        "FIFO with a second chance; the bit is clear on insertion"
    };

    #[inline]
    fn reference(&mut self, links: &mut Links, handle: Handle, frames: u32) -> Option<bool> {
        Some(self.refer_linked(links, handle, frames))
    }

    fn new(frames: u32, NoParameters: NoParameters) -> Self {
        Self { queue: Q::default(), frames, parameters: GclockParameters { max: 1, initial: SET.into() } }
    }
}

impl Online for Gclock {
    type Parameters = GclockParameters;
    const NAME: &'static str = "gclock";
    const SUMMARY: &'static str = "CLOCK with a counter in place of the bit";

    fn new(frames: u32, parameters: GclockParameters) -> Self {
        Self { queue: Ring::default(), frames, parameters }
    }
}

impl<Q: Queue, const SET: bool, const COUNTS: bool> Policy for Clock<Q, SET, COUNTS> {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        let count = if COUNTS { links.mark(handle).saturating_add(1).min(self.parameters.max) } else { 1 };
        links.set_mark(handle, count);
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        let count = if COUNTS { self.parameters.initial.min(self.parameters.max) } else { SET.into() };
        links.set_mark(handle, count);
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
    }
}
