//! Random replacement, with the same generator.

use pantler_policy::{Draws, Handle};

use crate::harness::{Twin, check};

struct Bag {
    bag: Vec<Handle>,
    draws: Draws,
}

impl Bag {
    fn new(seed: u64) -> Self {
        Bag { bag: Vec::new(), draws: Draws::new(seed) }
    }
}

impl Twin for Bag {
    fn hit(&mut self, _handle: Handle) {}

    fn insert(&mut self, handle: Handle) {
        self.bag.push(handle);
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        if self.bag.is_empty() {
            return None;
        }
        let drawn = self.draws.below(self.bag.len() as u64) as usize;
        let places = (0..self.bag.len()).map(|step| (drawn + step) % self.bag.len());
        let at = places.into_iter().find(|at| !pinned(self.bag[*at]))?;
        Some(self.bag.swap_remove(at))
    }

    fn remove(&mut self, handle: Handle) {
        let at = self.bag.iter().position(|other| *other == handle).expect("resident");
        self.bag.swap_remove(at);
    }

    fn residents(&self) -> Vec<Handle> {
        self.bag.clone()
    }
}

#[test]
fn random() {
    check("random", |_| Bag::new(1));
    check("random:seed=0", |_| Bag::new(0));
    check("random:seed=12345", |_| Bag::new(12345));
}
