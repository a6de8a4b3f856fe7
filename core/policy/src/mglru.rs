//! The multi-generational LRU of Linux (MGLRU), for pages that are read by descriptor.
//!
//! ```text
//!   oldest    front [a 1] [b 3] [c 1] back     the front leaves, or moves on
//!             evict ^      | protected
//!   next      front [d 0]  v  [e 2] back       newcomers, if four generations are there
//!   youngest  front back                       for pages that are mapped: here it stays empty
//!   shadows   front [x 1] [y 5] back           ghosts, each with its count and when it left
//! ```
//!
//! A reference only counts. The count is the *tier*: 1 reference is tier 0, 2 are tier 1, 3 and 4
//! tier 2, more tier 3. A page that comes to the front of the oldest generation leaves, unless its
//! tier is protected: then it moves to the next generation, and its count starts again. A
//! controller protects a tier, and those above it, when refaults of its pages are more than `gain`
//! times as frequent as those of tier 0. A page of five references is always protected. An empty
//! generation ends, which halves what the controller knows; another one begins when too few are
//! left. While three are there, newcomers enter the oldest.
//!
//! R1  A resident handle is in the list of its generation, which its mark names; ghosts are in
//!     `shadows`, and left a generation that has begun.
//! R2  Two to four generations are there; the lists of others are empty.
//! R3  Ghosts are no more than `ghosts` x frames; after a resize that shrinks, each eviction
//!     forgets four at most.
//! R4  One eviction protects no more pages than are resident.
//!
//! Sources: Linux, Documentation/mm/multigen_lru.rst, and what Debian's 6.12 (`rework=0`) and 7.3
//! (`rework=1`) were seen to do (docs/decisions/0112-generations-as-they-are-seen.md). In 7.3 a
//! generation begins whenever fewer than four are left, in 6.12 when two are, or when the sizes of
//! three are far from equal. A page of five references stays in tier 3 there, also when it comes
//! back; in 6.12 one of four comes back as one of five. A refault counts if the generation that the
//! page left is one of the last four, in 6.12 if it is still the oldest. Differences: pages leave
//! one by one, the kernel isolates 64 at a time; in 7.3 one newcomer in 31 is not read
//! yet when it enters its generation, here only those that are placed; no page is mapped or
//! anonymous.
//! Defaults: `gain=2,least=64,ghosts=8.0,rework=0`.

use alloc::vec::Vec;

use crate::parameters::{parameters, share_of};
use crate::prefetch::prefetch;
use crate::{Forgotten, Handle, Links, List, Online, Policy};

/// Generations at least and at most (R2).
const GENERATIONS_MIN: u64 = 2;
const GENERATIONS: usize = 4;
const TIERS: usize = 4;

/// Marks: the list of the generation, or that of shadows; the count of references; and whether
/// there was another one at the greatest count.
const LIST: u8 = 0b111;
const SHADOW: u8 = GENERATIONS as u8;
const ONE: u8 = 0b1000;
const COUNT: u8 = 0b111_000;
const COUNT_MAX: u8 = 4 * ONE;
const FIFTH: u8 = 0b100_0000;

parameters! {
    /// Parameters of [`Mglru`].
    pub struct MglruParameters {
        /// Times that refaults of a protected tier are as frequent as those of tier 0.
        "gain" => gain: u32 = 2, 0..=1000;
        /// Refaults of a protected tier at least.
        "least" => least: u32 = 64, 0..=1_000_000;
        /// Ghosts at most, in multiples of the frames.
        "ghosts" => ghosts: f64 = 8.0, 0.0..=1e6;
        /// 1 is Linux 7.3, 0 is Linux 6.12.
        "rework" => rework: u8 = 0, 0..=1;
    }
}

/// What the controller knows of a tier.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Tier {
    refaulted: u64,
    /// Pages that left or were protected.
    passed: u64,
}

/// Generations, tiers and a controller of refaults.
#[derive(Clone, Debug, Default)]
pub struct Mglru {
    parameters: MglruParameters,
    ghosts_max: u32,
    /// By the generation's number modulo their greatest number; the last list is of shadows.
    lists: [List; GENERATIONS + 1],
    oldest: u64,
    youngest: u64,
    tiers: [Tier; TIERS],
    /// The oldest generation when each shadow left.
    left: Vec<u64>,
    forgotten: Forgotten,
}

fn tier(mark: u8) -> usize {
    match (mark & FIFTH, (mark & COUNT) / ONE) {
        (0, 0 | 1) => 0,
        (0, 2) => 1,
        (0, _) => 2,
        _ => 3,
    }
}

fn list_of(generation: u64) -> u8 {
    (generation % GENERATIONS as u64) as u8
}

impl Mglru {
    #[inline]
    fn list(&mut self, list: u8) -> &mut List {
        &mut self.lists[usize::from(list & LIST) % (GENERATIONS + 1)]
    }

    fn generation(&self, generation: u64) -> &List {
        &self.lists[usize::from(list_of(generation))]
    }

    /// Moves a handle to the back of a list; its mark keeps `bits`.
    #[inline]
    fn shift(&mut self, links: &mut Links, handle: Handle, to: u8, bits: u8) {
        let mark = links.mark(handle);
        self.list(mark).remove(links, handle);
        self.list(to).push_back(links, handle);
        links.set_mark(handle, to | mark & bits);
    }

    fn is_reworked(&self) -> bool {
        self.parameters.rework == 1
    }

    fn generations(&self) -> u64 {
        self.youngest - self.oldest + 1
    }

    /// A newcomer enters a generation.
    #[inline]
    fn enter(&mut self, links: &mut Links, handle: Handle, is_read: bool) {
        self.reserve(links.capacity());
        let mut bits = 0;
        if links.is_linked(handle) {
            bits = self.refault(links, handle);
            self.list(SHADOW).remove(links, handle);
        }
        if is_read && bits & COUNT == 0 {
            bits |= ONE;
        }
        let is_later = self.generations() == GENERATIONS as u64 && (is_read || !self.is_reworked());
        let entry = list_of(self.oldest + u64::from(is_later));
        self.list(entry).push_back(links, handle);
        links.set_mark(handle, entry | bits);
    }

    /// The least tier that is protected.
    fn protected_from(&self) -> usize {
        let [gain, least] = [self.parameters.gain, self.parameters.least].map(u64::from);
        let base = self.tiers[0];
        let is_outlying = |tier: &Tier| {
            let [left, right] = [
                u128::from(tier.refaulted) * u128::from(base.passed + least),
                u128::from(base.refaulted + 1) * u128::from(tier.passed * gain),
            ];
            tier.refaulted >= least && left > right
        };
        1 + self.tiers[1..].iter().take_while(|tier| !is_outlying(tier)).count()
    }

    /// Another generation begins where too few are left: whether one did.
    fn age(&mut self) -> bool {
        let is_uneven = || {
            let [old, young] = [self.oldest, self.youngest].map(|it| u64::from(self.generation(it).len()));
            let total = u64::from(self.len());
            young * GENERATIONS_MIN > total || old * (GENERATIONS_MIN + 2) < total
        };
        let is_needed = match self.generations() {
            GENERATIONS_MIN => true,
            generations => generations == GENERATIONS_MIN + 1 && (self.is_reworked() || is_uneven()),
        };
        self.youngest += u64::from(is_needed);
        is_needed
    }

    fn end_empty(&mut self) {
        while self.generations() > GENERATIONS_MIN && self.generation(self.oldest).is_empty() {
            self.oldest += 1;
            for tier in &mut self.tiers {
                *tier = Tier { refaulted: tier.refaulted / 2, passed: tier.passed / 2 };
            }
        }
    }

    /// Takes the victim, and protects those before it.
    fn choose(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let protected_from = self.protected_from();
        // R4.
        for _ in 0..self.len() {
            self.end_empty();
            while self.age() {
                self.end_empty();
            }
            let first = self.first(links, pinned)?;
            let mark = links.mark(first);
            let is_always = mark & (COUNT | FIFTH) == COUNT_MAX | FIFTH;
            let is_protected = is_always || tier(mark) >= protected_from;
            if !is_protected || mark & LIST != list_of(self.oldest) {
                return Some(first);
            }
            self.tiers[tier(mark)].passed += 1;
            let bits = if self.is_reworked() { FIFTH } else { 0 };
            self.shift(links, first, list_of(self.oldest + 1), bits);
        }
        self.first(links, pinned)
    }

    /// The front of the oldest generation that has a page which is not pinned.
    fn first(&self, links: &Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let pages = |generation| self.generation(generation).iter(links);
        (self.oldest..=self.youngest).flat_map(pages).find(|&handle| !pinned(handle))
    }

    /// What a shadow that comes back brings with it.
    fn refault(&mut self, links: &Links, handle: Handle) -> u8 {
        let (left, mark) = (self.left[handle as usize], links.mark(handle));
        let is_recent = match self.is_reworked() {
            true => self.youngest - left < GENERATIONS as u64,
            false => left == self.oldest,
        };
        if !is_recent {
            return 0;
        }
        self.tiers[tier(mark)].refaulted += 1;
        match self.is_reworked() {
            true => mark & FIFTH,
            false if mark & COUNT == COUNT_MAX => COUNT_MAX | FIFTH,
            false => 0,
        }
    }
}

impl Online for Mglru {
    type Parameters = MglruParameters;
    const KNOWN_PER_FRAME: u32 = 9;
    const NAME: &'static str = "mglru";
    const SUMMARY: &'static str =
        "the multi-generational LRU of Linux: generations, and tiers that are protected by refaults";

    fn new(frames: u32, parameters: MglruParameters) -> Self {
        Self {
            parameters,
            ghosts_max: share_of(frames.max(1), parameters.ghosts),
            youngest: GENERATIONS as u64 - 1,
            ..Self::default()
        }
    }
}

impl Policy for Mglru {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        let mark = links.mark(handle);
        let more = if mark & COUNT < COUNT_MAX { mark + ONE } else { mark | FIFTH };
        links.set_mark(handle, more);
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.enter(links, handle, true);
    }

    fn place(&mut self, links: &mut Links, handle: Handle) {
        self.enter(links, handle, false);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let victim = self.choose(links, pinned)?;
        self.tiers[tier(links.mark(victim))].passed += 1;
        self.left[victim as usize] = self.oldest;
        self.shift(links, victim, SHADOW, COUNT | FIFTH);
        self.end_empty();
        self.forgotten.trim(links, &mut self.lists[usize::from(SHADOW)], self.ghosts_max, victim);
        Some(victim)
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        let list = links.mark(handle);
        self.list(list).remove(links, handle);
    }

    #[inline]
    fn len(&self) -> u32 {
        self.lists[..GENERATIONS].iter().map(List::len).sum()
    }

    fn is_ghost(&self, links: &Links, handle: Handle) -> bool {
        links.is_linked(handle) && links.mark(handle) & LIST == SHADOW
    }

    fn forgotten(&mut self) -> Option<Handle> {
        self.forgotten.take()
    }

    fn resize(&mut self, _: &mut Links, frames: u32) {
        self.ghosts_max = share_of(frames.max(1), self.parameters.ghosts);
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
        assert!((GENERATIONS_MIN..=GENERATIONS as u64).contains(&self.generations()), "R2");
        for (list, mark) in self.lists.iter().zip(0..) {
            list.validate(links);
            assert!(list.iter(links).all(|handle| links.mark(handle) & LIST == mark), "R1: list {mark}");
            let is_there = mark == SHADOW || (self.oldest..=self.youngest).any(|it| list_of(it) == mark);
            assert!(is_there || list.is_empty(), "R2: list {mark}");
        }
        let mut shadows = self.lists[usize::from(SHADOW)].iter(links);
        assert!(shadows.all(|handle| self.left[handle as usize] <= self.youngest), "R1: a shadow");
    }
}
