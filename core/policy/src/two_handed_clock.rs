//! Two-handed CLOCK, as in BSD: one hand clears bits, the other follows and replaces what was not
//! referenced since.
//!
//! ```text
//!        back hand: evict              front hand: clear
//!            v                               v
//!   front  [a .] [b *] [c .] [d .]  |  [e *] [f .] [g *]  back
//!          between the hands: watched     not watched        ^ insert
//! ```
//!
//! The circle is cut at the back hand. Both hands advance in step: the front hand clears the bit of
//! the handle that it passes, which is watched from then on; the back hand takes the first watched
//! handle: with its bit set it goes to the back, without it is the victim. The distance between the
//! hands, and so the time in which a block must be referenced to stay, is `spread` of the frames,
//! where CLOCK gives a whole turn.
//!
//! R1  A handle's mark says whether it is watched, and its bit.
//! R2  Before each decision, `spread` handles are watched, or all.
//!
//! With one watched handle this is FIFO, because the bit is looked at right after it was cleared.
//! With all watched it is nearly CLOCK; a bit that was set before the front hand came is lost.
//! Pinned handles stay where they are; while all between the hands are pinned, the front hand goes
//! on alone. Source: S. Leffler et al., The design and implementation of the 4.3BSD UNIX operating
//! system, Addison-Wesley 1989, section 5.12. Difference: there, the hands move when memory runs
//! short, some pages ahead of need; here, when one is needed. Default: `spread=0.25`.

use crate::parameters::{parameters, part_of};
use crate::{Handle, Links, Online, Policy, Queue, Ring, Verdict};

const REFERENCED: u8 = 1;
const WATCHED: u8 = 2;

parameters! {
    /// Parameters of [`TwoHandedClock`].
    pub struct TwoHandedClockParameters {
        /// Distance between the hands, as a share of the frames; at least one frame.
        "spread" => spread: f64 = 0.25, 0.0..=1.0;
    }
}

/// CLOCK with two hands.
#[derive(Clone, Debug, Default)]
pub struct TwoHandedClock {
    watched: Ring,
    others: Ring,
    frames: u32,
    spread: u32,
    parameters: TwoHandedClockParameters,
}

impl TwoHandedClock {
    fn set_limits(&mut self, frames: u32) {
        self.frames = frames;
        self.spread = part_of(frames, self.parameters.spread).max(1);
    }

    /// The front hand passes one handle.
    #[inline]
    fn watch(&mut self, links: &mut Links) -> bool {
        let handle = self.others.pop_front(links);
        if let Some(handle) = handle {
            links.set_mark(handle, WATCHED);
            self.watched.push_back(links, handle);
        }
        handle.is_some()
    }
}

impl Online for TwoHandedClock {
    type Parameters = TwoHandedClockParameters;
    const NAME: &'static str = "two-handed-clock";
    const SUMMARY: &'static str = "CLOCK of BSD: one hand clears bits, another follows and replaces";

    fn new(frames: u32, parameters: TwoHandedClockParameters) -> Self {
        let mut new = Self { parameters, ..Self::default() };
        new.set_limits(frames);
        new
    }
}

impl Policy for TwoHandedClock {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        links.set_mark(handle, links.mark(handle) | REFERENCED);
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        links.set_mark(handle, 0);
        self.others.push_back(links, handle);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        loop {
            while self.watched.len() < self.spread && self.watch(links) {}
            let free = |_: &mut Links, handle| if pinned(handle) { Verdict::Keep } else { Verdict::Take };
            match self.watched.sweep(links, free) {
                Some(handle) if links.mark(handle) & REFERENCED == 0 => return Some(handle),
                Some(handle) => {
                    links.set_mark(handle, 0);
                    self.others.push_back(links, handle);
                }
                None if self.watch(links) => {}
                None => return None,
            }
        }
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        if links.mark(handle) & WATCHED != 0 {
            self.watched.remove(links, handle);
        } else {
            self.others.remove(links, handle);
        }
    }

    #[inline]
    fn len(&self) -> u32 {
        self.watched.len() + self.others.len()
    }

    fn resize(&mut self, links: &mut Links, frames: u32) {
        self.set_limits(frames);
        self.reserve(links.capacity());
    }

    fn reserve(&mut self, handles: u32) {
        self.watched.reserve(self.frames.min(handles));
        self.others.reserve(self.frames.min(handles));
    }

    fn validate(&self, links: &Links) {
        self.watched.validate(links);
        self.others.validate(links);
        assert!(self.watched.iter().all(|handle| links.mark(handle) & WATCHED != 0), "R1: between the hands");
        assert!(self.others.iter().all(|handle| links.mark(handle) & WATCHED == 0), "R1: the others");
    }
}
