//! MQ: several LRU queues by frequency; a block without references for a while comes down a queue.
//!
//! ```text
//!   Q3  front [a 9] back                        8 references and more
//!   Q2  front [d 5] [f 4] back                  4 to 7
//!   Q1  front [b 2] back                        2 or 3
//!   Q0  front [e 1] [c 1] back                  1: the front of the lowest queue leaves
//!   out front [x 3] [y 1] back                  ghosts with their counts
//! ```
//!
//! A reference moves a handle to the back of queue log2(count). Each handle has a life time there,
//! renewed by references: when the front of a queue outlives it, it goes to the back of the queue
//! below with its count unchanged. A ghost that is referenced goes on counting where it stopped.
//! Made for caches below other caches, where the first references are not seen.
//!
//! R1  A resident handle is in the queue that its mark names, at most log2(count); a ghost is in
//!     `out`.
//! R2  Ghosts are no more than `out` x frames; after a resize that shrinks, each verb that makes
//!     one forgets four at most.
//! R3  Times are numbers of 32 bits that start again: a life ends at most 2^30 references from now.
//! R4  No front of an upper queue ends its life before `due`; after it the fronts are looked at.
//!
//! Paper: Zhou, Philbin and Li, The Multi-Queue Replacement Algorithm for Second Level Buffer
//! Caches, USENIX 2001. Differences: the life time is a parameter in multiples of the frames; the
//! paper watches the distances between references and takes their peak, which lies beyond the
//! number of frames of the cache above. Counts end at 255: the last of eight queues begins at 128.
//! Defaults: `queues=8,life=2.0,out=4.0`.

use alloc::vec::Vec;

use crate::parameters::{parameters, part_of, share_of};
use crate::prefetch::prefetch;
use crate::{Forgotten, Handle, Links, List, Online, Policy};

/// Queues that counts of 8 bits can tell apart.
const QUEUES_MAX: usize = 8;

/// The longest life (R3).
const LIFE_MAX: u32 = 1 << 30;

/// The mark of ghosts. Marks of residents are their queues.
const GHOST: u8 = 255;

parameters! {
    /// Parameters of [`Mq`].
    pub struct MqParameters {
        /// Queues of residents.
        "queues" => queues: u8 = 8, 1..=8;
        /// References until a handle without any comes down a queue, in multiples of the frames.
        "life" => life: f64 = 2.0, 0.0..=1e6;
        /// Ghosts at most, in multiples of the frames.
        "out" => out: f64 = 4.0, 0.0..=1e6;
    }
}

/// What is known of a handle, a ghost too. Packed: ghosts are four times as many as residents.
#[derive(Clone, Copy, Debug, Default)]
#[repr(Rust, packed)]
struct Entry {
    /// The time after which it comes down.
    end: u32,
    count: u8,
}

/// Multi-queue.
#[derive(Clone, Debug, Default)]
pub struct Mq {
    parameters: MqParameters,
    life: u32,
    ghosts_max: u32,
    /// References so far (R3).
    now: u32,
    /// No life of a front ends before this time (R4).
    due: u32,
    resident: u32,
    queues: [List; QUEUES_MAX],
    ghosts: List,
    entries: Vec<Entry>,
    forgotten: Forgotten,
}

impl Mq {
    fn measure(&mut self, frames: u32) {
        self.life = part_of(frames, self.parameters.life).min(LIFE_MAX);
        self.ghosts_max = share_of(frames, self.parameters.out);
    }

    /// At the back of the queue for its count, with a new life.
    #[inline]
    fn enqueue(&mut self, links: &mut Links, handle: Handle) {
        let end = self.now.wrapping_add(self.life);
        let entry = &mut self.entries[handle as usize];
        entry.end = end;
        let queue = (entry.count.ilog2() as u8).min(self.parameters.queues - 1);
        self.queues[usize::from(queue)].push_back(links, handle);
        links.set_mark(handle, queue);
    }

    /// Lets the front of each queue come down when its life is over: at most one for each queue, as
    /// in the paper.
    #[inline]
    fn adjust(&mut self, links: &mut Links) {
        if self.now.wrapping_sub(self.due).cast_signed() <= 0 {
            return;
        }
        for queue in 1..self.parameters.queues {
            let Some(front) = self.queues[usize::from(queue)].front() else { continue };
            let entry = &mut self.entries[front as usize];
            if self.now.wrapping_sub(entry.end).cast_signed() > 0 {
                entry.end = self.now.wrapping_add(self.life);
                self.queues[usize::from(queue)].remove(links, front);
                self.queues[usize::from(queue - 1)].push_back(links, front);
                links.set_mark(front, queue - 1);
            }
        }
        // A front past its life is looked at with the next reference.
        let ends =
            self.queues[1..].iter().filter_map(List::front).map(|front| self.entries[front as usize].end);
        let left = ends.map(|end| end.wrapping_sub(self.now).cast_signed().max(0).cast_unsigned()).min();
        self.due = self.now.wrapping_add(left.unwrap_or(self.life).min(self.life));
    }

    /// Takes a resident handle from its queue.
    #[inline]
    fn unlink(&mut self, links: &mut Links, handle: Handle) {
        let number = usize::from(links.mark(handle)) % QUEUES_MAX;
        let queue = &mut self.queues[number];
        if number > 0 && queue.front() == Some(handle) {
            // R4: a life that was given before a resize may be longer than the next one in line.
            self.due = self.now.wrapping_sub(1);
        }
        queue.remove(links, handle);
    }
}

impl Online for Mq {
    type Parameters = MqParameters;
    const KNOWN_PER_FRAME: u32 = 5;
    const NAME: &'static str = "mq";
    const SUMMARY: &'static str = "multi-queue: LRU queues by frequency, with life times and ghosts";

    fn new(frames: u32, parameters: MqParameters) -> Self {
        let mut mq = Self { parameters, ..Self::default() };
        mq.measure(frames.max(1));
        mq
    }
}

impl Policy for Mq {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        self.now = self.now.wrapping_add(1);
        self.unlink(links, handle);
        let entry = &mut self.entries[handle as usize];
        entry.count = entry.count.saturating_add(1);
        self.enqueue(links, handle);
        self.adjust(links);
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.reserve(links.capacity());
        self.now = self.now.wrapping_add(1);
        self.resident += 1;
        let known = links.is_linked(handle);
        if known {
            self.ghosts.remove(links, handle);
        }
        let entry = &mut self.entries[handle as usize];
        entry.count = if known { entry.count.saturating_add(1) } else { 1 };
        self.enqueue(links, handle);
        self.adjust(links);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let queues = self.queues.iter().take(usize::from(self.parameters.queues));
        let victim = queues.flat_map(|queue| queue.iter(links)).find(|&handle| !pinned(handle))?;
        self.unlink(links, victim);
        self.resident -= 1;
        self.ghosts.push_back(links, victim);
        links.set_mark(victim, GHOST);
        self.forgotten.trim(links, &mut self.ghosts, self.ghosts_max, victim);
        Some(victim)
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        if links.mark(handle) == GHOST {
            self.ghosts.remove(links, handle);
        } else {
            self.unlink(links, handle);
            self.resident -= 1;
        }
    }

    fn len(&self) -> u32 {
        self.resident
    }

    fn is_ghost(&self, links: &Links, handle: Handle) -> bool {
        links.is_linked(handle) && links.mark(handle) == GHOST
    }

    fn forgotten(&mut self) -> Option<Handle> {
        self.forgotten.take()
    }

    fn resize(&mut self, _: &mut Links, frames: u32) {
        self.measure(frames.max(1));
        self.due = self.now.wrapping_sub(1);
    }

    #[inline]
    fn reserve(&mut self, handles: u32) {
        if self.entries.len() < handles as usize {
            self.entries.resize(handles as usize, Entry::default());
        }
    }

    #[inline]
    fn prefetch(&self, links: &Links, handle: Handle) {
        links.prefetch(handle);
        prefetch(&self.entries, handle as usize);
    }

    fn validate(&self, links: &Links) {
        let mut resident = 0;
        for (queue, number) in self.queues.iter().zip(0..) {
            queue.validate(links);
            resident += queue.len();
            let end = queue.front().map_or(self.due, |front| self.entries[front as usize].end);
            let lives = [end.wrapping_sub(self.due), self.now.wrapping_sub(self.due)];
            assert!(
                number == 0 || lives.iter().any(|it| it.cast_signed() >= 0),
                "R4: the front of queue {number}"
            );
            for handle in queue.iter(links) {
                let entry = self.entries[handle as usize];
                let top = entry.count.ilog2().min(u32::from(self.parameters.queues) - 1);
                assert!(links.mark(handle) == number && u32::from(number) <= top, "R1: {handle}");
            }
        }
        self.ghosts.validate(links);
        assert!(self.ghosts.iter(links).all(|handle| links.mark(handle) == GHOST), "R1: out");
        assert_eq!(resident, self.resident, "R1: residents");
    }
}
