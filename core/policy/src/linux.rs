//! The page cache of Linux: an inactive and an active list, and shadows of what was evicted.
//!
//! ```text
//!   inactive  front [a .] [b *] [c .] back      new pages; a second reference makes them active
//!             evict ^                ^ insert
//!   active    front [d *] [e .] back            the front comes down while inactive is short
//!   shadows   front [x] [y] back                ghosts, each with the age at which it left
//! ```
//!
//! The age counts evictions and activations. A page that comes back when the age grew by no more
//! than the length of the active list since it left would have stayed, had it had the frames of
//! that list: it is activated at once. After such a refault, and whenever the inactive list is
//! short, an eviction also takes pages from the active list down.
//!
//! R1  A handle known is on exactly one list, and its mark says on which; ghosts have no bit set.
//! R2  Ghosts are no more than the frames; older ones could not be activated. After a resize that
//!     shrinks, each eviction forgets four at most.
//!
//! Sources: Linux 6.18, mm/swap.c (`folio_mark_accessed`), mm/workingset.c
//! (`workingset_test_recent`, `workingset_eviction`) and mm/vmscan.c (`inactive_is_low`,
//! `shrink_active_list`, `folio_check_references`), for file pages that are read and not mapped, in
//! one group, with no anonymous memory and without the multi-generational LRU. Differences: pages
//! move one by one. The kernel gathers them in batches (of 31 on the way to the lists, of 32 when
//! it reclaims), does not mark a page that one descriptor reads twice in a row, and keeps shadows
//! until memory is short. It reads the lengths of a group's lists from statistics that are up to
//! two seconds old: `stale` repeats that. Defaults: `ratio=0,demote=1,stale=0`.

use alloc::vec::Vec;

use crate::parameters::parameters;
use crate::prefetch::prefetch;
use crate::{Forgotten, Handle, Links, List, Online, Policy};

/// Marks: indices of lists, and a bit.
const INACTIVE: u8 = 0;
const ACTIVE: u8 = 1;
const SHADOW: u8 = 2;
const LIST: u8 = 3;
const REFERENCED: u8 = 4;

/// Active pages that come down with one eviction by the kernel's rule.
const DEMOTED_MAX: u32 = 32;

/// Frames of 4 KiB in a GiB.
const FRAMES_PER_GIB: u64 = 1 << 18;

parameters! {
    /// Parameters of [`Linux`].
    pub struct LinuxParameters {
        /// Active pages that one inactive page balances; 0 is the kernel's rule, the root of ten
        /// times the GiB, for frames of 4 KiB.
        "ratio" => ratio: u32 = 0, 0..=1000;
        /// Active pages that come down with one eviction at most; 0 is the kernel's rule, the
        /// length of the active list over that of the inactive one.
        "demote" => demote: u32 = 1, 0..=1000;
        /// References between two looks at the lengths of the lists; 0 looks always.
        "stale" => stale: u32 = 0, 0..=u32::MAX;
    }
}

/// What the statistics say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Seen {
    inactive: u32,
    active: u32,
    /// Refaults that activated.
    refaults: u64,
}

/// Active and inactive lists with refault distances.
#[derive(Clone, Debug, Default)]
pub struct Linux {
    parameters: LinuxParameters,
    frames: u32,
    /// Inactive, active, shadows.
    lists: [List; 3],
    /// The age at which each shadow left.
    left: Vec<u64>,
    age: u64,
    refaults: u64,
    references: u64,
    /// Lengths of the active list that no page came down for yet.
    owed: u64,
    seen: Seen,
    /// Refaults seen when the last eviction ended.
    reclaimed: u64,
    forgotten: Forgotten,
}

impl Linux {
    #[inline]
    fn list(&mut self, list: u8) -> &mut List {
        &mut self.lists[usize::from(list & LIST) % 3]
    }

    #[inline]
    fn shift(&mut self, links: &mut Links, handle: Handle, to: u8) {
        let from = links.mark(handle);
        self.list(from).remove(links, handle);
        self.list(to).push_back(links, handle);
        links.set_mark(handle, to);
    }

    fn lengths(&self) -> Seen {
        let [inactive, active, _] = self.lists.map(|list| list.len());
        Seen { inactive, active, refaults: self.refaults }
    }

    /// The statistics, fresh or not.
    #[inline]
    fn seen(&self) -> Seen {
        if self.parameters.stale == 0 { self.lengths() } else { self.seen }
    }

    #[inline]
    fn tick(&mut self) {
        self.references += 1;
        let stale = u64::from(self.parameters.stale);
        if stale != 0 && self.references.is_multiple_of(stale) {
            self.seen = self.lengths();
        }
    }

    fn inactive_is_low(&self, seen: Seen) -> bool {
        let ratio = match self.parameters.ratio {
            0 => {
                let gib = (u64::from(seen.inactive) + u64::from(seen.active)) / FRAMES_PER_GIB;
                (10 * gib).isqrt().max(1)
            }
            ratio => u64::from(ratio),
        };
        u64::from(seen.inactive) * ratio < u64::from(seen.active)
    }

    /// Whether the shadow of a page that comes back is young enough.
    #[inline]
    fn is_recent(&self, handle: Handle) -> bool {
        self.age - self.left[handle as usize] <= u64::from(self.seen().active)
    }

    /// Pages that come down now. The kernel scans both lists in proportion to their lengths.
    fn demoted(&mut self) -> u32 {
        if self.parameters.demote > 0 {
            return self.parameters.demote;
        }
        let Seen { inactive, active, .. } = self.lengths();
        let inactive = u64::from(inactive.max(1));
        self.owed += u64::from(active);
        let count = (self.owed / inactive).min(DEMOTED_MAX.into()) as u32;
        self.owed %= inactive;
        count
    }

    /// Moves pages from the front of the active list to the back of the inactive one. Bits stay.
    fn balance(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) {
        let seen = self.seen();
        if !self.inactive_is_low(seen) && seen.refaults == self.reclaimed {
            return;
        }
        for _ in 0..self.demoted() {
            let found = self.lists[usize::from(ACTIVE)].iter(links).find(|&handle| !pinned(handle));
            let Some(handle) = found else { return };
            let bit = links.mark(handle) & REFERENCED;
            self.shift(links, handle, INACTIVE);
            links.set_mark(handle, INACTIVE | bit);
        }
    }
}

impl Online for Linux {
    type Parameters = LinuxParameters;
    const NAME: &'static str = "linux";
    const SUMMARY: &'static str = "the page cache of Linux: active and inactive list, with refault distances";

    fn new(frames: u32, parameters: LinuxParameters) -> Self {
        Self { parameters, frames: frames.max(1), ..Self::default() }
    }
}

impl Policy for Linux {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        self.tick();
        let mark = links.mark(handle);
        if mark == INACTIVE | REFERENCED {
            self.shift(links, handle, ACTIVE);
            self.age += 1;
        } else {
            links.set_mark(handle, mark | REFERENCED);
        }
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.tick();
        self.place(links, handle);
        links.set_mark(handle, links.mark(handle) | REFERENCED);
    }

    fn place(&mut self, links: &mut Links, handle: Handle) {
        self.reserve(links.capacity());
        if !links.is_linked(handle) {
            self.list(INACTIVE).push_back(links, handle);
            links.set_mark(handle, INACTIVE);
        } else if self.is_recent(handle) {
            self.shift(links, handle, ACTIVE);
            self.age += 1;
            self.refaults += 1;
        } else {
            self.shift(links, handle, INACTIVE);
        }
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        self.balance(links, pinned);
        self.reclaimed = self.seen().refaults;
        let [inactive, active, _] = &self.lists;
        let victim = inactive.iter(links).chain(active.iter(links)).find(|&handle| !pinned(handle))?;
        self.shift(links, victim, SHADOW);
        self.left[victim as usize] = self.age;
        self.age += 1;
        self.forgotten.trim(links, &mut self.lists[usize::from(SHADOW)], self.frames, victim);
        Some(victim)
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        let list = links.mark(handle);
        self.list(list).remove(links, handle);
    }

    #[inline]
    fn len(&self) -> u32 {
        let [inactive, active, _] = &self.lists;
        inactive.len() + active.len()
    }

    fn is_ghost(&self, links: &Links, handle: Handle) -> bool {
        links.is_linked(handle) && links.mark(handle) == SHADOW
    }

    fn forgotten(&mut self) -> Option<Handle> {
        self.forgotten.take()
    }

    fn resize(&mut self, _: &mut Links, frames: u32) {
        self.frames = frames.max(1);
    }

    #[inline]
    fn reserve(&mut self, handles: u32) {
        if self.left.len() < handles as usize {
            self.left.resize(handles as usize, 0);
        }
    }

    #[inline]
    fn prefetch(&self, links: &Links, handle: Handle) {
        links.prefetch(handle);
        prefetch(&self.left, handle as usize);
    }

    fn validate(&self, links: &Links) {
        for (list, mark) in self.lists.iter().zip(INACTIVE..) {
            list.validate(links);
            let bits = if mark == SHADOW { 0 } else { REFERENCED };
            let fits = |handle| links.mark(handle) & !bits == mark;
            assert!(list.iter(links).all(fits), "R1: list {mark}");
        }
        let left = |handle: Handle| self.left[handle as usize];
        let mut shadows = self.lists[usize::from(SHADOW)].iter(links).map(left);
        assert!(shadows.all(|left| left < self.age), "R1: a shadow left in the future");
    }
}
