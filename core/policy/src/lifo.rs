//! LIFO: last in, first out. A hit changes nothing.
//!
//! ```text
//!   front  [d] [a] [c] [b]  back        hit(a):  the same
//!                     evict ^ insert
//! ```
//!
//! What came first stays for ever: the best that a policy without memory of references can do on a
//! loop.
//!
//! R1  Along the list from front to back, times of insertion go from old to new.
//!
//! No parameters. Source: none, and so no differences: no paper proposes it. FIFO from the other
//! end, as a bound for loops.

use crate::{Handle, Links, List, NoParameters, Online, Policy};

/// Last in, first out.
#[derive(Clone, Debug, Default)]
pub struct Lifo {
    list: List,
}

impl Online for Lifo {
    type Parameters = NoParameters;
    const NAME: &'static str = "lifo";
    const SUMMARY: &'static str = "last in, first out";

    fn new(_frames: u32, NoParameters: NoParameters) -> Self {
        Self::default()
    }
}

impl Policy for Lifo {
    #[inline]
    fn hit(&mut self, _links: &mut Links, _handle: Handle) {}

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.list.push_back(links, handle);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        self.list.take_last(links, pinned)
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        self.list.remove(links, handle);
    }

    #[inline]
    fn len(&self) -> u32 {
        self.list.len()
    }

    fn validate(&self, links: &Links) {
        self.list.validate(links);
    }
}
