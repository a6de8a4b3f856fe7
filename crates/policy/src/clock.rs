//! CLOCK: FIFO with a second chance.
//!
//! ```text
//!   front  [d *] [a .] [c *] [b .]  back
//!    hand ^ evict                  ^ insert
//! ```
//!
//! A hit only sets a bit (`*`). To evict, the hand walks from the front: a handle with its bit set loses the bit and
//! goes to the back, the first one without is the victim. The circle of the textbook is this list cut at the hand.
//!
//! The bit is clear on insertion, so a block referenced once leaves in order of arrival.
//!
//! R1  A walk clears each bit that it meets, so one evict passes over a handle at most twice.

use crate::{Handle, Links, List, NoParameters, Online, Policy};

const REFERENCED: u8 = 1;

/// CLOCK, also called second chance.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    pub(crate) list: List,
}

impl Clock {
    /// Takes over a list whose marks are another policy's: all bits are clear.
    pub(crate) fn over(list: List, links: &mut Links) -> Self {
        let mut handle = list.front();
        while let Some(current) = handle {
            links.set_mark(current, 0);
            handle = list.after(links, current);
        }
        Self { list }
    }
}

impl Online for Clock {
    type Parameters = NoParameters;
    const NAME: &'static str = "clock";
    const SUMMARY: &'static str = "FIFO with a second chance; the bit is clear on insertion";

    fn new(_frames: u32, NoParameters: NoParameters) -> Self {
        Self::default()
    }
}

impl Policy for Clock {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        links.set_mark(handle, REFERENCED);
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        links.set_mark(handle, 0);
        self.list.push_back(links, handle);
    }

    fn place(&mut self, links: &mut Links, handle: Handle) {
        self.insert(links, handle);
    }

    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        // Pinned handles keep their bit and their place: whoever holds one is not done with it.
        let mut handle = self.list.front();
        for _ in 0..2 * u64::from(self.len()) {
            let current = handle.or(self.list.front())?;
            handle = self.list.after(links, current);
            if pinned(current) {
                continue;
            }
            if links.mark(current) != REFERENCED {
                self.list.remove(links, current);
                return Some(current);
            }
            links.set_mark(current, 0);
            self.list.move_to_back(links, current);
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
    }
}
