//! Index-linked lists over one slab of links.
//!
//! ```text
//!            head                             tail
//!   front    [4] <-> [1] <-> [7] <-> [0]      back
//!   (least recently used)        (most recently used)
//! ```
//!
//! Links are 32-bit indices, not pointers: 8 bytes per handle, no allocation per operation, and a
//! list can be checked without trusting it.
//!
//! K1  A handle is on at most one list of a slab; off every list its links are `NONE`.
//! K2  Walking a list from head to tail meets `len` handles, and each names its neighbours back.
//! K3  With stamps: along every list the stamps strictly increase from front to back.

use alloc::vec::Vec;
use core::hint::select_unpredictable;

use crate::{Queue, Verdict};

mod bag;
mod ring;

pub use bag::Bag;
pub use ring::Ring;

/// Names a cached block to a policy.
pub type Handle = u32;

/// No handle.
pub const NONE: Handle = Handle::MAX;

/// In `prev`, marks a handle that is on no list. Distinct from [`NONE`], which ends a list.
const OFF: Handle = Handle::MAX - 1;

#[derive(Clone, Copy, Debug)]
struct Link {
    prev: Handle,
    next: Handle,
}

const UNLINKED: Link = Link { prev: OFF, next: NONE };

/// The links of all handles that a family of lists shares.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// One more than there are handles: what is written for a neighbour that is not there goes to
    /// the last.
    links: Vec<Link>,
    /// When each handle last went to an end of a list: higher is nearer the back. Empty without
    /// stamps.
    stamps: Vec<i64>,
    /// One byte for the policy that holds the handle (CLOCK's reference bit). Stale until that
    /// policy sets it.
    marks: Vec<u8>,
    stamp_back: i64,
    stamp_front: i64,
    stamped: bool,
}

impl Links {
    /// Links for handles `0..capacity`.
    pub fn new(capacity: u32) -> Self {
        let mut links = Self::default();
        links.grow(capacity);
        links
    }

    /// Links that also remember the order in which handles went to the ends of their lists, so that
    /// handles of several lists can be put in one order.
    pub fn with_stamps(capacity: u32) -> Self {
        let mut links = Self { stamped: true, ..Self::default() };
        links.grow(capacity);
        links
    }

    /// Makes room for handles `0..capacity`. Never shrinks.
    pub fn grow(&mut self, capacity: u32) {
        let capacity = capacity.min(OFF) as usize;
        if capacity > self.marks.len() {
            self.links.resize(capacity + 1, UNLINKED);
            self.marks.resize(capacity, 0);
            if self.stamped {
                self.stamps.resize(capacity, 0);
            }
        }
    }

    /// Handles there is room for.
    #[inline]
    pub fn capacity(&self) -> u32 {
        self.marks.len() as u32
    }

    /// Whether the handle is on some list of this slab.
    #[inline]
    pub fn is_linked(&self, handle: Handle) -> bool {
        self.links[handle as usize].prev != OFF
    }

    /// The stamp of a handle; 0 without stamps.
    pub fn stamp(&self, handle: Handle) -> i64 {
        self.stamps.get(handle as usize).copied().unwrap_or(0)
    }

    /// The policy's byte.
    #[inline]
    pub fn mark(&self, handle: Handle) -> u8 {
        self.marks[handle as usize]
    }

    /// Sets the policy's byte.
    #[inline]
    pub fn set_mark(&mut self, handle: Handle, mark: u8) {
        self.marks[handle as usize] = mark;
    }

    /// Says that the links and the byte of `handle` will be used soon. A handle that does not exist
    /// is no error.
    #[inline]
    pub fn prefetch(&self, handle: Handle) {
        crate::prefetch::prefetch(&self.links, handle as usize);
        crate::prefetch::prefetch(&self.marks, handle as usize);
    }

    /// The same for the links alone, for policies that do not use the byte.
    #[inline]
    pub fn prefetch_links(&self, handle: Handle) {
        crate::prefetch::prefetch(&self.links, handle as usize);
    }

    /// The same for the links of the neighbours that `handle` has on its list. Reads the links of
    /// `handle` for it.
    #[inline]
    pub fn prefetch_neighbours(&self, handle: Handle) {
        if let Some(link) = self.links.get(handle as usize) {
            crate::prefetch::prefetch(&self.links, link.prev as usize);
            crate::prefetch::prefetch(&self.links, link.next as usize);
        }
    }

    #[inline]
    fn stamp_as_back(&mut self, handle: Handle) {
        if self.stamped {
            self.stamp_back += 1;
            self.stamps[handle as usize] = self.stamp_back;
        }
    }

    #[inline]
    fn stamp_as_front(&mut self, handle: Handle) {
        if self.stamped {
            self.stamp_front -= 1;
            self.stamps[handle as usize] = self.stamp_front;
        }
    }
}

/// A doubly linked list of handles. The default is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    head: Handle,
    tail: Handle,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NONE, tail: NONE, len: 0 }
    }
}

impl List {
    /// Links `handle` at the back (most recently used end).
    #[inline]
    pub fn push_back(&mut self, links: &mut Links, handle: Handle) {
        debug_assert!(!links.is_linked(handle), "K1: {handle} is on a list already");
        links.stamp_as_back(handle);
        links.links[handle as usize] = Link { prev: self.tail, next: NONE };
        match self.tail {
            NONE => self.head = handle,
            tail => links.links[tail as usize].next = handle,
        }
        self.tail = handle;
        self.len += 1;
    }

    /// Links `handle` at the front (least recently used end).
    #[inline]
    pub fn push_front(&mut self, links: &mut Links, handle: Handle) {
        debug_assert!(!links.is_linked(handle), "K1: {handle} is on a list already");
        links.stamp_as_front(handle);
        links.links[handle as usize] = Link { prev: NONE, next: self.head };
        match self.head {
            NONE => self.tail = handle,
            head => links.links[head as usize].prev = handle,
        }
        self.head = handle;
        self.len += 1;
    }

    /// Unlinks `handle`, which is on this list.
    #[inline]
    pub fn remove(&mut self, links: &mut Links, handle: Handle) {
        let link = links.links[handle as usize];
        assert!(link.prev != OFF, "K1: {handle} is on no list");
        match link.prev {
            NONE => self.head = link.next,
            prev => links.links[prev as usize].next = link.next,
        }
        match link.next {
            NONE => self.tail = link.prev,
            next => links.links[next as usize].prev = link.prev,
        }
        links.links[handle as usize] = UNLINKED;
        self.len -= 1;
    }

    /// Unlinks the handle nearest the front that is not pinned. `None` when all are.
    #[inline]
    pub fn take_first(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let first = self.iter(links).find(|&handle| !pinned(handle))?;
        self.remove(links, first);
        Some(first)
    }

    /// The same from the back.
    #[inline]
    pub fn take_last(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let last = self.iter(links).rev().find(|&handle| !pinned(handle))?;
        self.remove(links, last);
        Some(last)
    }

    /// Moves `handle` to the back.
    #[inline]
    pub fn move_to_back(&mut self, links: &mut Links, handle: Handle) {
        links.stamp_as_back(handle);
        if self.tail == handle {
            return;
        }
        // Removed and linked again at once: the length and the handle's being linked do not change.
        let Link { prev, next } = links.links[handle as usize];
        assert!(prev != OFF && next != NONE, "K1: {handle} is not on this list");
        match prev {
            NONE => self.head = next,
            prev => links.links[prev as usize].next = next,
        }
        links.links[next as usize].prev = prev;
        links.links[handle as usize] = Link { prev: self.tail, next: NONE };
        links.links[self.tail as usize].next = handle;
        self.tail = handle;
    }

    /// What an LRU cache of `frames` frames does for one reference: moves `handle` to the back, and
    /// says whether it was on this list, the only one of its slab. If not, it comes in, and while
    /// the list is that long the front leaves.
    ///
    /// The same as [`move_to_back`](Self::move_to_back), or [`remove`](Self::remove) and
    /// [`push_back`](Self::push_back), but without a branch that processors mispredict: the element
    /// that leaves its place, the handle or the front, is selected without a jump, and so are the
    /// ends.
    #[inline]
    pub(crate) fn renew(&mut self, links: &mut Links, handle: Handle, frames: u32) -> bool {
        debug_assert!(!links.stamped, "K3: the order of renewed handles is not known");
        if frames == 0 {
            return false;
        }
        let links = &mut links.links[..];
        let nowhere = links.len() as u32 - 1;
        let was_linked = links[handle as usize].prev != OFF;
        if was_linked || self.len >= frames {
            let leaves = select_unpredictable(was_linked, handle, self.head);
            let Link { prev, next } = links[leaves as usize];
            // NONE is the highest number of all.
            links[prev.min(nowhere) as usize].next = next;
            links[next.min(nowhere) as usize].prev = prev;
            self.head = select_unpredictable(prev == NONE, next, self.head);
            self.tail = select_unpredictable(next == NONE, prev, self.tail);
            links[leaves as usize] = UNLINKED;
        } else {
            self.len += 1;
        }
        links[self.tail.min(nowhere) as usize].next = handle;
        links[handle as usize] = Link { prev: self.tail, next: NONE };
        self.head = select_unpredictable(self.tail == NONE, handle, self.head);
        self.tail = handle;
        was_linked
    }

    /// Moves `handle` from one of some lists to the back of the same or another: the same as
    /// [`remove`](Self::remove) and [`push_back`](Self::push_back), in one go. Returns the handle
    /// that came after it, or `NONE`. For slabs without stamps.
    #[inline(always)]
    pub(crate) fn transfer(
        lists: &mut [Self],
        from: usize,
        to: usize,
        links: &mut Links,
        handle: Handle,
    ) -> Handle {
        debug_assert!(!links.stamped, "K3: a transfer is no reference");
        let links = &mut links.links[..];
        let Link { prev, next } = links[handle as usize];
        assert!(prev != OFF, "K1: {handle} is on no list");
        let list = &mut lists[from];
        match prev {
            NONE => list.head = next,
            prev => links[prev as usize].next = next,
        }
        match next {
            NONE => list.tail = prev,
            next => links[next as usize].prev = prev,
        }
        list.len -= 1;
        let list = &mut lists[to];
        links[handle as usize] = Link { prev: list.tail, next: NONE };
        match list.tail {
            NONE => list.head = handle,
            tail => links[tail as usize].next = handle,
        }
        list.tail = handle;
        list.len += 1;
        next
    }

    /// Unlinks the front, if there is one.
    #[inline(always)]
    pub(crate) fn pop_front(&mut self, links: &mut Links) -> Option<Handle> {
        let front = self.front()?;
        let next = links.links[front as usize].next;
        match next {
            NONE => self.tail = NONE,
            next => links.links[next as usize].prev = NONE,
        }
        links.links[front as usize] = UNLINKED;
        self.head = next;
        self.len -= 1;
        Some(front)
    }

    /// Moves `handle` to just before `place`, both on this list and the handle behind the place.
    /// For slabs without stamps.
    pub(crate) fn move_before(&mut self, links: &mut Links, handle: Handle, place: Handle) {
        debug_assert!(!links.stamped && handle != place, "K3: a move is no reference");
        self.remove(links, handle);
        let prev = links.links[place as usize].prev;
        self.relink(links, handle, Link { prev, next: place });
        self.len += 1;
    }

    /// Exchanges the positions of two different handles of this list. Stamps do not move with them,
    /// so this is for slabs without stamps.
    pub fn swap(&mut self, links: &mut Links, a: Handle, b: Handle) {
        debug_assert!(a != b && !links.stamped, "K3: positions of stamped handles do not swap");
        let (link_a, link_b) = (links.links[a as usize], links.links[b as usize]);
        let redirect = |neighbour: Handle| match neighbour {
            neighbour if neighbour == a => b,
            neighbour if neighbour == b => a,
            neighbour => neighbour,
        };
        self.relink(links, a, Link { prev: redirect(link_b.prev), next: redirect(link_b.next) });
        self.relink(links, b, Link { prev: redirect(link_a.prev), next: redirect(link_a.next) });
    }

    fn relink(&mut self, links: &mut Links, handle: Handle, link: Link) {
        links.links[handle as usize] = link;
        match link.prev {
            NONE => self.head = handle,
            prev => links.links[prev as usize].next = handle,
        }
        match link.next {
            NONE => self.tail = handle,
            next => links.links[next as usize].prev = handle,
        }
    }

    /// The least recently used handle.
    #[inline]
    pub fn front(&self) -> Option<Handle> {
        (self.head != NONE).then_some(self.head)
    }

    /// The most recently used handle.
    #[inline]
    pub fn back(&self) -> Option<Handle> {
        (self.tail != NONE).then_some(self.tail)
    }

    /// Handles on the list.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether the list is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// From the least to the most recently used; `rev` walks the other way.
    #[inline]
    pub fn iter<'a>(&self, links: &'a Links) -> Iter<'a> {
        Iter { links, front: self.head, back: self.tail, left: self.len }
    }

    /// The handle after `handle` towards the back, or `None` at the back.
    #[inline]
    pub fn after(&self, links: &Links, handle: Handle) -> Option<Handle> {
        let next = links.links[handle as usize].next;
        (next != NONE).then_some(next)
    }

    /// The handle before `handle` towards the front, or `None` at the front.
    #[inline]
    pub fn before(&self, links: &Links, handle: Handle) -> Option<Handle> {
        let prev = links.links[handle as usize].prev;
        (prev != NONE).then_some(prev)
    }

    /// Checks K1 to K3 and panics with the number of what fails.
    pub fn validate(&self, links: &Links) {
        let (mut handle, mut prev, mut count, mut stamp) = (self.head, NONE, 0, i64::MIN);
        while handle != NONE {
            let link = links.links[handle as usize];
            assert_eq!(link.prev, prev, "K2: {handle} does not name its neighbour");
            count += 1;
            assert!(count <= self.len, "K2: the list is longer than its length {}", self.len);
            if links.stamped {
                assert!(links.stamp(handle) > stamp, "K3: the stamp of {handle} does not increase");
                stamp = links.stamp(handle);
            }
            (prev, handle) = (handle, link.next);
        }
        assert_eq!((prev, count), (self.tail, self.len), "K2: tail or length is wrong");
    }
}

/// Walks a [`List`] from both ends.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    links: &'a Links,
    front: Handle,
    back: Handle,
    left: u32,
}

impl Iterator for Iter<'_> {
    type Item = Handle;

    #[inline]
    fn next(&mut self) -> Option<Handle> {
        self.left = self.left.checked_sub(1)?;
        let handle = self.front;
        self.front = self.links.links[handle as usize].next;
        Some(handle)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl DoubleEndedIterator for Iter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Handle> {
        self.left = self.left.checked_sub(1)?;
        let handle = self.back;
        self.back = self.links.links[handle as usize].prev;
        Some(handle)
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// Ghosts forgotten since the caller last asked: what
/// [`Policy::forgotten`](crate::Policy::forgotten) hands out.
///
/// Holds the last [`MAX`](Self::MAX): no verb of a policy forgets more, so a caller that asks after
/// each verb misses none, and for one that never asks the oldest are forgotten.
#[derive(Clone, Debug)]
pub struct Forgotten {
    handles: [Handle; Self::MAX as usize],
    /// Handles ever noted, and of these, those handed out or forgotten.
    noted: u64,
    told: u64,
}

impl Forgotten {
    /// Ghosts that one verb may forget.
    pub const MAX: u64 = 4;

    /// A ghost is forgotten.
    #[inline]
    pub fn note(&mut self, handle: Handle) {
        self.handles[(self.noted % Self::MAX) as usize] = handle;
        self.noted += 1;
    }

    /// Forgets the oldest of `ghosts` beyond `most`, as many as one verb may. `newest` became one
    /// just now: one that is not even remembered was never a ghost.
    #[inline]
    pub(crate) fn trim(&mut self, links: &mut Links, ghosts: &mut impl Queue, most: u32, newest: Handle) {
        for _ in 0..Self::MAX {
            if ghosts.len() <= most {
                return;
            }
            let Some(oldest) = ghosts.sweep(links, |_, _| Verdict::Take) else { return };
            links.set_mark(oldest, 0);
            if oldest != newest {
                self.note(oldest);
            }
        }
    }

    /// The oldest that was not handed out.
    pub fn take(&mut self) -> Option<Handle> {
        let at = self.told.max(self.noted.saturating_sub(Self::MAX));
        self.told = (at + 1).min(self.noted);
        (at < self.noted).then(|| self.handles[(at % Self::MAX) as usize])
    }
}

impl Default for Forgotten {
    fn default() -> Self {
        Self { handles: [NONE; Self::MAX as usize], noted: 0, told: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list_of(links: &mut Links, handles: &[Handle]) -> List {
        let mut list = List::default();
        handles.iter().for_each(|&handle| list.push_back(links, handle));
        list
    }

    #[test]
    fn swap_exchanges_any_two_positions() {
        for a in 0..5 {
            for b in (0..5).filter(|&b| b != a) {
                let mut links = Links::new(5);
                let mut list = list_of(&mut links, &[0, 1, 2, 3, 4]);
                list.swap(&mut links, a, b);
                list.validate(&links);
                let mut expected = [0, 1, 2, 3, 4];
                expected.swap(a as usize, b as usize);
                assert!(list.iter(&links).eq(expected), "swap of {a} and {b}");
                assert!(list.iter(&links).rev().eq(expected.into_iter().rev()));
            }
        }
    }

    #[test]
    fn the_last_forgotten_are_told_once() {
        let mut forgotten = Forgotten::default();
        assert_eq!(forgotten.take(), None);
        (0..3).for_each(|handle| forgotten.note(handle));
        assert_eq!(forgotten.take(), Some(0));
        (3..9).for_each(|handle| forgotten.note(handle));
        for handle in 5..9 {
            assert_eq!(forgotten.take(), Some(handle));
        }
        assert_eq!(forgotten.take(), None);
    }

    #[test]
    #[should_panic(expected = "K2")]
    fn validate_finds_a_broken_list() {
        let mut links = Links::new(3);
        let list = list_of(&mut links, &[0, 1, 2]);
        links.links[1].next = 0;
        list.validate(&links);
    }
}
