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

use crate::{Forgotten, Handle, Links, List, NONE, NoParameters, Online, Policy};

/// Marks, which are indices of lists.
const T1: u8 = 0;
const T2: u8 = 1;
const B1: u8 = 2;
const B2: u8 = 3;
const UNKNOWN: u8 = 4;

/// Adaptive Replacement Cache.
#[derive(Clone, Debug)]
pub struct Arc {
    frames: u32,
    /// Frames that t1 should have.
    target: f64,
    /// t1, t2, b1, b2. An array and not four fields, so that a hit need not branch on the list that it finds.
    lists: [List; 4],
    /// Whether the miss that is being served was on b2: ties go against t1 then.
    frequent_comes_back: bool,
    forgotten: Forgotten,
}

impl Arc {
    /// The target for the number of handles referenced once, `p` of the paper.
    pub fn target(&self) -> f64 {
        self.target
    }

    fn known(&self, links: &Links, handle: Handle) -> u8 {
        if links.is_linked(handle) { links.mark(handle) & 3 } else { UNKNOWN }
    }

    fn length(&self, list: u8) -> u32 {
        self.lists[usize::from(list & 3)].len()
    }

    /// Moves a handle that is on a list to the back of another.
    #[inline]
    fn shift(&mut self, links: &mut Links, handle: Handle, to: u8) {
        let from = links.mark(handle) & 3;
        self.lists[usize::from(from)].remove(links, handle);
        self.lists[usize::from(to & 3)].push_back(links, handle);
        links.set_mark(handle, to);
    }

    /// Forgets at most one ghost. `newest` became one just now, and nobody was told.
    #[inline]
    fn trim(&mut self, links: &mut Links, newest: Handle) {
        let recent = self.length(T1) + self.length(B1);
        let all = u64::from(recent) + u64::from(self.length(T2) + self.length(B2));
        let list = if recent > self.frames && self.length(B1) > 0 {
            B1
        } else if all > 2 * u64::from(self.frames) {
            B2
        } else {
            return;
        };
        let ghosts = &mut self.lists[usize::from(list)];
        if let Some(oldest) = ghosts.front() {
            ghosts.remove(links, oldest);
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

    fn new(frames: u32, _: NoParameters) -> Self {
        Self {
            frames: frames.max(1),
            target: 0.0,
            lists: [List::default(); 4],
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
        let length = f64::from(self.length(T1));
        let tie = self.frequent_comes_back && length == self.target;
        let first = if length > 0.0 && (length > self.target || tie) { T1 } else { T2 };
        for list in [first, T1 + T2 - first] {
            let found = self.lists[usize::from(list)].iter(links).find(|&handle| !pinned(handle));
            if let Some(victim) = found {
                self.shift(links, victim, if list == T1 { B1 } else { B2 });
                self.trim(links, victim);
                return Some(victim);
            }
        }
        None
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        self.lists[usize::from(links.mark(handle) & 3)].remove(links, handle);
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
        for (list, mark) in self.lists.iter().zip(T1..) {
            list.validate(links);
            for handle in list.iter(links) {
                assert_eq!(links.mark(handle), mark, "R1: {handle} is on another list than its mark says");
            }
        }
        assert!((0.0..=f64::from(self.frames)).contains(&self.target), "R2: p is {}", self.target);
    }
}
