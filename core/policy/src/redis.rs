//! Redis: draws a few blocks, and of all drawn lately the one that seems the least useful leaves.
//! Sampled LRU and LFU.
//!
//! ```text
//!   bag   [d] [a] [c] [b] [f] ...           draws 5
//!   pool  [c 7] [d 21] [f 40]               up to 16 candidates by idleness; the last one leaves
//! ```
//!
//! `redis-lru`: idleness is the time since the last reference, on a clock of 24 bits. `redis-lfu`:
//! idleness is 255 less a counter of 8 bits, which a reference raises the more seldom the higher it
//! is, and time lowers. Redis's `allkeys-random` is [`Random`](crate::Random).
//!
//! R1  A handle is in the bag if it is resident, and marked if it is in the pool.
//! R2  The pool is in order of the idleness that its members had when they were drawn, and not
//!     longer than its bound.
//!
//! Source: Redis 7.2, src/evict.c (`evictionPoolPopulate`, `LFULogIncr`, `LFUDecrAndReturn`).
//! Differences: draws are independent of each other, where Redis takes neighbours in its table. A
//! block is in the pool once and leaves it with the cache; Redis removes stale entries as it finds
//! them. Time is counted in references: Redis's clocks count seconds (LRU) and minutes (LFU). When
//! sixteen rounds of draws have met only pinned blocks, all are looked at. Defaults of `redis-lru`:
//! `samples=5,pool=16,tick=1,seed=1`; of `redis-lfu`:
//! `samples=5,pool=16,factor=10,decay=10.0,seed=1`.

use alloc::vec::Vec;

use crate::draws::Draws;
use crate::parameters::parameters;
use crate::prefetch::prefetch;
use crate::{Bag, Handle, Links, Online, Policy};

/// Candidates at most, whatever `pool` says.
const POOL_MAX: usize = 64;

/// Rounds of draws until all blocks are looked at.
const ROUNDS: u32 = 16;

/// The LRU clock wraps here.
const CLOCK_MASK: u32 = (1 << 24) - 1;

/// The counter of a newcomer, which is not at the mercy of the next eviction.
const COUNT_INITIAL: u8 = 5;

/// The mark of handles in the pool.
const POOLED: u8 = 1;

parameters! {
    /// Parameters of [`RedisLru`].
    pub struct RedisLruParameters {
        /// Blocks drawn for an eviction (`maxmemory-samples`).
        "samples" => samples: u32 = 5, 1..=64;
        /// Candidates kept from one eviction to the next.
        "pool" => pool: u32 = 16, 1..=64;
        /// References in one tick of the clock.
        "tick" => tick: u32 = 1, 1..=u32::MAX;
        /// Where the generator starts.
        "seed" => seed: u64 = 1, 0..=u64::MAX;
    }
}

parameters! {
    /// Parameters of [`RedisLfu`].
    pub struct RedisLfuParameters {
        /// Blocks drawn for an eviction (`maxmemory-samples`).
        "samples" => samples: u32 = 5, 1..=64;
        /// Candidates kept from one eviction to the next.
        "pool" => pool: u32 = 16, 1..=64;
        /// How much more seldom each step of the counter gets (`lfu-log-factor`).
        "factor" => factor: u32 = 10, 0..=65535;
        /// References until a counter loses one (`lfu-decay-time`), in multiples of the frames; 0
        /// is never.
        "decay" => decay: f64 = 10.0, 0.0..=1e6;
        /// Where the generator starts.
        "seed" => seed: u64 = 1, 0..=u64::MAX;
    }
}

/// The blocks, the generator and the pool.
#[derive(Clone, Debug)]
struct Sample {
    bag: Bag,
    draws: Draws,
    samples: u32,
    /// Idleness and handle, the least idle first.
    pool: [(u32, Handle); POOL_MAX],
    pooled: usize,
    pool_max: usize,
    frames: u32,
}

impl Sample {
    fn new(frames: u32, samples: u32, pool: u32, seed: u64) -> Self {
        Self {
            bag: Bag::default(),
            draws: Draws::new(seed),
            samples,
            pool: [(0, 0); POOL_MAX],
            pooled: 0,
            pool_max: (pool as usize).clamp(1, POOL_MAX),
            frames,
        }
    }

    /// Into the pool, if there is room or a block in it is less idle.
    #[inline]
    fn offer(&mut self, links: &mut Links, idle: u32, handle: Handle) {
        let at = self.pool[..self.pooled].iter().take_while(|(other, _)| *other < idle).count();
        if self.pooled < self.pool_max {
            self.pool.copy_within(at..self.pooled, at + 1);
            self.pool[at] = (idle, handle);
            self.pooled += 1;
        } else if at > 0 {
            links.set_mark(self.pool[0].1, 0);
            self.pool.copy_within(1..at, 0);
            self.pool[at - 1] = (idle, handle);
        } else {
            return;
        }
        links.set_mark(handle, POOLED);
    }

    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.bag.put(links, handle);
        links.set_mark(handle, 0);
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        self.bag.remove(links, handle);
        if links.mark(handle) == POOLED {
            let members = self.pool[..self.pooled].iter().position(|(_, other)| *other == handle);
            if let Some(at) = members {
                self.pool.copy_within(at + 1..self.pooled, at);
                self.pooled -= 1;
            }
            links.set_mark(handle, 0);
        }
    }

    #[inline]
    fn evict(
        &mut self,
        links: &mut Links,
        pinned: &dyn Fn(Handle) -> bool,
        idle: impl Fn(Handle) -> u32,
    ) -> Option<Handle> {
        let len = self.bag.len();
        if len == 0 {
            return None;
        }
        for _ in 0..ROUNDS {
            for _ in 0..self.samples {
                let place = self.draws.below(len.into()) as u32;
                let Some(handle) = self.bag.at(place) else { continue };
                if links.mark(handle) != POOLED && !pinned(handle) {
                    self.offer(links, idle(handle), handle);
                }
            }
            let mut pool = self.pool[..self.pooled].iter().rev();
            if let Some(&(_, victim)) = pool.find(|(_, handle)| !pinned(*handle)) {
                self.remove(links, victim);
                return Some(victim);
            }
        }
        let free = (0..len).filter_map(|place| self.bag.at(place)).filter(|handle| !pinned(*handle));
        let victim = free.max_by_key(|&handle| idle(handle))?;
        self.remove(links, victim);
        Some(victim)
    }

    fn reserve(&mut self, handles: u32) {
        self.bag.reserve(handles.min(self.frames));
    }

    fn validate(&self, links: &Links) {
        self.bag.validate(links);
        let marked = (0..self.bag.len()).filter_map(|place| self.bag.at(place));
        let marked = marked.filter(|&handle| links.mark(handle) == POOLED).count();
        assert_eq!(marked, self.pooled, "R1: marks and members of the pool");
        let pool = &self.pool[..self.pooled];
        assert!(pool.iter().all(|(_, handle)| links.mark(*handle) == POOLED), "R1: a member has no mark");
        assert!(pool.is_sorted_by_key(|(idle, _)| *idle) && pool.len() <= self.pool_max, "R2: the pool");
    }
}

/// Sampled LRU.
#[derive(Clone, Debug)]
pub struct RedisLru {
    sample: Sample,
    parameters: RedisLruParameters,
    references: u64,
    /// The clock at the last reference of each handle.
    clocks: Vec<u32>,
}

impl RedisLru {
    #[inline]
    fn clock(&self) -> u32 {
        (self.references / u64::from(self.parameters.tick)) as u32 & CLOCK_MASK
    }
}

impl Online for RedisLru {
    type Parameters = RedisLruParameters;
    const NAME: &'static str = "redis-lru";
    const SUMMARY: &'static str = "LRU of a few blocks drawn at random, as Redis does it";

    fn new(frames: u32, parameters: RedisLruParameters) -> Self {
        let sample = Sample::new(frames, parameters.samples, parameters.pool, parameters.seed);
        Self { sample, parameters, references: 0, clocks: Vec::new() }
    }
}

impl Policy for RedisLru {
    #[inline]
    fn hit(&mut self, _: &mut Links, handle: Handle) {
        self.references += 1;
        self.clocks[handle as usize] = self.clock();
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.reserve(links.capacity());
        self.references += 1;
        self.clocks[handle as usize] = self.clock();
        self.sample.insert(links, handle);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let now = self.clock();
        let clocks = &self.clocks;
        let idle = |handle: Handle| now.wrapping_sub(clocks[handle as usize]) & CLOCK_MASK;
        self.sample.evict(links, pinned, idle)
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        self.sample.remove(links, handle);
    }

    #[inline]
    fn len(&self) -> u32 {
        self.sample.bag.len()
    }

    fn resize(&mut self, _: &mut Links, frames: u32) {
        self.sample.frames = frames;
        self.sample.reserve(self.clocks.len() as u32);
    }

    #[inline]
    fn reserve(&mut self, handles: u32) {
        if self.clocks.len() < handles as usize {
            self.clocks.resize(handles as usize, 0);
            self.sample.reserve(handles);
        }
    }

    #[inline]
    fn prefetch(&self, _: &Links, handle: Handle) {
        prefetch(&self.clocks, handle as usize);
    }

    fn validate(&self, links: &Links) {
        self.sample.validate(links);
    }
}

/// The counter of a block, and when it was lowered last.
#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    period: u64,
    count: u8,
}

impl Counter {
    /// Lowered by the periods that went by.
    #[inline]
    fn at(self, period: u64) -> u8 {
        u64::from(self.count).saturating_sub(period - self.period) as u8
    }
}

/// Sampled LFU.
#[derive(Clone, Debug)]
pub struct RedisLfu {
    sample: Sample,
    parameters: RedisLfuParameters,
    references: u64,
    /// References in which a counter loses one, and such periods so far.
    decay: u64,
    period: u64,
    counters: Vec<Counter>,
}

impl RedisLfu {
    #[inline]
    fn tick(&mut self) {
        self.references += 1;
        if self.references >= self.decay && self.decay > 0 {
            self.references = 0;
            self.period += 1;
        }
    }

    fn measure(&mut self, frames: u32) {
        self.decay = (f64::from(frames) * self.parameters.decay) as u64;
    }
}

impl Online for RedisLfu {
    type Parameters = RedisLfuParameters;
    const NAME: &'static str = "redis-lfu";
    const SUMMARY: &'static str =
        "LFU of a few blocks drawn at random, with logarithmic counters, as Redis does it";

    fn new(frames: u32, parameters: RedisLfuParameters) -> Self {
        let sample = Sample::new(frames, parameters.samples, parameters.pool, parameters.seed);
        let mut policy =
            Self { sample, parameters, references: 0, decay: 0, period: 0, counters: Vec::new() };
        policy.measure(frames);
        policy
    }
}

impl Policy for RedisLfu {
    #[inline]
    fn hit(&mut self, _: &mut Links, handle: Handle) {
        self.tick();
        let count = self.counters[handle as usize].at(self.period);
        let base = u32::from(count.saturating_sub(COUNT_INITIAL));
        // With probability 1 / (base x factor + 1).
        let raise =
            count < u8::MAX && self.sample.draws.below((base * self.parameters.factor + 1).into()) == 0;
        self.counters[handle as usize] = Counter { period: self.period, count: count + u8::from(raise) };
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.reserve(links.capacity());
        self.tick();
        self.counters[handle as usize] = Counter { period: self.period, count: COUNT_INITIAL };
        self.sample.insert(links, handle);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let (counters, period) = (&self.counters, self.period);
        let idle = |handle: Handle| u32::from(u8::MAX - counters[handle as usize].at(period));
        self.sample.evict(links, pinned, idle)
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        self.sample.remove(links, handle);
    }

    #[inline]
    fn len(&self) -> u32 {
        self.sample.bag.len()
    }

    fn resize(&mut self, _: &mut Links, frames: u32) {
        self.measure(frames);
        self.sample.frames = frames;
        self.sample.reserve(self.counters.len() as u32);
    }

    #[inline]
    fn reserve(&mut self, handles: u32) {
        if self.counters.len() < handles as usize {
            self.counters.resize(handles as usize, Counter::default());
            self.sample.reserve(handles);
        }
    }

    #[inline]
    fn prefetch(&self, _: &Links, handle: Handle) {
        prefetch(&self.counters, handle as usize);
    }

    fn validate(&self, links: &Links) {
        self.sample.validate(links);
    }
}
