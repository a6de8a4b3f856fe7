//! memcached: three queues in each slab class, between which a thread of its own moves blocks.
//!
//! ```text
//!   hot    front [a] [b *] back    <-- insert    at most a fifth; its front falls to cold, or
//!                                                goes to warm if active (*)
//!   warm   front [c *] [d] back                  at most two fifths; its front falls to cold,
//!                                                or stays if active
//!   cold   front [e] [f] back                    a block that becomes active goes to warm
//!          evict ^
//! ```
//!
//! The first hit of a block only shows that it is fetched; every later one makes it active, until a
//! move clears that. Newcomers and blocks that become active note the time. What waits at the front
//! of hot or warm for longer than a share of the time that cold's front has waited falls to cold,
//! however short its queue is.
//!
//! R1  A handle's mark says which queue it is on, and whether it is fetched and active. None in
//!     cold is active.
//!
//! Source: memcached 1.6, items.c (`do_item_bump`, `lru_pull_tail`, `lru_maintainer_juggle`) and
//! doc/new_lru.txt, for items of one size that never expire.
//! Differences: the thread looks after every reference, where memcached's sleeps for a millisecond
//! and longer when nothing moves. Time is counted in references: memcached's clock counts seconds,
//! and without `tick` it stands still. Defaults: `hot=0.2,warm=0.4,tick=0`.

use alloc::vec::Vec;

use crate::parameters::parameters;
use crate::prefetch::prefetch;
use crate::{Handle, Links, List, Online, Policy};

/// Marks: indices of queues, and bits.
const HOT: u8 = 0;
const WARM: u8 = 1;
const COLD: u8 = 2;
const QUEUE: u8 = 3;
const FETCHED: u8 = 4;
const ACTIVE: u8 = 8;

/// Blocks that one look at a queue moves at most (`tries`), and such looks in a row.
const TRIES: u32 = 5;
const LOOKS: u32 = 500;
/// Blocks that an eviction takes down from hot at most when cold has none.
const PULLS: u32 = 10;
/// What may wait in hot and warm, in multiples of the time that cold's front has waited
/// (`hot_max_factor`, `warm_max_factor`).
const HOT_AGE: f64 = 0.2;
const WARM_AGE: f64 = 2.0;

parameters! {
    /// Parameters of [`Memcached`].
    pub struct MemcachedParameters {
        /// Share of the blocks beyond which hot is too long (`hot_lru_pct`).
        "hot" => hot: f64 = 0.2, 0.0..=1.0;
        /// The same of warm (`warm_lru_pct`).
        "warm" => warm: f64 = 0.4, 0.0..=1.0;
        /// References in one second of the clock; 0 if it stands still.
        "tick" => tick: u32 = 0, 0..=u32::MAX;
    }
}

/// Segmented LRU with a thread that maintains it.
#[derive(Clone, Debug, Default)]
pub struct Memcached {
    parameters: MemcachedParameters,
    /// Hot, warm, cold.
    queues: [List; 3],
    references: u64,
    /// The second, and when each handle came or became active.
    now: u32,
    times: Vec<u32>,
}

impl Memcached {
    #[inline]
    fn queue(&mut self, mark: u8) -> &mut List {
        &mut self.queues[usize::from(mark & QUEUE) % 3]
    }

    fn shift(&mut self, links: &mut Links, handle: Handle, to: u8) {
        let mark = links.mark(handle);
        self.queue(mark).remove(links, handle);
        self.queue(to).push_back(links, handle);
        links.set_mark(handle, mark & FETCHED | to);
    }

    /// A reference: whenever a second is over, time may have come for what waits.
    #[inline]
    fn tick(&mut self, links: &mut Links) {
        let now = self.references.checked_div(u64::from(self.parameters.tick)).unwrap_or(0) as u32;
        self.references += 1;
        if now != self.now {
            self.now = now;
            self.juggle(links);
        }
    }

    fn waited(&self, handle: Option<Handle>) -> u32 {
        handle.map_or(0, |handle| self.now - self.times[handle as usize])
    }

    /// What the thread does when it wakes.
    fn juggle(&mut self, links: &mut Links) {
        let blocks = f64::from(self.len());
        let waited = f64::from(self.waited(self.queues[usize::from(COLD)].front()));
        let hot = (blocks * self.parameters.hot, (waited * HOT_AGE) as u32);
        let warm = (blocks * self.parameters.warm, (waited * WARM_AGE) as u32);
        for _ in 0..LOOKS {
            if !self.pull_hot(links, hot) && !self.pull_warm(links, warm) {
                return;
            }
        }
    }

    /// Moves the front of hot, if it is active or must go: more blocks than `bound.0`, or longer
    /// waited than `bound.1`.
    #[inline]
    fn pull_hot(&mut self, links: &mut Links, bound: (f64, u32)) -> bool {
        let hot = self.queues[usize::from(HOT)];
        let Some(front) = hot.front() else { return false };
        if links.mark(front) & ACTIVE != 0 {
            self.shift(links, front, WARM);
            return true;
        }
        let goes = f64::from(hot.len()) > bound.0 || self.waited(Some(front)) > bound.1;
        if goes {
            self.shift(links, front, COLD);
        }
        goes
    }

    /// The same of warm: active ones stay, at the back.
    #[inline]
    fn pull_warm(&mut self, links: &mut Links, bound: (f64, u32)) -> bool {
        let mut moved = false;
        for _ in 0..TRIES {
            let warm = self.queues[usize::from(WARM)];
            let Some(front) = warm.front() else { break };
            if links.mark(front) & ACTIVE != 0 {
                self.shift(links, front, WARM);
                moved = true;
            } else if f64::from(warm.len()) > bound.0 || self.waited(Some(front)) > bound.1 {
                self.shift(links, front, COLD);
                return true;
            } else {
                break;
            }
        }
        moved
    }
}

impl Online for Memcached {
    type Parameters = MemcachedParameters;
    const NAME: &'static str = "memcached";
    const SUMMARY: &'static str =
        "segmented LRU of three queues and a thread that moves, as memcached does it";

    fn new(_: u32, parameters: MemcachedParameters) -> Self {
        Self { parameters, ..Self::default() }
    }
}

impl Policy for Memcached {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        self.tick(links);
        let mark = links.mark(handle);
        if mark & FETCHED == 0 {
            links.set_mark(handle, mark | FETCHED);
        } else if mark & ACTIVE == 0 {
            self.times[handle as usize] = self.now;
            if mark & QUEUE == COLD {
                self.shift(links, handle, WARM);
            } else {
                links.set_mark(handle, mark | ACTIVE);
            }
            self.juggle(links);
        }
    }

    #[inline]
    fn miss(&mut self, links: &mut Links, _: Handle) {
        self.tick(links);
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.reserve(links.capacity());
        self.times[handle as usize] = self.now;
        links.set_mark(handle, HOT);
        self.queue(HOT).push_back(links, handle);
        self.juggle(links);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        for _ in 0..PULLS {
            if !self.queues[usize::from(COLD)].is_empty() || !self.pull_hot(links, (0.0, 0)) {
                break;
            }
        }
        let [hot, warm, cold] = &self.queues;
        let mut waiting = cold.iter(links).chain(hot.iter(links)).chain(warm.iter(links));
        let victim = waiting.find(|&handle| !pinned(handle))?;
        self.remove(links, victim);
        Some(victim)
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        let mark = links.mark(handle);
        self.queue(mark).remove(links, handle);
    }

    #[inline]
    fn len(&self) -> u32 {
        self.queues.iter().map(List::len).sum()
    }

    #[inline]
    fn reserve(&mut self, handles: u32) {
        if self.times.len() < handles as usize {
            self.times.resize(handles as usize, 0);
        }
    }

    #[inline]
    fn prefetch(&self, links: &Links, handle: Handle) {
        links.prefetch(handle);
        prefetch(&self.times, handle as usize);
    }

    fn validate(&self, links: &Links) {
        for (queue, number) in self.queues.iter().zip(HOT..) {
            queue.validate(links);
            let fits = |handle| {
                let mark = links.mark(handle);
                mark & QUEUE == number && (number != COLD || mark & ACTIVE == 0)
            };
            assert!(queue.iter(links).all(fits), "R1: queue {number}");
        }
    }
}
