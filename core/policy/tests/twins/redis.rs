//! Redis's sampled policies: a vector of keys, a vector that is sorted for a pool, and true ages in
//! place of clocks.

use pantler_policy::{Draws, Handle};

use crate::harness::{Twin, check};

enum Idle {
    /// References in a tick.
    Lru {
        tick: u64,
    },
    Lfu {
        factor: u32,
        decay: f64,
    },
}

struct Key {
    handle: Handle,
    /// The tick or the period of the last reference.
    time: u64,
    counter: u32,
}

struct Redis {
    idle: Idle,
    samples: u32,
    pool_max: usize,
    frames: u32,
    draws: Draws,
    keys: Vec<Key>,
    /// The least idle first.
    pool: Vec<(u64, Handle)>,
    references: u64,
    /// For LFU: references since a period began, and periods.
    since: u64,
    periods: u64,
}

impl Redis {
    fn new(frames: u32, samples: u32, pool_max: usize, idle: Idle) -> Self {
        Self {
            idle,
            samples,
            pool_max,
            frames,
            draws: Draws::new(1),
            keys: Vec::new(),
            pool: Vec::new(),
            references: 0,
            since: 0,
            periods: 0,
        }
    }

    fn reference(&mut self) {
        self.references += 1;
        self.since += 1;
        if let Idle::Lfu { decay, .. } = self.idle {
            let length = (f64::from(self.frames) * decay) as u64;
            if length > 0 && self.since >= length {
                self.since = 0;
                self.periods += 1;
            }
        }
    }

    fn time(&self) -> u64 {
        match self.idle {
            Idle::Lru { tick } => self.references / tick,
            Idle::Lfu { .. } => self.periods,
        }
    }

    fn decayed(&self, key: &Key) -> u32 {
        u64::from(key.counter).saturating_sub(self.time() - key.time) as u32
    }

    fn idleness(&self, key: &Key) -> u64 {
        match self.idle {
            Idle::Lru { .. } => self.time() - key.time,
            Idle::Lfu { .. } => 255 - u64::from(self.decayed(key)),
        }
    }

    fn is_pooled(&self, handle: Handle) -> bool {
        self.pool.iter().any(|(_, other)| *other == handle)
    }
}

impl Twin for Redis {
    fn hit(&mut self, handle: Handle) {
        self.reference();
        let at = self.keys.iter().position(|key| key.handle == handle).expect("resident");
        let mut counter = self.decayed(&self.keys[at]);
        if let Idle::Lfu { factor, .. } = self.idle {
            let lucky =
                counter < 255 && self.draws.below((counter.saturating_sub(5) * factor + 1).into()) == 0;
            counter += u32::from(lucky);
        }
        self.keys[at] = Key { handle, time: self.time(), counter };
    }

    fn insert(&mut self, handle: Handle) {
        self.reference();
        self.keys.push(Key { handle, time: self.time(), counter: 5 });
    }

    fn evict(&mut self, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        if self.keys.is_empty() {
            return None;
        }
        for _ in 0..16 {
            for _ in 0..self.samples {
                let key = &self.keys[self.draws.below(self.keys.len() as u64) as usize];
                let (handle, idle) = (key.handle, self.idleness(key));
                if !self.is_pooled(handle) && !pinned(handle) {
                    // Before those that are as idle, when sorted by idleness alone.
                    self.pool.insert(0, (idle, handle));
                    self.pool.sort_by_key(|(idle, _)| *idle);
                    if self.pool.len() > self.pool_max {
                        self.pool.remove(0);
                    }
                }
            }
            if let Some(&(_, victim)) = self.pool.iter().rev().find(|(_, handle)| !pinned(*handle)) {
                self.remove(victim);
                return Some(victim);
            }
        }
        let free = self.keys.iter().filter(|key| !pinned(key.handle));
        let victim = free.max_by_key(|key| self.idleness(key))?.handle;
        self.remove(victim);
        Some(victim)
    }

    fn remove(&mut self, handle: Handle) {
        let at = self.keys.iter().position(|key| key.handle == handle).expect("resident");
        self.keys.swap_remove(at);
        self.pool.retain(|(_, other)| *other != handle);
    }

    fn resize(&mut self, frames: u32) {
        self.frames = frames;
    }

    fn residents(&self) -> Vec<Handle> {
        self.keys.iter().map(|key| key.handle).collect()
    }
}

#[test]
fn redis_lru() {
    check("redis-lru", |frames| Redis::new(frames, 5, 16, Idle::Lru { tick: 1 }));
    check("redis-lru:samples=2,pool=3,tick=4", |frames| Redis::new(frames, 2, 3, Idle::Lru { tick: 4 }));
}

#[test]
fn redis_lfu() {
    check("redis-lfu", |frames| Redis::new(frames, 5, 16, Idle::Lfu { factor: 10, decay: 10.0 }));
    check("redis-lfu:pool=2,factor=1,decay=0", |frames| {
        Redis::new(frames, 5, 2, Idle::Lfu { factor: 1, decay: 0.0 })
    });
}
