//! LFU: least frequently used first, in three forms, and MFU, its opposite.
//!
//! ```text
//!   [1: a d f] <-> [2: c] <-> [5: b g]        evict: a (LFU), b (MFU)
//! ```
//!
//! Each reference counts. The handle with the lowest count is replaced; of several, the one
//! referenced longest ago.
//!
//! * [`Lfu`], in the cache: the count of a handle that was replaced is lost, and newcomers start
//!   with 1.
//! * [`LfuAged`]: in the cache, and every count is halved (rounded down) after `every` references
//!   per frame, so that what was popular once does not stay for ever.
//! * [`LfuPerfect`]: counts survive, so every handle ever seen is a ghost for as long as the cache
//!   lives.
//! * [`Mfu`], in the cache: the highest count leaves; of several handles, the one referenced
//!   longest ago.
//!
//! R1  A resident handle's count is 1 plus its hits since it came (LFU, MFU), or all references to
//!     it (perfect).
//!
//! Differences: the papers leave ties open, and bound the average count where [`LfuAged`] halves,
//! which is the form that TinyLFU made usual. Default of `lfu-aged`: `every=10.0`; the others have
//! no parameters.
//! Sources: J. T. Robinson and M. V. Devarakonda, Data cache management using frequency-based
//! replacement, SIGMETRICS 1990 (ageing); L. Breslau et al., Web caching and Zipf-like
//! distributions, INFOCOM 1999 (perfect and in-cache LFU).

use alloc::vec::Vec;

use crate::frequency::{End, Frequencies};
use crate::parameters::parameters;
use crate::{Handle, Links, NoParameters, Online, Policy};

parameters! {
    /// Parameters of [`LfuAged`].
    pub struct LfuAgedParameters {
        /// References per frame between two halvings of all counts.
        "every" => every: f64 = 10.0, 0.01..=1e9;
    }
}

/// Least frequently used; counts are lost with the block unless it `REMEMBERS` them, and are halved
/// now and then if `AGED`. `MOST`: most frequently used.
#[derive(Clone, Debug)]
pub struct Lfu<const AGED: bool = false, const MOST: bool = false, const REMEMBERS: bool = false> {
    frequencies: Frequencies,
    /// References to each handle that is not resident; 0 for unknown ones.
    remembered: Vec<u32>,
    frames: u32,
    parameters: LfuAgedParameters,
    /// References until all counts are halved.
    left: u64,
}

/// Least frequently used; counts age.
pub type LfuAged = Lfu<true>;

/// Most frequently used.
pub type Mfu = Lfu<false, true>;

/// Least frequently used; counts survive replacement.
pub type LfuPerfect = Lfu<false, false, true>;

impl<const AGED: bool, const MOST: bool, const REMEMBERS: bool> Lfu<AGED, MOST, REMEMBERS> {
    fn empty(frames: u32, parameters: LfuAgedParameters) -> Self {
        let (frequencies, remembered) = (Frequencies::default(), Vec::new());
        let mut new = Self { frequencies, remembered, frames, parameters, left: 0 };
        new.left = new.period();
        new
    }

    fn period(&self) -> u64 {
        ((f64::from(self.frames) * self.parameters.every) as u64).max(1)
    }

    #[inline]
    fn count_reference(&mut self, links: &mut Links) {
        if AGED {
            self.left -= 1;
            if self.left == 0 {
                self.frequencies.halve(links);
                self.left = self.period();
            }
        }
    }
}

impl<const MOST: bool> Online for Lfu<false, MOST> {
    type Parameters = NoParameters;
    const NAME: &'static str = if MOST { "mfu" } else { "lfu" };
    const SUMMARY: &'static str = if MOST {
        "most frequently used first"
    } else {
        "least frequently used; counts leave with their block"
    };

    fn new(frames: u32, NoParameters: NoParameters) -> Self {
        Self::empty(frames, LfuAgedParameters::default())
    }
}

impl Online for LfuPerfect {
    type Parameters = NoParameters;
    const NAME: &'static str = "lfu-perfect";
    const SUMMARY: &'static str = "least frequently used; counts survive replacement";
    const REMEMBERS_ALL: bool = true;

    fn new(frames: u32, NoParameters: NoParameters) -> Self {
        Self::empty(frames, LfuAgedParameters::default())
    }
}

impl Online for LfuAged {
    type Parameters = LfuAgedParameters;
    const NAME: &'static str = "lfu-aged";
    const SUMMARY: &'static str = "least frequently used; all counts are halved now and then";

    fn new(frames: u32, parameters: LfuAgedParameters) -> Self {
        Self::empty(frames, parameters)
    }
}

impl<const AGED: bool, const MOST: bool, const REMEMBERS: bool> Policy for Lfu<AGED, MOST, REMEMBERS> {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        self.frequencies.raise(links, handle);
        self.count_reference(links);
    }

    #[inline]
    fn miss(&mut self, links: &mut Links, _handle: Handle) {
        self.count_reference(links);
    }

    #[inline]
    fn insert(&mut self, links: &mut Links, handle: Handle) {
        let mut count = 1;
        if REMEMBERS {
            if handle as usize >= self.remembered.len() {
                self.remembered.resize(links.capacity() as usize, 0);
            }
            count += core::mem::take(&mut self.remembered[handle as usize]).min(u32::MAX - 1);
        }
        self.frequencies.insert(links, handle, count);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let end = if MOST { End::Highest } else { End::Lowest };
        let victim = self.frequencies.victim(links, end, pinned)?;
        let count = self.frequencies.remove(links, victim);
        if REMEMBERS {
            self.remembered[victim as usize] = count;
        }
        Some(victim)
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        if self.is_ghost(links, handle) {
            self.remembered[handle as usize] = 0;
        } else {
            self.frequencies.remove(links, handle);
        }
    }

    #[inline]
    fn len(&self) -> u32 {
        self.frequencies.len()
    }

    fn is_ghost(&self, _links: &Links, handle: Handle) -> bool {
        self.remembered.get(handle as usize).is_some_and(|count| *count > 0)
    }

    /// The next halving comes when the old or the new period is over, whichever is sooner.
    fn resize(&mut self, links: &mut Links, frames: u32) {
        self.frames = frames;
        self.left = self.left.min(self.period());
        self.reserve(links.capacity());
    }

    fn reserve(&mut self, handles: u32) {
        self.frequencies.reserve(handles, self.frames);
        if REMEMBERS && self.remembered.len() < handles as usize {
            self.remembered.resize(handles as usize, 0);
        }
    }

    #[inline]
    fn prefetch(&self, links: &Links, handle: Handle) {
        self.frequencies.prefetch(links, handle);
        crate::prefetch::prefetch(&self.remembered, handle as usize);
    }

    fn validate(&self, links: &Links) {
        self.frequencies.validate(links);
        let both = (0..).zip(&self.remembered).find(|&(h, &count)| count > 0 && self.frequencies.holds(h));
        assert_eq!(both, None, "R1: a resident handle has a second count");
        assert!((1..=self.period()).contains(&self.left), "R1: {} references left", self.left);
    }
}
