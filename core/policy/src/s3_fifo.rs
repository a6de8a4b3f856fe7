//! S3-FIFO: a small queue that sifts out what is referenced once, a main queue, and ghosts.
//!
//! ```text
//!   insert --> [ small FIFO, 10 % ] --referenced enough--> [ main FIFO, 90 % ] --> evict
//!                      |                                      ^          ^   |
//!                    evict                                    |          +---+ referenced: again
//!                      v                                      |
//!              ( ghosts, as many as 90 % )  ----- miss -------+
//! ```
//!
//! A hit counts up to 3. The small queue is replaced from while it holds its share or more: its
//! oldest handle goes to the main queue if it was hit `threshold` times or more, with its count
//! cleared, and becomes a ghost otherwise. The main queue is a FIFO with as many further chances as
//! the count says. A missed ghost comes back into the main queue.
//!
//! R1  Every resident handle is in exactly one of the two queues, and its mark says in which.
//! R2  The ghosts are at most `ghosts` of the frames. A missed ghost leaves them before room is
//!     made for it.
//!
//! Differences from the paper: with `fill` (the default, as in the authors' simulator) newcomers
//! that find the small queue full go to the main queue until a block is replaced for the first
//! time, so that the cache fills as it will be divided; algorithm 1 of the paper fills it through
//! the small queue alone. Parts of frames are rounded down. With all of one queue pinned, the other
//! is replaced from.
//! Source: J. Yang et al., FIFO queues are all you need for cache eviction, SOSP 2023, algorithm 1.
//! Defaults: `small=0.1,ghosts=0.9,threshold=2,fill=true`.

use crate::parameters::{parameters, part_of};
use crate::{Forgotten, Handle, Links, Online, Policy, Queue, Ring, Verdict};

/// References that are counted at most.
const COUNT_MAX: u8 = 3;
const COUNT: u8 = 0b0000_0011;
const MAIN: u8 = 0b0000_0100;
const GHOST: u8 = 0b0000_1000;

parameters! {
    /// Parameters of [`S3Fifo`].
    pub struct S3FifoParameters {
        /// Share of the frames for the small queue.
        "small" => small: f64 = 0.1, 0.0..=1.0;
        /// Ghosts per frame.
        "ghosts" => ghosts: f64 = 0.9, 0.0..=16.0;
        /// Hits that take a handle from the small to the main queue.
        "threshold" => threshold: u8 = 2, 1..=3;
        /// Whether newcomers that find the small queue full go to the main queue, until a block is
        /// replaced for the first time.
        "fill" => fill: bool = true, false..=true;
    }
}

/// S3-FIFO.
#[derive(Clone, Debug, Default)]
pub struct S3Fifo {
    small: Ring,
    main: Ring,
    ghosts: Ring,
    forgotten: Forgotten,
    frames: u32,
    small_max: u32,
    ghosts_max: u32,
    /// Whether something was replaced already.
    warm: bool,
    parameters: S3FifoParameters,
}

impl S3Fifo {
    fn set_limits(&mut self, frames: u32) {
        self.frames = frames;
        self.small_max = part_of(frames, self.parameters.small).max(1);
        self.ghosts_max = part_of(frames, self.parameters.ghosts);
    }

    fn evict_small(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let Self { small, main, parameters, .. } = self;
        let victim = loop {
            let handle = small.sweep(links, |_, h| if pinned(h) { Verdict::Keep } else { Verdict::Take })?;
            if links.mark(handle) & COUNT < parameters.threshold {
                break handle;
            }
            links.set_mark(handle, MAIN);
            main.push_back(links, handle);
        };
        links.set_mark(victim, GHOST);
        self.ghosts.push_back(links, victim);
        self.forgotten.trim(links, &mut self.ghosts, self.ghosts_max, victim);
        Some(victim)
    }

    fn evict_main(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let victim = self.main.sweep(links, |links, handle| {
            if pinned(handle) {
                return Verdict::Keep;
            }
            let mark = links.mark(handle);
            if mark & COUNT == 0 {
                return Verdict::Take;
            }
            links.set_mark(handle, mark - 1);
            Verdict::Requeue
        })?;
        links.set_mark(victim, 0);
        Some(victim)
    }
}

impl Online for S3Fifo {
    type Parameters = S3FifoParameters;
    const KNOWN_PER_FRAME: u32 = 2;
    const NAME: &'static str = "s3-fifo";
    const SUMMARY: &'static str = "a small FIFO that sifts, a main FIFO, and ghosts";

    fn new(frames: u32, parameters: S3FifoParameters) -> Self {
        let mut new = Self { parameters, ..Self::default() };
        new.set_limits(frames);
        new
    }
}

impl Policy for S3Fifo {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        let mark = links.mark(handle);
        if mark & COUNT < COUNT_MAX {
            links.set_mark(handle, mark + 1);
        }
    }

    /// R2: the ghost leaves its queue, and stays marked until it is inserted.
    #[inline]
    fn miss(&mut self, links: &mut Links, handle: Handle) {
        if links.mark(handle) == GHOST && links.is_linked(handle) {
            self.ghosts.remove(links, handle);
        }
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.miss(links, handle);
        let fill = self.parameters.fill && !self.warm && self.small.len() >= self.small_max;
        if fill || links.mark(handle) == GHOST {
            links.set_mark(handle, MAIN);
            self.main.push_back(links, handle);
        } else {
            links.set_mark(handle, 0);
            self.small.push_back(links, handle);
        }
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        self.warm = true;
        if self.small.len() < self.small_max
            && let Some(victim) = self.evict_main(links, pinned)
        {
            return Some(victim);
        }
        // The small queue may end up in the main queue as a whole.
        self.evict_small(links, pinned).or_else(|| self.evict_main(links, pinned))
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        match links.mark(handle) {
            GHOST => self.miss(links, handle),
            mark if mark & MAIN != 0 => self.main.remove(links, handle),
            _ => self.small.remove(links, handle),
        }
        links.set_mark(handle, 0);
    }

    #[inline]
    fn len(&self) -> u32 {
        self.small.len() + self.main.len()
    }

    fn is_ghost(&self, links: &Links, handle: Handle) -> bool {
        links.mark(handle) == GHOST
    }

    fn forgotten(&mut self) -> Option<Handle> {
        self.forgotten.take()
    }

    fn resize(&mut self, links: &mut Links, frames: u32) {
        self.set_limits(frames);
        self.reserve(links.capacity());
    }

    fn reserve(&mut self, handles: u32) {
        self.small.reserve(self.frames.min(handles));
        self.main.reserve(self.frames.min(handles));
        // One more than remembered for the moment before the oldest is forgotten.
        self.ghosts.reserve(self.ghosts_max.saturating_add(1).min(handles));
    }

    fn validate(&self, links: &Links) {
        for queue in [&self.small, &self.main, &self.ghosts] {
            queue.validate(links);
        }
        assert!(self.small.iter().all(|handle| links.mark(handle) & !COUNT == 0), "R1: the small queue");
        assert!(self.main.iter().all(|handle| links.mark(handle) & !COUNT == MAIN), "R1: the main queue");
        assert!(self.ghosts.iter().all(|handle| links.mark(handle) == GHOST), "R2: the ghosts");
    }
}
