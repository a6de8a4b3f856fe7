//! CLOCK: FIFO with a second chance.
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
//! [`ClockSet`] sets it, as an operating system does whose hardware sets the bit when the faulting
//! instruction runs again.
//!
//! R1  A walk clears each bit that it meets, so one evict passes over a handle at most twice.
//!
//! No parameters. No differences otherwise.
//! Source: F. J. Corbató, A paging experiment with the Multics system, MIT Project MAC, MAC-M-384,
//! 1968.

use crate::{Handle, Links, List, NoParameters, Online, Policy, Queue, Ring, Verdict};

const REFERENCED: u8 = 1;

/// CLOCK, also called second chance. `SET` is the bit of a newcomer.
#[derive(Clone, Debug, Default)]
pub struct Clock<Q = Ring, const SET: bool = false> {
    pub(crate) queue: Q,
    frames: u32,
}

/// CLOCK with the bit of newcomers set.
pub type ClockSet<Q = Ring> = Clock<Q, true>;

impl Clock<List> {
    /// Takes over a list with another policy's marks: all bits are clear.
    pub(crate) fn over(list: List, links: &mut Links) -> Self {
        let mut handle = list.front();
        while let Some(current) = handle {
            links.set_mark(current, 0);
            handle = list.after(links, current);
        }
        Self { queue: list, frames: 0 }
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
        Self { queue: Q::default(), frames }
    }
}

impl<Q: Queue, const SET: bool> Policy for Clock<Q, SET> {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        links.set_mark(handle, REFERENCED);
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        links.set_mark(handle, if SET { REFERENCED } else { 0 });
        self.queue.push_back(links, handle);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        self.queue.sweep(links, |links, handle| {
            // Pinned handles keep their bit and their place: they are still in use.
            if pinned(handle) {
                return Verdict::Keep;
            }
            if links.mark(handle) != REFERENCED {
                return Verdict::Take;
            }
            links.set_mark(handle, 0);
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
