//! ARC: a list for recency and a list for frequency, whose ghosts say which of them should grow.
//!
//! ```text
//!          ghosts                 resident               ghosts
//!   [ b1 <- oldest ]  front [ t1 ] back   front [ t2 ] back   [ b2 ]
//!      referenced once   |<--- p --->|       referenced again
//! ```
//!
//! A miss enters at the back of t1; any later reference moves it to the back of t2. What leaves t1 is remembered in
//! b1, what leaves t2 in b2. A reference to b1 says that t1 was too small and raises its target `p`, one to b2
//! lowers it; the step is larger where the ghost list is the shorter one. The victim is the front of t1 while t1 is
//! longer than `p`, of t2 otherwise.
//!
//! R1  A handle known is on exactly one of t1, t2, b1, b2, and its mark says on which.
//! R2  0 <= p <= frames.
//! R3  |t1| + |b1| <= frames and |t1| + |t2| + |b1| + |b2| <= 2 frames, once the resident are no more than the frames;
//!     after a resize that shrinks, each verb forgets one ghost until that holds again.
//!
//! Paper: Megiddo and Modha, ARC: A Self-Tuning, Low Overhead Replacement Cache, FAST 2003, figure 4.
//! Differences: ghosts are trimmed when the newcomer enters and not before the victim leaves, which forgets the same
//! ghosts. Pinned handles are passed over, and when all of one list are pinned the other one gives. `p` is a real
//! number, as in the paper; there are no parameters.

use core::hint::select_unpredictable;

use crate::{Forgotten, Handle, Links, List, NONE, NoParameters, Online, Policy};

/// Marks, which are indices of lists. The first stays empty: it is where no handle is.
const UNKNOWN: u8 = 0;
const T1: u8 = 1;
const T2: u8 = 2;
const B1: u8 = 3;
const B2: u8 = 4;
/// Lists, and a power of two for the sake of the processor.
const LISTS: usize = 8;

/// Adaptive Replacement Cache.
#[derive(Clone, Debug)]
pub struct Arc {
    frames: u32,
    /// Frames that t1 should have.
    target: f64,
    /// By mark. An array and not four fields, so that a hit need not branch on the list that it finds.
    lists: [List; LISTS],
    /// Whether the miss that is being served was on b2: ties go against t1 then.
    frequent_comes_back: bool,
    forgotten: Forgotten,
}

impl Arc {
    /// The target for the number of handles referenced once, `p` of the paper.
    pub fn target(&self) -> f64 {
        self.target
    }

    #[inline]
    fn known(&self, links: &Links, handle: Handle) -> u8 {
        links.mark(handle)
    }

    fn length(&self, list: u8) -> u32 {
        self.lists[usize::from(list) % LISTS].len()
    }

    /// Moves a handle that is on a list to the back of another.
    #[inline(always)]
    fn shift(&mut self, links: &mut Links, handle: Handle, to: u8) {
        let from = usize::from(links.mark(handle)) % LISTS;
        List::transfer(&mut self.lists, from, usize::from(to) % LISTS, links, handle);
        links.set_mark(handle, to);
    }

    /// The list that a victim is taken from, unless it is empty or all on it are pinned.
    #[inline(always)]
    fn replaced_first(&self) -> u8 {
        let length = f64::from(self.length(T1));
        let tie = self.frequent_comes_back & (length == self.target);
        // Chosen and not jumped to: no processor can guess which.
        select_unpredictable((length > 0.0) & ((length > self.target) | tie), T1, T2)
    }

    /// Forgets at most one ghost. `newest` became one just now, and nobody was told.
    #[inline(always)]
    fn trim(&mut self, links: &mut Links, newest: Handle) {
        let recent = self.length(T1) + self.length(B1);
        let all = u64::from(recent) + u64::from(self.length(T2) + self.length(B2));
        let from_recent = (recent > self.frames) & (self.length(B1) > 0);
        if !from_recent & (all <= 2 * u64::from(self.frames)) {
            return;
        }
        let list = select_unpredictable(from_recent, B1, B2);
        let ghosts = &mut self.lists[usize::from(list)];
        if let Some(oldest) = ghosts.front() {
            ghosts.remove(links, oldest);
            links.set_mark(oldest, UNKNOWN);
            if oldest != newest {
                self.forgotten.note(oldest);
            }
        }
    }
}

impl Online for Arc {
    type Parameters = NoParameters;
    const NAME: &'static str = "arc";
    const SUMMARY: &'static str =
        "adaptive replacement cache: recency and frequency, balanced by their ghosts";

    #[inline]
    fn reference(&mut self, links: &mut Links, handle: Handle, frames: u32) -> Option<bool> {
        let known = self.known(links, handle);
        if matches!(known, T1 | T2) {
            self.hit(links, handle);
            return Some(true);
        }
        self.miss(links, handle);
        if self.len() >= frames {
            // A resident handle that becomes a ghost, or a ghost that comes back, changes no sum of R3.
            let first = self.replaced_first();
            let list = if self.length(first) > 0 { first } else { T1 + T2 - first };
            let Some(victim) = self.lists[usize::from(list) % LISTS].front() else { return Some(false) };
            self.shift(links, victim, list + (B1 - T1));
        }
        if known == UNKNOWN {
            self.insert(links, handle);
        } else {
            self.frequent_comes_back = false;
            self.shift(links, handle, T2);
        }
        Some(false)
    }

    fn new(frames: u32, _: NoParameters) -> Self {
        Self {
            frames: frames.max(1),
            target: 0.0,
            lists: [List::default(); LISTS],
            frequent_comes_back: false,
            forgotten: Forgotten::default(),
        }
    }
}

impl Policy for Arc {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        self.shift(links, handle, T2);
    }

    #[inline]
    fn miss(&mut self, links: &mut Links, handle: Handle) {
        let known = self.known(links, handle);
        self.frequent_comes_back = known == B2;
        let (recent, frequent) = (f64::from(self.length(B1)), f64::from(self.length(B2)));
        match known {
            B1 => self.target = (self.target + (frequent / recent).max(1.0)).min(f64::from(self.frames)),
            B2 => self.target = (self.target - (recent / frequent).max(1.0)).max(0.0),
            _ => {}
        }
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.frequent_comes_back = false;
        if self.known(links, handle) == UNKNOWN {
            self.lists[usize::from(T1)].push_back(links, handle);
            links.set_mark(handle, T1);
        } else {
            self.shift(links, handle, T2);
        }
        self.trim(links, NONE);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let first = self.replaced_first();
        for list in [first, T1 + T2 - first] {
            let found = self.lists[usize::from(list)].iter(links).find(|&handle| !pinned(handle));
            if let Some(victim) = found {
                self.shift(links, victim, list + (B1 - T1));
                self.trim(links, victim);
                return Some(victim);
            }
        }
        None
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        self.lists[usize::from(links.mark(handle)) % LISTS].remove(links, handle);
        links.set_mark(handle, UNKNOWN);
    }

    fn len(&self) -> u32 {
        self.length(T1) + self.length(T2)
    }

    fn is_ghost(&self, links: &Links, handle: Handle) -> bool {
        matches!(self.known(links, handle), B1 | B2)
    }

    fn forgotten(&mut self) -> Option<Handle> {
        self.forgotten.take()
    }

    fn resize(&mut self, _: &mut Links, frames: u32) {
        self.frames = frames.max(1);
        self.target = self.target.min(f64::from(self.frames));
    }

    fn validate(&self, links: &Links) {
        assert!(self.lists[usize::from(UNKNOWN)].is_empty(), "R1: a list of what is unknown");
        for (list, mark) in self.lists.iter().zip(UNKNOWN..) {
            list.validate(links);
            for handle in list.iter(links) {
                assert_eq!(links.mark(handle), mark, "R1: {handle} is on another list than its mark says");
            }
        }
        assert!((0.0..=f64::from(self.frames)).contains(&self.target), "R2: p is {}", self.target);
    }
}
