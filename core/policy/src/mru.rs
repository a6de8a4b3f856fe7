//! MRU: most recently used first.
//!
//! ```text
//!   front  [d] [a] [c] [b]  back        hit(a):  [d] [c] [b] [a]
//!   place ^                 ^ insert, hit, evict
//! ```
//!
//! The right policy for a file that is scanned again and again and does not fit: a fixed part of it
//! stays cached, and the rest passes through one frame (paper 000, section 3, "cyclic access").
//!
//! R1  Along the list from front to back, last references go from old to new, placed handles before
//!     all of them.
//!
//! No parameters. No differences. Source: H.-T. Chou and D. J. DeWitt, An evaluation of buffer
//! management strategies for relational database systems, VLDB 1985, for references in a loop.

use crate::{Handle, Links, List, NoParameters, Online, Policy};

/// Most recently used.
#[derive(Clone, Debug, Default)]
pub struct Mru {
    pub(crate) list: List,
}

impl Online for Mru {
    type Parameters = NoParameters;
    const NAME: &'static str = "mru";
    const SUMMARY: &'static str = "most recently used first: for scans that repeat";

    fn new(_frames: u32, NoParameters: NoParameters) -> Self {
        Self::default()
    }
}

impl Policy for Mru {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        self.list.move_to_back(links, handle);
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.list.push_back(links, handle);
    }

    fn place(&mut self, links: &mut Links, handle: Handle) {
        self.list.push_front(links, handle);
    }

    fn places_backwards(&self) -> bool {
        true
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        self.list.take_last(links, pinned)
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
