//! FIFO: first in, first out. A hit changes nothing.
//!
//! ```text
//!   front  [d] [a] [c] [b]  back        hit(a):  the same
//!   evict ^                 ^ insert
//! ```
//!
//! R1  Along the queue from front to back, times of insertion go from old to new.
//!
//! No parameters. No differences. Source: L. A. Belady, A study of replacement algorithms for a
//! virtual-storage computer, IBM Systems Journal 5(2), 1966.

use crate::{Handle, Links, NoParameters, Online, Policy, Queue, Ring, Verdict};

/// First in, first out.
#[derive(Clone, Debug, Default)]
pub struct Fifo<Q = Ring> {
    pub(crate) queue: Q,
    frames: u32,
}

impl<Q> Fifo<Q> {
    /// Takes over a queue of another policy.
    pub(crate) fn over(queue: Q) -> Self {
        Self { queue, frames: 0 }
    }
}

impl<Q: Queue> Online for Fifo<Q> {
    type Parameters = NoParameters;
    const NAME: &'static str = "fifo";
    const SUMMARY: &'static str = "first in, first out";

    #[inline]
    fn reference(&mut self, links: &mut Links, handle: Handle, frames: u32) -> Option<bool> {
        Some(self.queue.renew(links, handle, frames))
    }

    fn new(frames: u32, NoParameters: NoParameters) -> Self {
        Self { queue: Q::default(), frames }
    }
}

impl<Q: Queue> Policy for Fifo<Q> {
    #[inline]
    fn hit(&mut self, _links: &mut Links, _handle: Handle) {}

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.queue.push_back(links, handle);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        self.queue.sweep(links, |_, handle| if pinned(handle) { Verdict::Keep } else { Verdict::Take })
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

    #[inline]
    fn prefetch(&self, links: &Links, handle: Handle) {
        links.prefetch_links(handle);
    }

    fn validate(&self, links: &Links) {
        self.queue.validate(links);
    }
}
