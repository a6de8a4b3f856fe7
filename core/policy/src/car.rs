//! CAR: ARC with clocks, so that a hit only sets a bit.
//!
//! ```text
//!          ghosts                 resident                    ghosts
//!   [ b1 <- oldest ]  front [ t1 . * . ] back   front [ t2 * . ] back   [ b2 ]
//!                      hand ^                    hand ^
//! ```
//!
//! t1 holds what was referenced once, t2 what was referenced again while it was known. To evict,
//! the hand of the list that is too long looks at its front: with the bit set (`*`) the handle
//! loses the bit and goes to the back of t2, without it leaves for the ghosts of its list. A
//! reference to a ghost moves the target `p` for t1 as in [`Arc`](crate::Arc), and brings the block
//! to t2.
//!
//! R1  A handle known is on exactly one of t1, t2, b1, b2, and its mark says on which. Ghosts have
//!     no bit set.
//! R2  0 <= p <= frames.
//!
//! Paper: Bansal and Modha, CAR: Clock with Adaptive Replacement, FAST 2004, figure 2.
//! Differences: as for `Arc`: ghosts are trimmed when the newcomer is in, pinned handles are passed
//! over with their bits as they are, and after a resize that shrinks each verb forgets one ghost.
//! There are no parameters.

use crate::{Forgotten, Handle, Links, List, NONE, NoParameters, Online, Policy};

/// Marks: indices of lists, and a bit.
const T1: u8 = 0;
const T2: u8 = 1;
const B1: u8 = 2;
const B2: u8 = 3;
const LIST: u8 = 3;
const REFERENCED: u8 = 4;

/// Clock with adaptive replacement.
#[derive(Clone, Debug, Default)]
pub struct Car {
    frames: u32,
    /// Frames that t1 should have.
    target: f64,
    /// t1, t2, b1, b2.
    lists: [List; 4],
    forgotten: Forgotten,
}

impl Car {
    fn length(&self, list: u8) -> u32 {
        self.lists[usize::from(list & LIST)].len()
    }

    fn list(&mut self, list: u8) -> &mut List {
        &mut self.lists[usize::from(list & LIST)]
    }

    #[inline]
    fn shift(&mut self, links: &mut Links, handle: Handle, to: u8) {
        let from = links.mark(handle);
        self.list(from).remove(links, handle);
        self.list(to).push_back(links, handle);
        links.set_mark(handle, to);
    }

    /// A ghost came back: its list was too short.
    fn adapt(&mut self, known: u8) {
        let (recent, frequent) = (f64::from(self.length(B1)), f64::from(self.length(B2)));
        self.target = match known & LIST {
            B1 => (self.target + (frequent / recent).max(1.0)).min(f64::from(self.frames)),
            _ => (self.target - (recent / frequent).max(1.0)).max(0.0),
        };
    }

    /// Forgets at most one ghost. `newest` became one just now, and no caller knows yet.
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
        let Some(oldest) = self.list(list).pop_front(links) else { return };
        if oldest != newest {
            self.forgotten.note(oldest);
        }
    }
}

impl Online for Car {
    type Parameters = NoParameters;
    const NAME: &'static str = "car";
    const SUMMARY: &'static str = "clock with adaptive replacement: ARC with clocks for lists";

    fn new(frames: u32, _: NoParameters) -> Self {
        Self { frames: frames.max(1), ..Self::default() }
    }
}

impl Policy for Car {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        links.set_mark(handle, links.mark(handle) | REFERENCED);
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        if links.is_linked(handle) {
            self.adapt(links.mark(handle));
            self.shift(links, handle, T2);
        } else {
            self.list(T1).push_back(links, handle);
            links.set_mark(handle, T1);
        }
        self.trim(links, NONE);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        loop {
            let first = if f64::from(self.length(T1)) >= self.target.max(1.0) { T1 } else { T2 };
            let front = |list: u8| self.lists[usize::from(list)].iter(links).find(|&handle| !pinned(handle));
            let handle = front(first).or_else(|| front(T1 + T2 - first))?;
            let mark = links.mark(handle);
            if mark & REFERENCED == 0 {
                self.shift(links, handle, if mark & LIST == T1 { B1 } else { B2 });
                self.trim(links, handle);
                return Some(handle);
            }
            self.shift(links, handle, T2);
        }
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        let list = links.mark(handle);
        self.list(list).remove(links, handle);
    }

    #[inline]
    fn len(&self) -> u32 {
        self.length(T1) + self.length(T2)
    }

    fn is_ghost(&self, links: &Links, handle: Handle) -> bool {
        links.is_linked(handle) && matches!(links.mark(handle), B1 | B2)
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
            let bits = if mark <= T2 { REFERENCED } else { 0 };
            let fits = |handle| links.mark(handle) & !bits == mark;
            assert!(list.iter(links).all(fits), "R1: list {mark}");
        }
        assert!((0.0..=f64::from(self.frames)).contains(&self.target), "R2: p is {}", self.target);
    }
}
