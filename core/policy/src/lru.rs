//! LRU: least recently used first.
//!
//! ```text
//!   front  [d] [a] [c] [b]  back        hit(a):  [d] [c] [b] [a]
//!   evict ^                 ^ insert, hit
//! ```
//!
//! R1  Along the list from front to back, last references go from old to new.
//!
//! No parameters. No differences. Source: R. L. Mattson, J. Gecsei, D. R. Slutz and I. L. Traiger,
//! Evaluation techniques for storage hierarchies, IBM Systems Journal 9(2), 1970.

use crate::{Handle, Links, List, NoParameters, Online, Policy};

/// Least recently used.
#[derive(Clone, Debug, Default)]
pub struct Lru {
    pub(crate) list: List,
}

impl Online for Lru {
    type Parameters = NoParameters;
    const NAME: &'static str = "lru";
    const SUMMARY: &'static str = "least recently used";

    #[inline]
    fn reference(&mut self, links: &mut Links, handle: Handle, frames: u32) -> Option<bool> {
        Some(self.list.renew(links, handle, frames))
    }

    fn new(_frames: u32, NoParameters: NoParameters) -> Self {
        Self::default()
    }
}

impl Policy for Lru {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        self.list.move_to_back(links, handle);
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.list.push_back(links, handle);
    }

    fn place(&mut self, links: &mut Links, handle: Handle) {
        self.list.push_back(links, handle);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        self.list.take_first(links, pinned)
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        self.list.remove(links, handle);
    }

    fn len(&self) -> u32 {
        self.list.len()
    }

    #[inline]
    fn prefetch(&self, links: &Links, handle: Handle) {
        links.prefetch_links(handle);
    }

    fn validate(&self, links: &Links) {
        self.list.validate(links);
    }
}
