//! Bags: handles in no order, for policies that draw one at random.
//!
//! ```text
//!   places  [4] [1] [7] [0]          links(7) = (place 2)          remove(1):  [4] [0] [7]
//! ```
//!
//! D1  A handle's link names the place that holds it.

use alloc::vec::Vec;

use super::{Handle, Link, Links, NONE, UNLINKED};

/// Handles without an order. The default is empty.
#[derive(Clone, Debug, Default)]
pub struct Bag {
    places: Vec<Handle>,
}

impl Bag {
    /// Adds a handle that is on no list of the slab.
    #[inline]
    pub fn put(&mut self, links: &mut Links, handle: Handle) {
        debug_assert!(!links.is_linked(handle), "K1: {handle} is on a list already");
        links.links[handle as usize] = Link { prev: self.len(), next: NONE };
        self.places.push(handle);
    }

    /// Takes a handle of this bag out; the last one fills its place.
    #[inline]
    pub fn remove(&mut self, links: &mut Links, handle: Handle) {
        let place = links.links[handle as usize].prev;
        assert!(self.at(place) == Some(handle), "D1: {handle} is not in this bag");
        self.places.swap_remove(place as usize);
        if let Some(moved) = self.at(place) {
            links.links[moved as usize].prev = place;
        }
        links.links[handle as usize] = UNLINKED;
    }

    /// The handle at a place below [`len`](Self::len).
    #[inline]
    pub fn at(&self, place: u32) -> Option<Handle> {
        self.places.get(place as usize).copied()
    }

    /// Handles in the bag.
    #[inline]
    pub fn len(&self) -> u32 {
        self.places.len() as u32
    }

    /// Whether the bag is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Makes room for that many, so that no call allocates.
    pub fn reserve(&mut self, handles: u32) {
        self.places.reserve((handles as usize).saturating_sub(self.places.len()));
    }

    /// Checks D1 and panics with its number if it fails.
    pub fn validate(&self, links: &Links) {
        for (place, &handle) in (0..).zip(&self.places) {
            assert_eq!(links.links[handle as usize].prev, place, "D1: the place of {handle}");
        }
    }
}
