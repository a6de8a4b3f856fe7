//! FIFO: first in, first out. A hit changes nothing.
//!
//! ```text
//!   front  [d] [a] [c] [b]  back        hit(a):  the same
//!   evict ^                 ^ insert
//! ```
//!
//! R1  Along the list from front to back, times of insertion go from old to new.

use crate::{Handle, Links, List, NoParameters, Online, Policy};

/// First in, first out.
#[derive(Clone, Debug, Default)]
pub struct Fifo {
    pub(crate) list: List,
}

impl Online for Fifo {
    type Parameters = NoParameters;
    const NAME: &'static str = "fifo";
    const SUMMARY: &'static str = "first in, first out";

    fn new(_frames: u32, NoParameters: NoParameters) -> Self {
        Self::default()
    }
}

impl Policy for Fifo {
    fn hit(&mut self, _links: &mut Links, _handle: Handle) {}

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.list.push_back(links, handle);
    }

    fn place(&mut self, links: &mut Links, handle: Handle) {
        self.list.push_back(links, handle);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let victim = self.list.iter(links).find(|&handle| !pinned(handle))?;
        self.list.remove(links, victim);
        Some(victim)
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
