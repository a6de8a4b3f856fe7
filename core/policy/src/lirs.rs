//! LIRS: blocks that come back soon stay, however long ago that was; the rest pass through a short
//! queue.
//!
//! ```text
//!   stack S   front [L] [h] [g] [L] [h] [L] back     by recency; the front is always L
//!   queue Q   front [h] [h] [h] back                 resident HIR: the front leaves first
//!
//!   L  resident, low inter-reference recency (LIR)    h  resident, high (HIR)    g  HIR, ghost
//! ```
//!
//! A HIR block that is referenced while it is in S came back sooner than the oldest LIR block did:
//! they change places. The recency of the front of S is thus the bar for all blocks, and what lies
//! below it is pruned.
//!
//! R1  Q holds exactly the resident HIR handles; G holds exactly the ghosts, oldest eviction first.
//! R2  LIR handles and ghosts are in S; resident HIR handles may be.
//! R3  The front of S is LIR; without LIR handles S is empty.
//! R4  LIR handles are no more than frames - cold.
//! R5  Ghosts are no more than `ghosts` x frames, or `least` where that is more; after a resize
//!     that shrinks, each eviction forgets down to that.
//!
//! S has links of its own, because a resident HIR handle is on S and Q at once.
//!
//! Paper: Jiang and Zhang, LIRS: An Efficient Low Inter-reference Recency Set Replacement Policy,
//! SIGMETRICS 2002. Differences: the bound on ghosts forgets the ghost that was evicted first, not
//! the HIR block lowest in S (the authors' program does that beyond 2500 x frames of S, which is
//! never: a large cache would remember all that it ever saw). As in the authors' program, and not
//! in the paper, a further reference to the block of the last reference moves nothing. Below 3
//! frames the cold share is one frame, and with one frame all blocks are HIR, which is LRU. When
//! all of Q is pinned, the lowest LIR block that is not leaves. Defaults:
//! `cold=0.01,ghosts=3.0,least=1000000`.

use crate::parameters::{parameters, part_of};
use crate::{Handle, Links, List, NONE, Online, Policy};

/// States, kept as the marks of the stack's links.
const LIR: u8 = 1;
const HIR: u8 = 2;
const GHOST: u8 = 3;
/// No longer known, but not yet told to the caller.
const GONE: u8 = 4;

parameters! {
    /// Parameters of [`Lirs`].
    pub struct LirsParameters {
        /// Share of the frames for resident HIR blocks; at least two frames where there are three.
        "cold" => cold: f64 = 0.01, 0.0..=1.0;
        /// Ghosts at most, in multiples of the frames.
        "ghosts" => ghosts: f64 = 3.0, 0.0..=1e6;
        /// Ghosts that every cache may have, however few its frames.
        "least" => least: u32 = 1000000, 0..=4294967295;
    }
}

/// Low inter-reference recency set.
#[derive(Clone, Debug, Default)]
pub struct Lirs {
    parameters: LirsParameters,
    lir_max: u32,
    ghosts_max: u32,
    lir: u32,
    stack: List,
    /// Links of the stack and of `gone`, with the state of each handle as its mark.
    own: Links,
    queue: List,
    ghosts: List,
    gone: List,
    /// The handle of the last reference.
    last: Handle,
}

impl Lirs {
    fn measure(&mut self, frames: u32) {
        let cold = (f64::from(frames) * self.parameters.cold) as u32;
        self.lir_max = frames - cold.max(2).min(frames - 1).max(1);
        self.ghosts_max = part_of(frames, self.parameters.ghosts).max(self.parameters.least);
    }

    fn state(&self, handle: Handle) -> u8 {
        self.own.mark(handle)
    }

    /// Removes what is below the lowest LIR handle.
    #[inline]
    fn prune(&mut self, links: &mut Links) {
        while let Some(front) = self.stack.front() {
            match self.own.mark(front) {
                LIR => return,
                GHOST => self.forget(links, front),
                _ => self.stack.remove(&mut self.own, front),
            }
        }
    }

    fn forget(&mut self, links: &mut Links, ghost: Handle) {
        self.ghosts.remove(links, ghost);
        self.stack.remove(&mut self.own, ghost);
        self.gone.push_back(&mut self.own, ghost);
        self.own.set_mark(ghost, GONE);
    }

    /// Makes the top of the stack LIR. One too many makes the lowest one HIR.
    #[inline]
    fn promote(&mut self, links: &mut Links, handle: Handle) {
        self.own.set_mark(handle, LIR);
        self.lir += 1;
        self.demote(links);
        self.prune(links);
    }

    /// Turns the lowest LIR handles into HIR, until there are no more than there should be.
    #[inline]
    fn demote(&mut self, links: &mut Links) {
        while self.lir > self.lir_max {
            self.prune(links);
            let Some(front) = self.stack.pop_front(&mut self.own) else { return };
            self.own.set_mark(front, HIR);
            self.queue.push_back(links, front);
            self.lir -= 1;
        }
    }

    fn leave(&mut self, links: &mut Links, victim: Handle) {
        self.queue.remove(links, victim);
        if !self.own.is_linked(victim) {
            self.own.set_mark(victim, 0);
            return;
        }
        self.own.set_mark(victim, GHOST);
        self.ghosts.push_back(links, victim);
        while self.ghosts.len() > self.ghosts_max {
            let Some(oldest) = self.ghosts.front() else { return };
            self.forget(links, oldest);
        }
    }

    fn remove_lir(&mut self, links: &mut Links, handle: Handle) {
        self.stack.remove(&mut self.own, handle);
        self.own.set_mark(handle, 0);
        self.lir -= 1;
        self.prune(links);
    }
}

impl Online for Lirs {
    type Parameters = LirsParameters;
    const KNOWN_PER_FRAME: u32 = 4;
    const NAME: &'static str = "lirs";
    const SUMMARY: &'static str =
        "low inter-reference recency set: what comes back sooner than the rest stays";

    fn new(frames: u32, parameters: LirsParameters) -> Self {
        let mut lirs = Self { parameters, last: NONE, ..Self::default() };
        lirs.measure(frames.max(1));
        lirs
    }
}

impl Policy for Lirs {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        if handle == self.last {
            return;
        }
        self.last = handle;
        if self.state(handle) == LIR {
            self.stack.move_to_back(&mut self.own, handle);
            self.prune(links);
        } else if self.own.is_linked(handle) {
            self.stack.move_to_back(&mut self.own, handle);
            self.queue.remove(links, handle);
            self.promote(links, handle);
        } else {
            self.stack.push_back(&mut self.own, handle);
            self.queue.move_to_back(links, handle);
            self.prune(links);
        }
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.own.grow(links.capacity());
        self.last = handle;
        let known = if self.own.is_linked(handle) { self.state(handle) } else { 0 };
        match known {
            GHOST => {
                self.ghosts.remove(links, handle);
                self.stack.move_to_back(&mut self.own, handle);
                self.promote(links, handle);
                return;
            }
            GONE => self.gone.remove(&mut self.own, handle),
            _ => {}
        }
        self.stack.push_back(&mut self.own, handle);
        if self.lir < self.lir_max {
            self.promote(links, handle);
        } else {
            self.own.set_mark(handle, HIR);
            self.queue.push_back(links, handle);
            self.prune(links);
        }
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let cold = self.queue.iter(links).find(|&handle| !pinned(handle));
        if let Some(victim) = cold {
            self.leave(links, victim);
            return Some(victim);
        }
        let evictable = |&handle: &Handle| self.own.mark(handle) == LIR && !pinned(handle);
        let victim = self.stack.iter(&self.own).find(evictable)?;
        self.remove_lir(links, victim);
        Some(victim)
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        match self.state(handle) {
            LIR => return self.remove_lir(links, handle),
            HIR => self.queue.remove(links, handle),
            _ => self.ghosts.remove(links, handle),
        }
        if self.own.is_linked(handle) {
            self.stack.remove(&mut self.own, handle);
        }
        self.own.set_mark(handle, 0);
    }

    fn len(&self) -> u32 {
        self.lir + self.queue.len()
    }

    fn is_ghost(&self, _: &Links, handle: Handle) -> bool {
        handle < self.own.capacity() && self.state(handle) == GHOST
    }

    fn forgotten(&mut self) -> Option<Handle> {
        let handle = self.gone.pop_front(&mut self.own)?;
        self.own.set_mark(handle, 0);
        Some(handle)
    }

    fn resize(&mut self, links: &mut Links, frames: u32) {
        self.measure(frames.max(1));
        self.demote(links);
        self.prune(links);
    }

    fn reserve(&mut self, handles: u32) {
        self.own.grow(handles);
    }

    #[inline]
    fn prefetch(&self, _: &Links, handle: Handle) {
        self.own.prefetch(handle);
    }

    fn validate(&self, links: &Links) {
        self.stack.validate(&self.own);
        self.gone.validate(&self.own);
        self.queue.validate(links);
        self.ghosts.validate(links);
        let count = |list: &List, state| list.iter(&self.own).filter(|&h| self.state(h) == state).count();
        assert!(self.queue.iter(links).all(|h| self.state(h) == HIR), "R1: Q holds others than HIR");
        assert!(self.ghosts.iter(links).all(|h| self.state(h) == GHOST), "R1: G holds others than ghosts");
        assert_eq!(count(&self.stack, LIR), self.lir as usize, "R2: LIR handles in S");
        assert_eq!(count(&self.stack, GHOST), self.ghosts.len() as usize, "R2: ghosts in S");
        assert_eq!(count(&self.gone, GONE), self.gone.len() as usize, "R2: handles gone");
        assert!(self.stack.front().is_none_or(|h| self.state(h) == LIR), "R3: the front of S is not LIR");
        assert!(self.lir <= self.lir_max, "R4: {} LIR handles, not {}", self.lir, self.lir_max);
    }
}
