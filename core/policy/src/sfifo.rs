//! Segmented FIFO, as in VMS: a FIFO that is cheap to keep, and behind it an LRU list that corrects
//! its mistakes.
//!
//! ```text
//!   insert --> [ primary: FIFO, 70 % ] --oldest--> [ secondary: LRU, 30 % ] --> evict
//!                  ^                                     |
//!                  +---------------- hit ----------------+
//! ```
//!
//! A hit in the primary queue changes nothing: there the hardware finds the page by itself. When
//! the primary queue holds more than its share, its oldest handle goes to the most recently used
//! end of the secondary list. A hit there takes the handle back into the primary queue. Victims are
//! the least recently used of the secondary list, and the oldest of the primary queue while there
//! are none.
//!
//! R1  A handle's mark says in which of the two it is.
//! R2  The primary queue holds at most its share of the frames.
//!
//! With a large secondary list this behaves like LRU, with none it is FIFO. No differences from the
//! paper. Source: R. Turner and H. Levy, Segmented FIFO page replacement, SIGMETRICS 1981.
//! Default: `secondary=0.3`.

use crate::parameters::{parameters, part_of};
use crate::{Handle, Links, List, Online, Policy, Queue, Ring, Verdict};

const PRIMARY: u8 = 0;
const SECONDARY: u8 = 1;

parameters! {
    /// Parameters of [`SegmentedFifo`].
    pub struct SegmentedFifoParameters {
        /// Share of the frames for the secondary, least recently used list.
        "secondary" => secondary: f64 = 0.3, 0.0..=1.0;
    }
}

/// Segmented FIFO.
#[derive(Clone, Debug, Default)]
pub struct SegmentedFifo {
    primary: Ring,
    secondary: List,
    frames: u32,
    primary_max: u32,
    parameters: SegmentedFifoParameters,
}

impl SegmentedFifo {
    fn set_limits(&mut self, frames: u32) {
        self.frames = frames;
        self.primary_max = frames - part_of(frames, self.parameters.secondary).min(frames);
    }

    #[inline]
    fn overflow(&mut self, links: &mut Links) {
        while self.primary.len() > self.primary_max
            && let Some(handle) = self.primary.pop_front(links)
        {
            links.set_mark(handle, SECONDARY);
            self.secondary.push_back(links, handle);
        }
    }
}

impl Online for SegmentedFifo {
    type Parameters = SegmentedFifoParameters;
    const NAME: &'static str = "sfifo";
    const SUMMARY: &'static str = "segmented FIFO of VMS: a FIFO, and behind it an LRU list";

    fn new(frames: u32, parameters: SegmentedFifoParameters) -> Self {
        let mut new = Self { parameters, ..Self::default() };
        new.set_limits(frames);
        new
    }
}

impl Policy for SegmentedFifo {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        if links.mark(handle) == SECONDARY {
            self.secondary.remove(links, handle);
            self.insert(links, handle);
        }
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        links.set_mark(handle, PRIMARY);
        self.primary.push_back(links, handle);
        self.overflow(links);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        if let Some(victim) = self.secondary.take_first(links, pinned) {
            return Some(victim);
        }
        self.primary.sweep(links, |_, handle| if pinned(handle) { Verdict::Keep } else { Verdict::Take })
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        if links.mark(handle) == SECONDARY {
            self.secondary.remove(links, handle);
        } else {
            self.primary.remove(links, handle);
        }
    }

    #[inline]
    fn len(&self) -> u32 {
        self.primary.len() + self.secondary.len()
    }

    fn resize(&mut self, links: &mut Links, frames: u32) {
        self.set_limits(frames);
        self.reserve(links.capacity());
        self.overflow(links);
    }

    fn reserve(&mut self, handles: u32) {
        // One more than its share for the moment in which a newcomer pushes another out.
        self.primary.reserve(self.primary_max.saturating_add(1).min(handles));
    }

    fn validate(&self, links: &Links) {
        self.primary.validate(links);
        self.secondary.validate(links);
        assert!(self.primary.len() <= self.primary_max, "R2: the primary queue");
        assert!(self.primary.iter().all(|handle| links.mark(handle) == PRIMARY), "R1: the primary queue");
        assert!(self.secondary.iter(links).all(|handle| links.mark(handle) == SECONDARY), "R1: the list");
    }
}
