//! 2Q: blocks earn their place in the main list by being referenced again after they left.
//!
//! ```text
//!   insert --> [ A1in: FIFO, 25 % ] --evict--> ( A1out: ghosts, as many as 50 % )
//!                                                    |
//!              [ Am: LRU, the rest ] <---- miss -----+
//!                  |
//!                evict
//! ```
//!
//! A hit in A1in changes nothing: a block that is referenced several times at once is not hot yet.
//! While A1in holds more than its share, its oldest handle is replaced and becomes a ghost;
//! otherwise the least recently used of Am is, and is forgotten. A missed ghost comes back into Am.
//!
//! R1  Every resident handle is in A1in or Am, and its mark says where.
//! R2  A1out holds at most its share. A missed ghost leaves it before room is made.
//!
//! [`TwoQSimple`], the paper's first version, has no ghosts: one FIFO A1 in place of A1in and
//! A1out; its members move to Am when they are hit.
//!
//! Differences from the paper: with all of one queue pinned, the other is replaced from; while Am
//! is empty, A1in is, though it holds no more than its share. Parts of frames are rounded down.
//! Source: T. Johnson and D. Shasha, 2Q: a low overhead high performance buffer management
//! replacement algorithm, VLDB
//! 1994. Defaults: `in=0.25,out=0.5`, the Kin and Kout of the paper; of `2q-simple`: `a1=0.25`.

use crate::parameters::{parameters, part_of};
use crate::{Forgotten, Handle, Links, List, Online, Policy, Queue, Ring, Verdict};

const IN: u8 = 1;
const MAIN: u8 = 2;
const GHOST: u8 = 3;

parameters! {
    /// Parameters of [`TwoQ`].
    pub struct TwoQParameters {
        /// Share of the frames for newcomers (Kin).
        "in" => input: f64 = 0.25, 0.0..=1.0;
        /// Ghosts per frame (Kout).
        "out" => output: f64 = 0.5, 0.0..=16.0;
    }
}

/// 2Q, the full version.
#[derive(Clone, Debug, Default)]
pub struct TwoQ {
    input: Ring,
    main: List,
    ghosts: Ring,
    forgotten: Forgotten,
    frames: u32,
    input_max: u32,
    ghosts_max: u32,
    parameters: TwoQParameters,
}

impl TwoQ {
    fn set_limits(&mut self, frames: u32) {
        self.frames = frames;
        self.input_max = part_of(frames, self.parameters.input);
        self.ghosts_max = part_of(frames, self.parameters.output);
    }

    fn evict_input(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let victim = self.input.sweep(links, |_, h| if pinned(h) { Verdict::Keep } else { Verdict::Take })?;
        links.set_mark(victim, GHOST);
        self.ghosts.push_back(links, victim);
        self.forgotten.trim(links, &mut self.ghosts, self.ghosts_max, victim);
        Some(victim)
    }

    fn evict_main(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let victim = self.main.take_first(links, pinned)?;
        links.set_mark(victim, 0);
        Some(victim)
    }
}

impl Online for TwoQ {
    type Parameters = TwoQParameters;
    const KNOWN_PER_FRAME: u32 = 2;
    const NAME: &'static str = "2q";
    const SUMMARY: &'static str = "a FIFO for newcomers, ghosts, and an LRU list for what came back";

    fn new(frames: u32, parameters: TwoQParameters) -> Self {
        let mut new = Self { parameters, ..Self::default() };
        new.set_limits(frames);
        new
    }
}

impl Policy for TwoQ {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        if links.mark(handle) == MAIN {
            self.main.move_to_back(links, handle);
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
        if links.mark(handle) == GHOST {
            links.set_mark(handle, MAIN);
            self.main.push_back(links, handle);
        } else {
            links.set_mark(handle, IN);
            self.input.push_back(links, handle);
        }
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        if self.input.len() > self.input_max {
            self.evict_input(links, pinned).or_else(|| self.evict_main(links, pinned))
        } else {
            self.evict_main(links, pinned).or_else(|| self.evict_input(links, pinned))
        }
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        match links.mark(handle) {
            GHOST => self.miss(links, handle),
            MAIN => self.main.remove(links, handle),
            _ => self.input.remove(links, handle),
        }
        links.set_mark(handle, 0);
    }

    #[inline]
    fn len(&self) -> u32 {
        self.input.len() + self.main.len()
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
        // With an empty Am, all frames are A1in's.
        self.input.reserve(self.frames.min(handles));
        // One more than remembered for the moment before the oldest is forgotten.
        self.ghosts.reserve(self.ghosts_max.saturating_add(1).min(handles));
    }

    fn validate(&self, links: &Links) {
        self.input.validate(links);
        self.main.validate(links);
        self.ghosts.validate(links);
        assert!(self.input.iter().all(|handle| links.mark(handle) == IN), "R1: A1in");
        assert!(self.main.iter(links).all(|handle| links.mark(handle) == MAIN), "R1: Am");
        assert!(self.ghosts.iter().all(|handle| links.mark(handle) == GHOST), "R2: A1out");
    }
}

parameters! {
    /// Parameters of [`TwoQSimple`].
    pub struct TwoQSimpleParameters {
        /// Share of the frames for blocks that were not hit (the threshold of A1).
        "a1" => a1: f64 = 0.25, 0.0..=1.0;
    }
}

/// 2Q, the simplified version.
#[derive(Clone, Debug)]
pub struct TwoQSimple {
    a1: List,
    main: List,
    a1_max: u32,
    parameters: TwoQSimpleParameters,
}

impl Online for TwoQSimple {
    type Parameters = TwoQSimpleParameters;
    const NAME: &'static str = "2q-simple";
    const SUMMARY: &'static str = "a FIFO for newcomers and an LRU list for what was hit there; no ghosts";

    fn new(frames: u32, parameters: TwoQSimpleParameters) -> Self {
        let a1_max = part_of(frames, parameters.a1);
        Self { a1: List::default(), main: List::default(), a1_max, parameters }
    }
}

impl Policy for TwoQSimple {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        if links.mark(handle) == MAIN {
            self.main.move_to_back(links, handle);
        } else {
            self.a1.remove(links, handle);
            links.set_mark(handle, MAIN);
            self.main.push_back(links, handle);
        }
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        links.set_mark(handle, IN);
        self.a1.push_back(links, handle);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let Self { a1, main, .. } = self;
        let (first, second) = if a1.len() > self.a1_max { (a1, main) } else { (main, a1) };
        first.take_first(links, pinned).or_else(|| second.take_first(links, pinned))
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        if links.mark(handle) == MAIN {
            self.main.remove(links, handle);
        } else {
            self.a1.remove(links, handle);
        }
    }

    #[inline]
    fn len(&self) -> u32 {
        self.a1.len() + self.main.len()
    }

    fn resize(&mut self, _links: &mut Links, frames: u32) {
        self.a1_max = part_of(frames, self.parameters.a1);
    }

    fn validate(&self, links: &Links) {
        self.a1.validate(links);
        self.main.validate(links);
        assert!(self.a1.iter(links).all(|handle| links.mark(handle) == IN), "R1: A1");
        assert!(self.main.iter(links).all(|handle| links.mark(handle) == MAIN), "R1: Am");
    }
}
