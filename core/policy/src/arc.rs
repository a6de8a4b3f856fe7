//! ARC: a list for recency and a list for frequency; their ghosts say which of them should grow.
//!
//! ```text
//!          ghosts                 resident               ghosts
//!   [ b1 <- oldest ]  front [ t1 ] back   front [ t2 ] back   [ b2 ]
//!      referenced once   |<--- p --->|       referenced again
//! ```
//!
//! A miss enters at the back of t1; any later reference moves it to the back of t2. What leaves t1
//! is remembered in b1, what leaves t2 in b2. A reference to b1 says that t1 was too small and
//! raises its target `p`, one to b2 lowers it; the step is larger where the ghost list is the
//! shorter one. The victim is the front of t1 while t1 is longer than `p`, of t2 otherwise.
//!
//! Ghosts and resident handles of one kind stand on one list: what is replaced at the front of t1
//! becomes the newest of b1 where it stands, and only the boundary between them moves.
//!
//! ```text
//!   l1  front [ b1 | t1 ] back        l2  front [ b2 | t2 ] back
//!                   ^ first                           ^ first
//! ```
//!
//! R1  A handle known is on exactly one of t1, t2, b1, b2, and its mark says on which.
//! R2  0 <= p <= frames.
//! R3  |t1| + |b1| <= frames and |t1| + |t2| + |b1| + |b2| <= 2 frames, once the resident are no
//!     more than the frames; after a resize that shrinks, each verb forgets one ghost until that
//!     holds again.
//! R4  On each list ghosts stand before resident handles; `first` is the first resident one,
//!     `resident` how many there are.
//!
//! Paper: Megiddo and Modha, ARC: A Self-Tuning, Low Overhead Replacement Cache, FAST 2003 (figure
//! 4). Differences: ghosts are trimmed when the newcomer enters and not before the victim leaves,
//! which forgets the same ghosts. Pinned handles are passed over, and when all of one list are
//! pinned the other one gives. `p` is a real number, as in the paper; there are no parameters.

use core::hint::select_unpredictable;

use crate::{Forgotten, Handle, Links, List, NONE, NoParameters, Online, Policy};

/// Marks: the lowest bit is the index of the list.
const UNKNOWN: u8 = 0;
const T1: u8 = RESIDENT;
const T2: u8 = RESIDENT + 1;
const B1: u8 = GHOST;
const B2: u8 = GHOST + 1;
/// What tells resident handles from ghosts.
const RESIDENT: u8 = 2;
const GHOST: u8 = 4;

/// Lists by index: of handles referenced once, and again.
const RECENT: usize = 0;
const FREQUENT: usize = 1;

/// The list of a mark.
#[inline(always)]
fn list_of(mark: u8) -> usize {
    usize::from(mark & 1)
}

/// Adaptive Replacement Cache.
#[derive(Clone, Debug, Default)]
pub struct Arc {
    frames: u32,
    /// Frames that t1 should have.
    target: f64,
    /// Arrays and not two fields each, so that a hit need not branch on the list that it finds.
    lists: [List; 2],
    /// By list: its first resident handle, or `NONE`.
    first: [Handle; 2],
    /// By list: resident handles.
    resident: [u32; 2],
    /// Whether the miss that is being served was on b2: ties go against t1 then.
    frequent_comes_back: bool,
    forgotten: Forgotten,
}

impl Arc {
    /// The target for the number of handles referenced once, `p` of the paper.
    pub fn target(&self) -> f64 {
        self.target
    }

    fn ghosts(&self, list: usize) -> u32 {
        self.lists[list].len() - self.resident[list]
    }

    /// Moves a known handle to the back of t2; `was` is its mark.
    #[inline(always)]
    fn promote(&mut self, links: &mut Links, handle: Handle, was: u8) {
        let from = list_of(was);
        let after = List::transfer(&mut self.lists, from, FREQUENT, links, handle);
        self.resident[from] -= u32::from(was & RESIDENT != 0);
        self.resident[FREQUENT] += 1;
        // Chosen and not jumped to, here and below: no processor can guess which.
        self.first[from] = select_unpredictable(self.first[from] == handle, after, self.first[from]);
        let first = self.first[FREQUENT];
        self.first[FREQUENT] = if first == NONE { handle } else { first };
        links.set_mark(handle, T2);
    }

    /// A stranger becomes the back of t1.
    #[inline(always)]
    fn enter(&mut self, links: &mut Links, handle: Handle) {
        self.lists[RECENT].push_back(links, handle);
        self.resident[RECENT] += 1;
        if self.first[RECENT] == NONE {
            self.first[RECENT] = handle;
        }
        links.set_mark(handle, T1);
    }

    /// The list that a victim is taken from, unless none of it is resident or all that is, is
    /// pinned.
    #[inline(always)]
    fn replaced_first(&self) -> usize {
        let length = f64::from(self.resident[RECENT]);
        let tie = self.frequent_comes_back & (length == self.target);
        select_unpredictable((length > 0.0) & ((length > self.target) | tie), RECENT, FREQUENT)
    }

    /// The first resident handle of a list becomes its newest ghost.
    #[inline(always)]
    fn replace(&mut self, links: &mut Links, list: usize) -> Handle {
        let victim = self.first[list];
        self.first[list] = self.lists[list].after(links, victim).unwrap_or(NONE);
        self.resident[list] -= 1;
        links.set_mark(victim, GHOST + list as u8);
        // It is the next one to leave.
        links.prefetch(self.first[list]);
        victim
    }

    /// Forgets at most one ghost. `newest` became one just now, and no caller knows yet.
    #[inline(always)]
    fn trim(&mut self, links: &mut Links, newest: Handle) {
        let (recent, frequent) = (self.lists[RECENT].len(), self.lists[FREQUENT].len());
        let from_recent = (recent > self.frames) & (recent > self.resident[RECENT]);
        let too_many = u64::from(recent) + u64::from(frequent) > 2 * u64::from(self.frames);
        if !from_recent & !(too_many & (frequent > self.resident[FREQUENT])) {
            return;
        }
        let list = select_unpredictable(from_recent, RECENT, FREQUENT);
        if let Some(oldest) = self.lists[list].pop_front(links) {
            links.set_mark(oldest, UNKNOWN);
            if oldest != newest {
                self.forgotten.note(oldest);
            }
        }
    }
}

impl Online for Arc {
    type Parameters = NoParameters;
    const KNOWN_PER_FRAME: u32 = 2;
    const NAME: &'static str = "arc";
    const SUMMARY: &'static str =
        "adaptive replacement cache: recency and frequency, balanced by their ghosts";

    #[inline]
    fn reference(&mut self, links: &mut Links, handle: Handle, frames: u32) -> Option<bool> {
        let known = links.mark(handle);
        if known & RESIDENT != 0 {
            self.promote(links, handle, known);
            return Some(true);
        }
        if known != UNKNOWN {
            self.miss(links, handle);
        }
        if self.len() >= frames {
            // A resident handle that becomes a ghost, or a ghost that comes back, changes no sum of
            // R3.
            let first = self.replaced_first();
            let list = if self.resident[first] > 0 { first } else { 1 - first };
            if self.resident[list] == 0 {
                return Some(false);
            }
            self.replace(links, list);
        }
        if known == UNKNOWN {
            self.enter(links, handle);
            self.trim(links, NONE);
        } else {
            self.frequent_comes_back = false;
            self.promote(links, handle, known);
        }
        Some(false)
    }

    fn new(frames: u32, _: NoParameters) -> Self {
        Self { frames: frames.max(1), first: [NONE; 2], ..Self::default() }
    }
}

impl Policy for Arc {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        let known = links.mark(handle);
        self.promote(links, handle, known);
    }

    #[inline]
    fn miss(&mut self, links: &mut Links, handle: Handle) {
        let known = links.mark(handle);
        self.frequent_comes_back = known == B2;
        let (recent, frequent) = (f64::from(self.ghosts(RECENT)), f64::from(self.ghosts(FREQUENT)));
        match known {
            B1 => self.target = (self.target + (frequent / recent).max(1.0)).min(f64::from(self.frames)),
            B2 => self.target = (self.target - (recent / frequent).max(1.0)).max(0.0),
            _ => {}
        }
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.frequent_comes_back = false;
        match links.mark(handle) {
            UNKNOWN => self.enter(links, handle),
            known => self.promote(links, handle, known),
        }
        self.trim(links, NONE);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let first = self.replaced_first();
        for list in [first, 1 - first] {
            let mut next = (self.first[list] != NONE).then_some(self.first[list]);
            while let Some(victim) = next {
                if !pinned(victim) {
                    if victim != self.first[list] {
                        self.lists[list].move_before(links, victim, self.first[list]);
                        self.first[list] = victim;
                    }
                    self.replace(links, list);
                    self.trim(links, victim);
                    return Some(victim);
                }
                next = self.lists[list].after(links, victim);
            }
        }
        None
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        let known = links.mark(handle);
        let list = list_of(known);
        if self.first[list] == handle {
            self.first[list] = self.lists[list].after(links, handle).unwrap_or(NONE);
        }
        self.lists[list].remove(links, handle);
        self.resident[list] -= u32::from(known & RESIDENT != 0);
        links.set_mark(handle, UNKNOWN);
    }

    #[inline]
    fn len(&self) -> u32 {
        self.resident[RECENT] + self.resident[FREQUENT]
    }

    fn is_ghost(&self, links: &Links, handle: Handle) -> bool {
        links.mark(handle) & GHOST != 0
    }

    fn forgotten(&mut self) -> Option<Handle> {
        self.forgotten.take()
    }

    fn resize(&mut self, _: &mut Links, frames: u32) {
        self.frames = frames.max(1);
        self.target = self.target.min(f64::from(self.frames));
    }

    fn validate(&self, links: &Links) {
        for (list, (handles, marks)) in self.lists.iter().zip([(B1, T1), (B2, T2)]).enumerate() {
            handles.validate(links);
            let ghosts = self.ghosts(list) as usize;
            for (at, handle) in handles.iter(links).enumerate() {
                let mark = if at < ghosts { marks.0 } else { marks.1 };
                assert_eq!(links.mark(handle), mark, "R1, R4: {handle} is elsewhere than its mark says");
            }
            let first = handles.iter(links).nth(ghosts).unwrap_or(NONE);
            assert_eq!(self.first[list], first, "R4: the first resident handle of list {list}");
        }
        assert!((0.0..=f64::from(self.frames)).contains(&self.target), "R2: p is {}", self.target);
    }
}
