//! CLOCK and its relatives: a queue whose front gets further chances.

use pantler_policy::Handle;

use crate::harness::{Twin, check};

struct Clock {
    /// The hand points at the front; with the number of chances left.
    queue: Vec<(Handle, u32)>,
    at_insertion: u32,
    max: u32,
}

impl Twin for Clock {
    fn hit(&mut self, handle: Handle) {
        let entry = self.queue.iter_mut().find(|(other, _)| *other == handle).expect("resident");
        entry.1 = (entry.1 + 1).min(self.max);
    }

    fn insert(&mut self, handle: Handle) {
        self.queue.push((handle, self.at_insertion));
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        loop {
            // Pinned ones are not met by the hand.
            let at = self.queue.iter().position(|(handle, _)| !pinned(*handle))?;
            let (handle, chances) = self.queue.remove(at);
            if chances == 0 {
                return Some(handle);
            }
            self.queue.push((handle, chances - 1));
        }
    }

    fn remove(&mut self, handle: Handle) {
        self.queue.retain(|(other, _)| *other != handle);
    }

    fn residents(&self) -> Vec<Handle> {
        self.queue.iter().map(|(handle, _)| *handle).collect()
    }
}

#[test]
fn clock() {
    check("clock", |_| Clock { queue: Vec::new(), at_insertion: 0, max: 1 });
}

#[test]
fn gclock() {
    check("gclock", |_| Clock { queue: Vec::new(), at_insertion: 0, max: 3 });
    check("gclock:max=7,initial=2", |_| Clock { queue: Vec::new(), at_insertion: 2, max: 7 });
    check("gclock:max=1,initial=5", |_| Clock { queue: Vec::new(), at_insertion: 1, max: 1 });
}

#[test]
fn clock_set() {
    check("clock-set", |_| Clock { queue: Vec::new(), at_insertion: 1, max: 1 });
}
