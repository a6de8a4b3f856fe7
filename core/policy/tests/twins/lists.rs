//! Policies of one list in order of references or arrivals: LRU, MRU, FIFO, LIFO.

use pantler_policy::Handle;

use crate::harness::{Twin, check};

pub struct Order {
    /// From old to new.
    order: Vec<Handle>,
    moves_on_hit: bool,
    newest_first: bool,
}

impl Order {
    pub fn new(moves_on_hit: bool, newest_first: bool) -> Self {
        Self { order: Vec::new(), moves_on_hit, newest_first }
    }
}

impl Twin for Order {
    fn hit(&mut self, handle: Handle) {
        if self.moves_on_hit {
            self.remove(handle);
            self.insert(handle);
        }
    }

    fn insert(&mut self, handle: Handle) {
        self.order.push(handle);
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let mut free = self.order.iter().copied().filter(|handle| !pinned(*handle));
        let victim = if self.newest_first { free.next_back() } else { free.next() }?;
        self.remove(victim);
        Some(victim)
    }

    fn remove(&mut self, handle: Handle) {
        self.order.retain(|other| *other != handle);
    }

    fn residents(&self) -> Vec<Handle> {
        self.order.clone()
    }
}

#[test]
fn lru() {
    check("lru", |_| Order::new(true, false));
}

#[test]
fn mru() {
    check("mru", |_| Order::new(true, true));
}

#[test]
fn fifo() {
    check("fifo", |_| Order::new(false, false));
}

#[test]
fn lifo() {
    check("lifo", |_| Order::new(false, true));
}
