//! A duel: LRU or the page cache of Linux, whichever misses less here.
//!
//! ```text
//!   simulated   LRU    [a] [b] [c] [d]        every reference goes to both
//!               Linux  [b] [d] [e] [f]        followed: it misses less
//!   cache              [a] [b] [d] [f]
//!                 evict ^ the oldest block that the followed one does not hold
//! ```
//!
//! A reference that the followed one misses and the other hits adds 2 to the *lead* of the other,
//! the reverse takes 3 off it; the lead is never below 0. When half of it passes a share of the
//! frames, the other is followed from then on. It was right about three of five such references:
//! where both miss as often, one of them is ahead now and then. What the followed one does not
//! hold leaves first, so the cache comes to hold the same as it misses. Linux is followed at first.
//!
//! R1  Resident handles are on `recency`. Those that the followed one does not hold are on `extra`.
//! R2  A ghost is a handle that is not resident, and that one of the two holds or remembers, or
//!     that is on `doubtful`: it is forgotten soon, unless it is referenced.
//! R3  The lead is at most twice the share of the frames.
//!
//! Between two changes the cache misses at most once for each miss of the followed one, and once
//! for each frame more, for what the other left there. Of the references that only one of the two
//! hits, the followed one hits two of five, but for half of the lead.
//!
//! Differences from the paper: its caches have sets, and each set follows the one that missed less
//! at the last few differences. Here the two are a whole cache each, and neither is sampled. They
//! have as many frames as the cache holds blocks, shrink by one block for each miss, and know
//! nothing of pins. What leaves without a miss leaves the followed one, too.
//! Defaults: `lead=0.125`.
//! Source: R. Subramanian, Y. Smaragdakis and G. H. Loh, Adaptive caches: effective shaping of
//! cache behavior to workloads, MICRO 2006.

use crate::parameters::{parameters, part_of};
use crate::{Demand, Forgotten, Handle, Links, Linux, LinuxParameters, List, Lru, Online, Policy};

parameters! {
    /// Parameters of [`Duel`].
    pub struct DuelParameters {
        /// Misses that the other must have avoided before it is followed, per frame.
        "lead" => lead: f64 = 0.125, 0.0..=16.0;
    }
}

/// What a reference adds to the lead that only the other hits, and what one takes off that only the
/// followed one hits.
const AHEAD: u32 = 2;
const BEHIND: u32 = 3;
/// Most blocks that one verb makes one of the two give up.
const VICTIMS_MAX: usize = 2;

/// What one of the two gave up and forgot in a verb.
#[derive(Default)]
struct Left {
    handles: [Handle; VICTIMS_MAX * (1 + Forgotten::MAX as usize)],
    count: usize,
}

impl Left {
    /// `cache` gives up a block.
    fn evict<P: Policy>(&mut self, cache: &mut Demand<P>) {
        let victim = cache.evict();
        for handle in victim.into_iter().chain(core::iter::from_fn(|| cache.forgotten())) {
            self.handles[self.count] = handle;
            self.count += 1;
        }
    }
}

/// LRU or Linux.
#[derive(Clone, Debug)]
pub struct Duel {
    lru: Demand<Lru>,
    linux: Demand<Linux>,
    follows_lru: bool,
    /// By how much the one that is not followed is ahead.
    lead: u32,
    frames: u32,
    recency: List,
    /// Links of `extra` and of `doubtful`: residents are on the first only, others on the second.
    more_links: Links,
    extra: List,
    doubtful: List,
    /// Both have met this reference: its block comes in next.
    missed: Option<Handle>,
    forgotten: Forgotten,
    parameters: DuelParameters,
}

impl Duel {
    fn is_known(&self, handle: Handle) -> bool {
        self.lru.holds(handle) || self.linux.holds(handle) || self.linux.remembers(handle)
    }

    #[inline]
    fn is_followed(&self, handle: Handle) -> bool {
        if self.follows_lru { self.lru.holds(handle) } else { self.linux.holds(handle) }
    }

    /// Both meet a reference.
    fn refer(&mut self, links: &Links, handle: Handle) {
        self.unlist(links, handle);
        let frames = self.frames.min(self.recency.len() + 1);
        let (lru_hit, of_lru) = refer(&mut self.lru, handle, frames);
        let (linux_hit, of_linux) = refer(&mut self.linux, handle, frames);
        self.left(links, &of_lru);
        self.left(links, &of_linux);
        self.forget();
        self.compare(links, lru_hit, linux_hit);
    }

    /// One of the two gave these up: they are extra in the cache, or forgotten soon.
    fn left(&mut self, links: &Links, left: &Left) {
        for &handle in &left.handles[..left.count] {
            if self.more_links.is_linked(handle) {
                continue;
            }
            if links.is_linked(handle) && !self.is_followed(handle) {
                self.extra.push_back(&mut self.more_links, handle);
            } else if !links.is_linked(handle) && !self.is_known(handle) {
                self.doubtful.push_back(&mut self.more_links, handle);
            }
        }
    }

    fn forget(&mut self) {
        for _ in 0..Forgotten::MAX {
            let Some(oldest) = self.doubtful.pop_front(&mut self.more_links) else { return };
            self.forgotten.note(oldest);
        }
    }

    #[inline]
    fn compare(&mut self, links: &Links, lru_hit: bool, linux_hit: bool) {
        if lru_hit == linux_hit {
            return;
        }
        if lru_hit == self.follows_lru {
            self.lead = self.lead.saturating_sub(BEHIND);
            return;
        }
        self.lead = self.lead.saturating_add(AHEAD);
        if self.lead > self.lead_max() {
            self.change(links);
        }
    }

    fn lead_max(&self) -> u32 {
        part_of(self.frames, self.parameters.lead).saturating_mul(AHEAD)
    }

    fn change(&mut self, links: &Links) {
        self.lead = 0;
        self.follows_lru = !self.follows_lru;
        while self.extra.pop_front(&mut self.more_links).is_some() {}
        let mut next = self.recency.front();
        while let Some(handle) = next {
            next = self.recency.after(links, handle);
            if !self.is_followed(handle) {
                self.extra.push_back(&mut self.more_links, handle);
            }
        }
    }

    /// The cache gives up a block without a miss: so does the followed one.
    fn give_up(&mut self, links: &Links) {
        let mut left = Left::default();
        if self.follows_lru {
            left.evict(&mut self.lru)
        } else {
            left.evict(&mut self.linux)
        }
        self.left(links, &left);
    }

    /// Takes a handle off `extra` or `doubtful`, if it is on either.
    #[inline]
    fn unlist(&mut self, links: &Links, handle: Handle) {
        if self.more_links.is_linked(handle) {
            let list = if links.is_linked(handle) { &mut self.extra } else { &mut self.doubtful };
            list.remove(&mut self.more_links, handle);
        }
    }

    fn leave(&mut self, links: &mut Links, handle: Handle) {
        self.unlist(links, handle);
        self.recency.remove(links, handle);
    }
}

/// One reference to a simulated cache of `frames` frames: whether it hit, and what left.
#[inline]
fn refer<P: Policy>(cache: &mut Demand<P>, handle: Handle, frames: u32) -> (bool, Left) {
    let mut left = Left::default();
    let hit = cache.reference_making_room(handle, |cache| {
        let frames = frames.max(cache.len().saturating_sub(1));
        if frames != cache.frames() {
            cache.resize(frames);
        }
        for _ in 0..VICTIMS_MAX {
            if cache.len() >= frames {
                left.evict(cache);
            }
        }
    });
    (hit, left)
}

impl Online for Duel {
    type Parameters = DuelParameters;
    const NAME: &'static str = "duel";
    const SUMMARY: &'static str = "LRU or the page cache of Linux, whichever misses less";

    fn new(frames: u32, parameters: DuelParameters) -> Self {
        let frames = frames.max(1);
        Self {
            lru: Demand::new(Lru::default(), frames),
            linux: Demand::new(Linux::new(frames, LinuxParameters::default()), frames),
            follows_lru: false,
            lead: 0,
            frames,
            recency: List::default(),
            more_links: Links::default(),
            extra: List::default(),
            doubtful: List::default(),
            missed: None,
            forgotten: Forgotten::default(),
            parameters,
        }
    }
}

impl Policy for Duel {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        self.refer(links, handle);
        self.recency.move_to_back(links, handle);
    }

    fn miss(&mut self, links: &mut Links, handle: Handle) {
        self.reserve(links.capacity());
        self.refer(links, handle);
        self.missed = Some(handle);
    }

    fn insert(&mut self, links: &mut Links, handle: Handle) {
        if self.missed.take() != Some(handle) {
            self.reserve(links.capacity());
            self.refer(links, handle);
        }
        self.recency.push_back(links, handle);
        if !self.is_followed(handle) {
            self.extra.push_back(&mut self.more_links, handle);
        }
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let extra = |duel: &Self| duel.extra.iter(&duel.more_links).find(|&handle| !pinned(handle));
        let mut victim = extra(self);
        for _ in 0..VICTIMS_MAX {
            if victim.is_none() {
                self.give_up(links);
                victim = extra(self);
            }
        }
        self.forget();
        let victim = victim.or_else(|| self.recency.iter(links).find(|&handle| !pinned(handle)))?;
        self.leave(links, victim);
        Some(victim)
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        self.unlist(links, handle);
        if links.is_linked(handle) {
            self.recency.remove(links, handle);
        }
        self.lru.remove(handle);
        self.linux.remove(handle);
        self.missed = self.missed.filter(|&missed| missed != handle);
    }

    #[inline]
    fn len(&self) -> u32 {
        self.recency.len()
    }

    fn is_ghost(&self, links: &Links, handle: Handle) -> bool {
        !links.is_linked(handle) && (self.more_links.is_linked(handle) || self.is_known(handle))
    }

    fn forgotten(&mut self) -> Option<Handle> {
        self.forgotten.take()
    }

    fn resize(&mut self, _: &mut Links, frames: u32) {
        self.frames = frames.max(1);
        self.lead = self.lead.min(self.lead_max());
    }

    fn reserve(&mut self, handles: u32) {
        if handles > self.more_links.capacity() {
            self.more_links.grow(handles);
            self.lru.reserve(handles);
            self.linux.reserve(handles);
        }
    }

    fn validate(&self, links: &Links) {
        self.recency.validate(links);
        self.extra.validate(&self.more_links);
        self.doubtful.validate(&self.more_links);
        let is_more = |handle| self.more_links.is_linked(handle);
        assert!(self.recency.iter(links).all(|handle| is_more(handle) != self.is_followed(handle)), "R1");
        let is_resident = |handle: Handle| links.is_linked(handle);
        assert!(self.extra.iter(&self.more_links).all(is_resident), "R1: extra");
        let is_doubtful = |handle: Handle| !is_resident(handle) && !self.is_known(handle);
        assert!(self.doubtful.iter(&self.more_links).all(is_doubtful), "R2");
        assert!(self.lead <= self.lead_max(), "R3: a lead of {}", self.lead);
        self.lru.validate();
        self.linux.validate();
    }
}
