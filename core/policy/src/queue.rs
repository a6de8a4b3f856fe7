//! Queues: what FIFO-like policies need of their order, as a [`List`] or as a
//! [`Ring`](crate::Ring).
//!
//! A list can share its slab with other lists and lose any handle at the same price; a ring is
//! faster where handles come and go at the ends.

use crate::{Handle, Links, List};

/// What a [`sweep`](Queue::sweep) does with the handle that it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays where it is.
    Keep,
    /// It goes to the back.
    Requeue,
    /// It is taken out, and the sweep ends.
    Take,
}

/// Handles in an order.
pub trait Queue: Clone + core::fmt::Debug + Default {
    /// Puts a handle that is on no list of the slab at the back.
    fn push_back(&mut self, links: &mut Links, handle: Handle);

    /// Takes a handle of this queue out.
    fn remove(&mut self, links: &mut Links, handle: Handle);

    /// Walks from the front, requeued handles included, until the verdict takes a handle or all of
    /// the rest are kept. The verdict must not requeue for ever.
    fn sweep(
        &mut self,
        links: &mut Links,
        verdict: impl FnMut(&mut Links, Handle) -> Verdict,
    ) -> Option<Handle>;

    /// What a FIFO cache of `frames` frames does for one reference, with this queue the only one of
    /// its slab: says whether `handle` was in it. If not, it comes in, and from a full queue the
    /// front leaves.
    #[inline]
    fn renew(&mut self, links: &mut Links, handle: Handle, frames: u32) -> bool {
        if links.is_linked(handle) {
            return true;
        }
        if self.len() < frames || self.sweep(links, |_, _| Verdict::Take).is_some() {
            self.push_back(links, handle);
        }
        false
    }

    /// Handles in the queue.
    fn len(&self) -> u32;

    /// Whether the queue is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes room for that many, so that no call allocates.
    fn reserve(&mut self, handles: u32);

    /// Checks the invariants of the queue.
    fn validate(&self, links: &Links);
}

impl Queue for List {
    #[inline]
    fn push_back(&mut self, links: &mut Links, handle: Handle) {
        List::push_back(self, links, handle);
    }

    #[inline]
    fn remove(&mut self, links: &mut Links, handle: Handle) {
        List::remove(self, links, handle);
    }

    #[inline]
    fn sweep(
        &mut self,
        links: &mut Links,
        mut verdict: impl FnMut(&mut Links, Handle) -> Verdict,
    ) -> Option<Handle> {
        let mut next = self.front();
        while let Some(handle) = next {
            next = self.after(links, handle);
            match verdict(links, handle) {
                Verdict::Keep => {}
                Verdict::Requeue => {
                    self.move_to_back(links, handle);
                    next = next.or(Some(handle));
                }
                Verdict::Take => {
                    List::remove(self, links, handle);
                    return Some(handle);
                }
            }
        }
        None
    }

    #[inline]
    fn len(&self) -> u32 {
        List::len(self)
    }

    fn reserve(&mut self, _handles: u32) {}

    fn validate(&self, links: &Links) {
        List::validate(self, links);
    }
}
