//! A heap with keys that may be out of date: for orders in which keys only grow.
//!
//! ```text
//!   [a 3]              a was referenced since, its key is 9:  it sinks to its new place, c is next
//!   [e 8] [c 5]
//! ```
//!
//! Each handle stands by the key that it had when the heap last looked at it. The one at the top is
//! compared with its true key; if that has grown, it sinks, and otherwise it is the smallest.
//! References thus cost no heap step: evictions pay.
//!
//! H1  The key of an item is at most the true key of its handle.

use alloc::collections::BinaryHeap;
use alloc::collections::binary_heap::PeekMut;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::Handle;

/// Handles by keys that only grow, ties by handle.
#[derive(Clone, Debug)]
pub(crate) struct Heap<K: Ord> {
    items: BinaryHeap<Reverse<(K, Handle)>>,
    /// Handles that were passed over, while the next one is looked for.
    aside: Vec<Reverse<(K, Handle)>>,
}

impl<K: Ord> Default for Heap<K> {
    fn default() -> Self {
        Self { items: BinaryHeap::new(), aside: Vec::new() }
    }
}

impl<K: Copy + Ord> Heap<K> {
    /// Makes room for `handles` handles, and for all of them to be passed over.
    pub fn reserve(&mut self, handles: u32) {
        self.items.reserve((handles as usize).saturating_sub(self.items.len()));
        self.aside.reserve(handles as usize);
    }

    pub fn len(&self) -> u32 {
        self.items.len() as u32
    }

    pub fn push(&mut self, key: K, handle: Handle) {
        self.items.push(Reverse((key, handle)));
    }

    /// Takes out the smallest that `passes`. Amortised, each growth of a key costs one step down.
    pub fn take(&mut self, key: impl Fn(Handle) -> K, passes: impl Fn(Handle) -> bool) -> Option<Handle> {
        let mut found = None;
        while let Some(mut top) = self.items.peek_mut() {
            let Reverse((old, handle)) = *top;
            let new = key(handle);
            if new != old {
                top.0.0 = new;
                continue;
            }
            let top = PeekMut::pop(top);
            if passes(handle) {
                found = Some(handle);
                break;
            }
            self.aside.push(top);
        }
        self.items.extend(self.aside.drain(..));
        found
    }

    /// Takes out a handle, in time proportional to the length.
    pub fn remove(&mut self, handle: Handle) {
        self.items.retain(|item| item.0.1 != handle);
    }

    pub fn handles(&self) -> impl Iterator<Item = Handle> + '_ {
        self.items.iter().map(|item| item.0.1)
    }

    pub fn validate(&self, key: impl Fn(Handle) -> K) {
        assert!(self.items.iter().all(|&Reverse((old, handle))| old <= key(handle)), "H1: a key has shrunk");
        assert!(self.aside.is_empty(), "H1: no handle is passed over between calls");
    }
}
