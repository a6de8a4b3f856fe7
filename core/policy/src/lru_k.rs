//! LRU-K: the block with the oldest K-th last reference leaves.
//!
//! ```text
//!   young   front [d] [b] back            fewer than K references, by the last one; leave first
//!   heap          [a 3]                   K and more, by the K-th last one; the smallest is next
//!              [e 8] [c 5]
//!   ghosts  front [x] [y] back            evicted, with their times, for a while
//! ```
//!
//! Times are numbers of references. References that follow each other within `correlated`
//! references count as one: only the last of them is noted, and the interval before the next is
//! measured from there. A block leaves that period of its own only when nothing else can leave.
//!
//! R1  A handle known is in `young`, the heap, or on the list of ghosts, and its mark says where.
//! R2  Along `young` last references go from old to new.
//! R3  The heap orders by the K-th last and the last reference, which only grow: a hit costs no
//!     heap step.
//! R4  Ghosts stand in the order of eviction, and none is kept for more than `retained` x frames
//!     references, but for one that waits for each verb: a verb forgets one at most.
//!
//! Paper: O'Neil, O'Neil and Weikum, The LRU-K Page Replacement Algorithm For Database Disk
//! Buffering, SIGMOD 1993. Differences: the retained period starts at the eviction and not at the
//! last reference, so that ghosts expire in order. The subsidiary policy among blocks with fewer
//! than K references is LRU. With K = 1 this is LRU. Defaults: `k=2,correlated=0,retained=10.0`.

use alloc::vec::Vec;

use crate::heap::Heap;
use crate::parameters::parameters;
use crate::prefetch::prefetch;
use crate::{Forgotten, Handle, Links, List, Online, Policy};

/// Marks.
const YOUNG: u8 = 1;
const OLD: u8 = 2;
const GHOST: u8 = 3;

parameters! {
    /// Parameters of [`LruK`].
    pub struct LruKParameters {
        /// The reference that counts: 1 is the last one.
        "k" => k: u8 = 2, 1..=16;
        /// References that follow each other within this number count as one.
        "correlated" => correlated: u32 = 0, 0..=u32::MAX;
        /// How long an evicted block is remembered: references, in multiples of the frames.
        "retained" => retained: f64 = 10.0, 0.0..=1e6;
    }
}

/// LRU-K.
#[derive(Clone, Debug, Default)]
pub struct LruK {
    parameters: LruKParameters,
    frames: u32,
    retained: u64,
    /// References so far.
    now: u64,
    young: List,
    heap: Heap<(u64, u64)>,
    ghosts: List,
    /// For each handle its last reference, correlated or not.
    last: Vec<u64>,
    /// For each handle K times, the last uncorrelated reference first; 0 is none. For ghosts `left`
    /// is beside them.
    history: Vec<u64>,
    left: Vec<u64>,
    forgotten: Forgotten,
}

impl LruK {
    fn k(&self) -> usize {
        usize::from(self.parameters.k)
    }

    fn measure(&mut self, frames: u32) {
        self.frames = frames;
        self.retained = (f64::from(frames) * self.parameters.retained) as u64;
    }

    /// Room for all that can be resident, and for all of those to be passed over.
    fn reserve_heap(&mut self, handles: u32) {
        self.heap.reserve(handles.min(self.frames));
    }

    #[inline]
    fn times(&mut self, handle: Handle) -> &mut [u64] {
        let k = self.k();
        &mut self.history[handle as usize * k..][..k]
    }

    /// The times by which a handle is ordered now: the K-th last and the last reference.
    #[inline]
    fn key(&self, handle: Handle) -> (u64, u64) {
        (self.history[(handle as usize + 1) * self.k() - 1], self.last[handle as usize])
    }

    fn is_correlated(&self, handle: Handle) -> bool {
        self.now - self.last[handle as usize] <= u64::from(self.parameters.correlated)
    }

    /// Notes a reference that is not correlated: earlier ones move on, by the length of the burst
    /// that ended.
    #[inline]
    fn note(&mut self, handle: Handle, burst: u64) {
        let now = self.now;
        let times = self.times(handle);
        for at in (1..times.len()).rev() {
            times[at] = if times[at - 1] == 0 { 0 } else { times[at - 1] + burst };
        }
        times[0] = now;
        self.last[handle as usize] = now;
    }

    /// By the number of references known: to the back of `young` or to the heap.
    fn enter(&mut self, links: &mut Links, handle: Handle) {
        let key = self.key(handle);
        // In plain LRU the last reference is the K-th last: `young` orders by it, and the heap is
        // not needed.
        let is_lru = self.k() == 1 && self.parameters.correlated == 0;
        if key.0 == 0 || is_lru {
            self.young.push_back(links, handle);
            links.set_mark(handle, YOUNG);
        } else {
            links.set_mark(handle, OLD);
            self.heap.push(key, handle);
        }
    }

    /// The victim, off its list or the heap.
    fn choose(&mut self, links: &mut Links, passes: impl Fn(&Self, Handle) -> bool) -> Option<Handle> {
        let young = self.young.iter(links).find(|&handle| passes(self, handle));
        if let Some(handle) = young {
            self.young.remove(links, handle);
            return young;
        }
        let mut heap = core::mem::take(&mut self.heap);
        let old = heap.take(|handle| self.key(handle), |handle| passes(self, handle));
        self.heap = heap;
        old
    }

    /// Forgets the oldest ghost, if its time is over.
    #[inline]
    fn expire(&mut self, links: &mut Links) {
        let Some(oldest) = self.ghosts.front() else { return };
        if self.now - self.left[oldest as usize] > self.retained {
            self.ghosts.remove(links, oldest);
            self.forgotten.note(oldest);
        }
    }
}

impl Online for LruK {
    type Parameters = LruKParameters;
    const NAME: &'static str = "lru-k";
    const SUMMARY: &'static str = "the block whose K-th last reference is longest ago leaves first";

    fn new(frames: u32, parameters: LruKParameters) -> Self {
        let mut policy = Self { parameters, ..Self::default() };
        policy.measure(frames.max(1));
        policy
    }
}

impl Policy for LruK {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        self.now += 1;
        if self.is_correlated(handle) {
            self.last[handle as usize] = self.now;
        } else {
            let burst = self.last[handle as usize] - self.times(handle)[0];
            self.note(handle, burst);
        }
        if links.mark(handle) == YOUNG {
            self.young.remove(links, handle);
            self.enter(links, handle);
        }
        self.expire(links);
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.reserve(links.capacity());
        self.now += 1;
        if links.is_linked(handle) {
            self.ghosts.remove(links, handle);
        } else {
            self.times(handle).fill(0);
        }
        self.note(handle, 0);
        self.enter(links, handle);
        self.expire(links);
    }

    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let victim = self
            .choose(links, |policy, handle| !pinned(handle) && !policy.is_correlated(handle))
            .or_else(|| self.choose(links, |_, handle| !pinned(handle)))?;
        // With K = 1 a new reference makes all earlier ones worthless.
        if self.k() > 1 {
            self.ghosts.push_back(links, victim);
            links.set_mark(victim, GHOST);
            self.left[victim as usize] = self.now;
        }
        Some(victim)
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        match links.mark(handle) {
            YOUNG => self.young.remove(links, handle),
            GHOST => self.ghosts.remove(links, handle),
            // Slow, but seldom: a block that leaves for another reason than replacement.
            _ => self.heap.remove(handle),
        }
        links.set_mark(handle, 0);
    }

    #[inline]
    fn len(&self) -> u32 {
        self.young.len() + self.heap.len()
    }

    fn is_ghost(&self, links: &Links, handle: Handle) -> bool {
        links.is_linked(handle) && links.mark(handle) == GHOST
    }

    fn forgotten(&mut self) -> Option<Handle> {
        self.forgotten.take()
    }

    fn resize(&mut self, links: &mut Links, frames: u32) {
        self.measure(frames.max(1));
        self.reserve_heap(links.capacity());
    }

    #[inline]
    fn reserve(&mut self, handles: u32) {
        if self.last.len() < handles as usize {
            self.last.resize(handles as usize, 0);
            self.left.resize(handles as usize, 0);
            self.history.resize(handles as usize * self.k(), 0);
            self.reserve_heap(handles);
        }
    }

    #[inline]
    fn prefetch(&self, links: &Links, handle: Handle) {
        links.prefetch(handle);
        prefetch(&self.last, handle as usize);
        prefetch(&self.history, handle as usize * self.k());
    }

    fn validate(&self, links: &Links) {
        self.young.validate(links);
        self.ghosts.validate(links);
        assert!(self.young.iter(links).all(|handle| links.mark(handle) == YOUNG), "R1: young");
        assert!(self.ghosts.iter(links).all(|handle| links.mark(handle) == GHOST), "R1: ghosts");
        assert!(self.heap.handles().all(|handle| links.mark(handle) == OLD), "R1: the heap");
        let last = self.young.iter(links).map(|handle| self.last[handle as usize]);
        assert!(last.is_sorted(), "R2: the order of the young");
        self.heap.validate(|handle| self.key(handle));
        let left = self.ghosts.iter(links).map(|handle| self.left[handle as usize]);
        assert!(left.is_sorted(), "R4: the order of the ghosts");
    }
}
