//! LRU, MRU and LIFO: one list, of which one end is replaced.
//!
//! ```text
//!   front  [d] [a] [c] [b]  back        hit(a):  [d] [c] [b] [a]; LIFO: the same
//!     LRU ^                 ^ insert; MRU, LIFO
//! ```
//!
//! * [`Lru`]: least recently used first.
//! * [`Mru`]: most recently used first. The right policy for a file that is scanned again and again
//!   and does not fit: a fixed part of it stays cached, and the rest passes through one frame. What
//!   is placed without a reference enters at the front.
//! * [`Lifo`]: last in, first out, and a hit changes nothing. What came first stays for ever: the
//!   best that a policy without memory of references can do on a loop.
//!
//! R1  Along the list from front to back, last references (LIFO: insertions) go from old to new,
//!     placed handles of MRU before all of them.
//!
//! No parameters. No differences. Sources: R. L. Mattson, J. Gecsei, D. R. Slutz and I. L. Traiger,
//! Evaluation techniques for storage hierarchies, IBM Systems Journal 9(2), 1970 (LRU); H.-T. Chou
//! and D. J. DeWitt, An evaluation of buffer management strategies for relational database systems,
//! VLDB 1985, for references in a loop (MRU); no paper proposes LIFO, a bound for loops.

use crate::{Handle, Links, List, NoParameters, Online, Policy};

/// One list. `NEWEST` handles are replaced first, or the others; `STILL`: hits move nothing.
#[derive(Clone, Debug, Default)]
pub struct Listed<const NEWEST: bool, const STILL: bool> {
    pub(crate) list: List,
}

/// Least recently used.
pub type Lru = Listed<false, false>;

/// Most recently used.
pub type Mru = Listed<true, false>;

/// Last in, first out.
pub type Lifo = Listed<true, true>;

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

impl<const STILL: bool> Online for Listed<true, STILL> {
    type Parameters = NoParameters;
    const NAME: &'static str = if STILL { "lifo" } else { "mru" };
    const SUMMARY: &'static str =
        if STILL { "last in, first out" } else { "most recently used first: for scans that repeat" };

    fn new(_frames: u32, NoParameters: NoParameters) -> Self {
        Self::default()
    }
}

impl<const NEWEST: bool, const STILL: bool> Policy for Listed<NEWEST, STILL> {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        if !STILL {
            self.list.move_to_back(links, handle);
        }
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.list.push_back(links, handle);
    }

    fn place(&mut self, links: &mut Links, handle: Handle) {
        if self.places_backwards() {
            self.list.push_front(links, handle);
        } else {
            self.list.push_back(links, handle);
        }
    }

    fn places_backwards(&self) -> bool {
        NEWEST && !STILL
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        if NEWEST { self.list.take_last(links, pinned) } else { self.list.take_first(links, pinned) }
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
