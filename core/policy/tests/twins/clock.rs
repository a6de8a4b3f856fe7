//! CLOCK and its relatives: a queue that gives its front further chances.

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

/// The circle as a vector that starts at the back hand; the first `watched` lie between the hands.
struct TwoHands {
    circle: Vec<(Handle, bool)>,
    watched: usize,
    spread: usize,
    share: f64,
}

impl TwoHands {
    fn new(frames: u32, share: f64) -> Self {
        let mut new = TwoHands { circle: Vec::new(), watched: 0, spread: 0, share };
        new.resize(frames);
        new
    }

    fn advance_front_hand(&mut self) {
        self.circle[self.watched].1 = false;
        self.watched += 1;
    }
}

impl Twin for TwoHands {
    fn hit(&mut self, handle: Handle) {
        self.circle.iter_mut().find(|block| block.0 == handle).expect("resident").1 = true;
    }

    fn insert(&mut self, handle: Handle) {
        self.circle.push((handle, false));
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        loop {
            while self.watched < self.spread.min(self.circle.len()) {
                self.advance_front_hand();
            }
            let free = self.circle[..self.watched].iter().position(|block| !pinned(block.0));
            let Some(at) = free else {
                if self.watched == self.circle.len() {
                    return None;
                }
                self.advance_front_hand();
                continue;
            };
            let block = self.circle.remove(at);
            self.watched -= 1;
            if !block.1 {
                return Some(block.0);
            }
            self.circle.push((block.0, false));
        }
    }

    fn remove(&mut self, handle: Handle) {
        let at = self.circle.iter().position(|block| block.0 == handle).expect("resident");
        self.circle.remove(at);
        if at < self.watched {
            self.watched -= 1;
        }
    }

    fn resize(&mut self, frames: u32) {
        self.spread = ((f64::from(frames) * self.share) as usize).max(1);
    }

    fn residents(&self) -> Vec<Handle> {
        self.circle.iter().map(|block| block.0).collect()
    }
}

#[test]
fn two_handed_clock() {
    check("two-handed-clock", |frames| TwoHands::new(frames, 0.25));
    check("two-handed-clock:spread=0.5", |frames| TwoHands::new(frames, 0.5));
    check("two-handed-clock:spread=1", |frames| TwoHands::new(frames, 1.0));
}
