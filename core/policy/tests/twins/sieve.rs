//! SIEVE, with the hand as an index.

use pantler_policy::Handle;

use crate::harness::{Twin, check};

#[derive(Default)]
struct Sieve {
    /// From old to new, with the bit.
    queue: Vec<(Handle, bool)>,
    hand: usize,
}

impl Twin for Sieve {
    fn hit(&mut self, handle: Handle) {
        self.queue.iter_mut().find(|block| block.0 == handle).expect("resident").1 = true;
    }

    fn insert(&mut self, handle: Handle) {
        // A hand that left the newest stays before it: it goes on with the oldest.
        let at_end = self.hand >= self.queue.len();
        self.queue.push((handle, false));
        if at_end {
            self.hand = 0;
        }
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        if self.queue.iter().all(|block| pinned(block.0)) {
            return None;
        }
        loop {
            if self.hand >= self.queue.len() {
                self.hand = 0;
            }
            let block = &mut self.queue[self.hand];
            if !pinned(block.0) {
                if !block.1 {
                    return Some(self.queue.remove(self.hand).0);
                }
                block.1 = false;
            }
            self.hand += 1;
        }
    }

    fn remove(&mut self, handle: Handle) {
        let at = self.queue.iter().position(|block| block.0 == handle).expect("resident");
        self.queue.remove(at);
        if at < self.hand {
            self.hand -= 1;
        }
    }

    fn residents(&self) -> Vec<Handle> {
        self.queue.iter().map(|block| block.0).collect()
    }
}

#[test]
fn sieve() {
    check("sieve", |_| Sieve::default());
}
