//! SIEVE: a queue in order of insertion and one moving hand.
//!
//! ```text
//!   front  [a .] [b .] [c *] [d .] [e *] [f .]  back        hit(d) sets its bit, and that is all
//!   (oldest)             ^ hand -->             (newest)
//! ```
//!
//! A hit only sets a bit (`*`). To evict, the hand walks from old to new, clearing bits, and takes
//! the first handle without one; it stays there, and from the newest goes on with the oldest.
//! Unlike CLOCK, handles that are spared keep their place: newcomers between the hand and the back
//! are judged soon, survivors behind the hand rest.
//!
//! R1  The hand is empty, which means the oldest, or names a resident handle.
//! R2  Two walks around find a victim, unless all are pinned: the first clears every bit.
//!
//! No parameters. Pinned handles keep their bit. No differences from the paper otherwise.
//! Source: Y. Zhang et al., SIEVE is simpler than LRU, NSDI 2024, algorithm 1.

use crate::{Handle, Links, List, NoParameters, Online, Policy};

const VISITED: u8 = 1;

/// SIEVE.
#[derive(Clone, Debug, Default)]
pub struct Sieve {
    list: List,
    hand: Option<Handle>,
}

impl Online for Sieve {
    type Parameters = NoParameters;
    const NAME: &'static str = "sieve";
    const SUMMARY: &'static str = "FIFO whose hand spares what was hit, without moving it";

    #[inline]
    fn reference(&mut self, links: &mut Links, handle: Handle, frames: u32) -> Option<bool> {
        Some(self.refer_linked(links, handle, frames))
    }

    fn new(_frames: u32, NoParameters: NoParameters) -> Self {
        Self::default()
    }
}

impl Policy for Sieve {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        links.set_mark(handle, VISITED);
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        links.set_mark(handle, 0);
        self.list.push_back(links, handle);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let mut next = self.hand;
        for _ in 0..2 * u64::from(self.list.len()) {
            let handle = next.or(self.list.front())?;
            next = self.list.after(links, handle);
            if pinned(handle) {
                continue;
            }
            if links.mark(handle) == VISITED {
                links.set_mark(handle, 0);
                continue;
            }
            self.hand = next;
            self.list.remove(links, handle);
            return Some(handle);
        }
        None
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        if self.hand == Some(handle) {
            self.hand = self.list.after(links, handle);
        }
        self.list.remove(links, handle);
    }

    #[inline]
    fn len(&self) -> u32 {
        self.list.len()
    }

    fn validate(&self, links: &Links) {
        self.list.validate(links);
        if let Some(hand) = self.hand {
            assert!(self.list.iter(links).any(|handle| handle == hand), "R1: the hand is at {hand}");
        }
    }
}
