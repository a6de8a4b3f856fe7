//! memcached's three queues, one record per item in one vector: those of a queue in the order in
//! which they came to it.

use pantler_policy::Handle;

use crate::harness::{Twin, check};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Queue {
    Hot,
    Warm,
    Cold,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    handle: Handle,
    queue: Queue,
    fetched: bool,
    active: bool,
    time: u64,
}

struct Memcached {
    hot: f64,
    warm: f64,
    tick: u64,
    references: u64,
    /// The second that was juggled last.
    second: u64,
    items: Vec<Item>,
}

impl Memcached {
    fn tail(&self, queue: Queue) -> Option<usize> {
        self.items.iter().position(|item| item.queue == queue)
    }

    fn count(&self, queue: Queue) -> f64 {
        self.items.iter().filter(|item| item.queue == queue).count() as f64
    }

    fn link(&mut self, at: usize, queue: Queue) {
        let item = self.items.remove(at);
        self.items.push(Item { queue, active: false, ..item });
    }

    fn reference(&mut self) {
        let second = self.references.checked_div(self.tick).unwrap_or(0);
        self.references += 1;
        if second > self.second {
            self.second = second;
            self.juggle();
        }
    }

    fn age(&self, at: usize) -> u64 {
        self.second - self.items[at].time
    }

    fn juggle(&mut self) {
        let total = self.items.len() as f64;
        let cold_age = self.tail(Queue::Cold).map_or(0, |at| self.age(at));
        for _ in 0..500 {
            let hot = self.pull(Queue::Hot, total * self.hot, cold_age / 5);
            if !hot && !self.pull(Queue::Warm, total * self.warm, cold_age * 2) {
                break;
            }
        }
    }

    fn pull(&mut self, queue: Queue, limit: f64, max_age: u64) -> bool {
        let mut removed = false;
        for _ in 0..5 {
            let Some(at) = self.tail(queue) else { break };
            if self.items[at].active {
                self.link(at, Queue::Warm);
                removed = true;
                if queue == Queue::Hot {
                    break;
                }
            } else {
                if self.count(queue) > limit || self.age(at) > max_age {
                    self.link(at, Queue::Cold);
                    removed = true;
                }
                break;
            }
        }
        removed
    }
}

impl Twin for Memcached {
    fn hit(&mut self, handle: Handle) {
        self.reference();
        let at = self.items.iter().position(|item| item.handle == handle).expect("resident");
        let item = &mut self.items[at];
        if !item.fetched {
            item.fetched = true;
        } else if !item.active {
            item.active = true;
            item.time = self.second;
            if item.queue == Queue::Cold {
                self.link(at, Queue::Warm);
            }
            self.juggle();
        }
    }

    fn miss(&mut self, _: Handle) {
        self.reference();
    }

    fn insert(&mut self, handle: Handle) {
        let time = self.second;
        self.items.push(Item { handle, queue: Queue::Hot, fetched: false, active: false, time });
        self.juggle();
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        for _ in 0..10 {
            if self.tail(Queue::Cold).is_none() {
                self.pull(Queue::Hot, 0.0, 0);
            }
        }
        let free = |queue| {
            self.items.iter().find(|item| item.queue == queue && !pinned(item.handle)).map(|item| item.handle)
        };
        let victim = free(Queue::Cold).or_else(|| free(Queue::Hot)).or_else(|| free(Queue::Warm))?;
        self.remove(victim);
        Some(victim)
    }

    fn remove(&mut self, handle: Handle) {
        self.items.retain(|item| item.handle != handle);
    }

    fn residents(&self) -> Vec<Handle> {
        self.items.iter().map(|item| item.handle).collect()
    }
}

#[test]
fn memcached() {
    let twin = |hot, warm, tick| Memcached { hot, warm, tick, references: 0, second: 0, items: Vec::new() };
    check("memcached", |_| twin(0.2, 0.4, 0));
    check("memcached:hot=0.5,warm=0.3,tick=7", |_| twin(0.5, 0.3, 7));
}
