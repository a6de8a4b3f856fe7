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
//! H2  No item is below its parent.

use alloc::vec::Vec;

use crate::Handle;

/// Handles by keys that only grow, ties by handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heap<K> {
    items: Vec<(K, Handle)>,
    /// Handles that were passed over, while the next one is looked for.
    aside: Vec<(K, Handle)>,
}

impl<K: Copy + PartialOrd + core::fmt::Debug> Heap<K> {
    /// Makes room for `handles` handles, and for all of them to be passed over.
    pub fn reserve(&mut self, handles: u32) {
        self.items.reserve((handles as usize).saturating_sub(self.items.len()));
        self.aside.reserve(handles as usize);
    }

    pub fn len(&self) -> u32 {
        self.items.len() as u32
    }

    pub fn push(&mut self, key: K, handle: Handle) {
        let mut at = self.items.len();
        self.items.push((key, handle));
        while at > 0 && self.items[at] < self.items[(at - 1) / 2] {
            self.items.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let mut least = at;
            for child in 2 * at + 1..self.items.len().min(2 * at + 3) {
                if self.items[child] < self.items[least] {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.items.swap(least, at);
            at = least;
        }
    }

    /// Takes out the smallest that `passes`. Amortised, each growth of a key costs one step down.
    pub fn take(&mut self, key: impl Fn(Handle) -> K, passes: impl Fn(Handle) -> bool) -> Option<Handle> {
        let mut found = None;
        while let Some(&(old, handle)) = self.items.first() {
            let new = key(handle);
            if new != old {
                self.items[0].0 = new;
                self.sink(0);
                continue;
            }
            self.items.swap_remove(0);
            self.sink(0);
            if passes(handle) {
                found = Some(handle);
                break;
            }
            self.aside.push((old, handle));
        }
        while let Some((key, handle)) = self.aside.pop() {
            self.push(key, handle);
        }
        found
    }

    /// Takes out a handle, in time proportional to the length.
    pub fn remove(&mut self, handle: Handle) {
        let at = self.items.iter().position(|item| item.1 == handle);
        self.items.swap_remove(at.expect("the handle is in the heap"));
        for parent in (0..self.items.len() / 2).rev() {
            self.sink(parent);
        }
    }

    pub fn handles(&self) -> impl Iterator<Item = Handle> + '_ {
        self.items.iter().map(|item| item.1)
    }

    pub fn validate(&self, key: impl Fn(Handle) -> K) {
        for (at, &(old, handle)) in self.items.iter().enumerate() {
            assert!(old <= key(handle), "H1: the key of {handle}");
            assert!(at == 0 || self.items[(at - 1) / 2] <= (old, handle), "H2: the heap at {at}");
        }
        assert!(self.aside.is_empty(), "H2: no handle is passed over between calls");
    }
}
