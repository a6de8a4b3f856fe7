//! The policy that misses least here: LRU, MRU, 2Q, S3-FIFO or LIRS, as the references go.
//!
//! ```text
//!   references    a   b   c   d   e   f ...
//!   in the sample     b           e            one block of each 2^n, by the hash of its name
//!                     |           |
//!   trials        [lru] [mru] [2q] [s3-fifo] [lirs]     as many frames each as the cache holds
//!                                     |                 blocks of the sample
//!   cache         [a] [b] [c] [d] [e]                   all of it in the order of the one that
//!                                                       is followed
//! ```
//!
//! A reference that the followed one misses and another hits is in favour of the other, the reverse
//! counts against it, and so does 1/64 of each miss of the followed one: a contender that is not
//! better by that is never followed. The *lead* of a contender is the sum, and never below 0.
//!
//! A contender is followed once its lead is larger than what is asked for, by twice what chance
//! makes of as many differences. Asked for is 1/16 of the frames at first (`lead`). Each change
//! doubles it, up to all frames: in a loop, one contender after the other is ahead within each
//! round. 32 references for each frame without a change halve it again. S3-FIFO is followed at
//! first.
//!
//! No user shall be much worse off than under LRU. The lead of LRU is counted against what the
//! cache itself missed. Asked of it are 1/16 of the frames and half of what the cache has gained on
//! LRU, whatever was changed before.
//!
//! With a change the cache is ordered anew: from the block used longest ago on, each comes in as if
//! it were referenced for the first time. That takes time in proportion to the frames.
//!
//! The frames of the trials are what makes a small sample right: of a loop that is a little larger
//! than the cache, the sample may well have fewer blocks than its share of the frames, and would
//! seem to fit in. The part that the cache does not hold is in the sample, too.
//!
//! R1  Resident handles are on `recency`; the order holds the same.
//! R2  Ghosts are those of the order. A change forgets what the earlier order remembered, and
//!     `forgotten` tells of it until the next verb.
//! R3  `held` is the number of residents in the sample.
//!
//! T1 to T3 are those of the choice and of the trials.
//!
//! Source: sampling by hash, all references to a block or none, is that of C. Waldspurger et al.,
//! Efficient MRC construction with SHARDS, FAST 2015. Differences: a trial has as many frames as
//! the cache holds blocks of the sample, not a share that was fixed at first. Why so:
//! docs/decisions/0140-the-policy-that-misses-least.md. Defaults: `sample=1024,lead=0.0625`.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::identities::Identities;
use crate::parameters::parameters;
use crate::{Handle, Links, List, Online, Policy, PolicyName, Replacement};

mod choice;
mod contender;
mod trials;

use choice::Choice;
use contender::{contender, spec};
use trials::Trials;

parameters! {
    /// Parameters of [`Auto`].
    pub struct AutoParameters {
        /// Frames of each trial at most, about: larger caches are sampled.
        "sample" => sample: u32 = 1024, 1..=4294967295;
        /// Misses that another must have avoided before it is followed, per frame of the trials.
        "lead" => lead: f64 = 0.0625, 0.0..=1.0;
    }
}

/// Whichever misses least.
#[derive(Clone, Debug)]
pub struct Auto {
    parameters: AutoParameters,
    frames: u32,
    order: Box<Replacement>,
    order_links: Links,
    recency: List,
    /// What was forgotten by the last verb because the order changed.
    gone: Vec<Handle>,
    identities: Identities,
    /// Resident blocks in the sample.
    held: u32,
    trials: Trials,
    choice: Choice,
}

impl Auto {
    /// The policy that is followed now.
    pub fn followed(&self) -> PolicyName {
        spec(self.choice.followed()).policy_name().unwrap_or_default()
    }

    /// A handle is referenced that is resident now, and was before if it was a hit.
    #[inline]
    fn refer(&mut self, links: &Links, handle: Handle, hit: bool) {
        let identity = self.identities.of(handle);
        if !self.trials.has(identity) {
            return;
        }
        let hits = self.trials.refer(identity, self.held);
        if let Some(other) = self.choice.refer(hit, &hits, self.held, self.parameters.lead) {
            self.follow(links, other);
        }
    }

    /// Orders the cache anew.
    #[cold]
    fn follow(&mut self, links: &Links, other: usize) {
        self.gone.extend(core::iter::from_fn(|| self.order.forgotten()));
        let is_ghost = |&handle: &Handle| self.order.is_ghost(&self.order_links, handle);
        self.gone.extend((0..links.capacity()).filter(is_ghost));
        self.order_links = Links::new(links.capacity());
        *self.order = contender(other, self.frames);
        self.order.reserve(links.capacity());
        for handle in self.recency.iter(links) {
            self.order.insert(&mut self.order_links, handle);
        }
    }

    /// The sample is another: trials that are empty for it hold what the cache holds.
    fn resample(&mut self, links: &Links, sparser: i32) {
        let identities = self.recency.iter(links).map(|handle| self.identities.of(handle));
        let sampled: Vec<u32> = identities.filter(|&identity| self.trials.has(identity)).collect();
        self.held = sampled.len() as u32;
        self.choice.resample(sparser);
        if sparser < 0 {
            for identity in sampled {
                self.trials.refer(identity, self.held);
            }
        }
    }

    /// A block leaves the cache.
    fn leave(&mut self, links: &mut Links, handle: Handle) {
        self.recency.remove(links, handle);
        self.held -= u32::from(self.trials.has(self.identities.of(handle)));
    }
}

impl Online for Auto {
    type Parameters = AutoParameters;
    const NAME: &'static str = "auto";
    const SUMMARY: &'static str = "LRU, MRU, 2Q, S3-FIFO or LIRS, whichever misses least";
    const ALLOCATES: bool = true;
    const KNOWN_PER_FRAME: u32 = 4;

    fn new(frames: u32, parameters: AutoParameters) -> Self {
        let frames = frames.max(1);
        let choice = Choice::new();
        Self {
            parameters,
            frames,
            order: Box::new(contender(choice.followed(), frames)),
            order_links: Links::default(),
            recency: List::default(),
            gone: Vec::new(),
            identities: Identities::default(),
            held: 0,
            trials: Trials::new(frames, parameters.sample),
            choice,
        }
    }
}

impl Policy for Auto {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        self.gone.clear();
        self.recency.move_to_back(links, handle);
        self.order.hit(&mut self.order_links, handle);
        self.refer(links, handle, true);
    }

    fn miss(&mut self, links: &mut Links, handle: Handle) {
        self.gone.clear();
        self.reserve(links.capacity());
        self.order.miss(&mut self.order_links, handle);
    }

    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.gone.clear();
        self.reserve(links.capacity());
        self.recency.push_back(links, handle);
        self.order.insert(&mut self.order_links, handle);
        self.held += u32::from(self.trials.has(self.identities.of(handle)));
        self.refer(links, handle, false);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        self.gone.clear();
        let victim = self.order.evict(&mut self.order_links, pinned)?;
        self.leave(links, victim);
        Some(victim)
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        self.gone.clear();
        let is_resident = links.is_linked(handle);
        if is_resident {
            self.leave(links, handle);
        }
        if is_resident || self.order.is_ghost(&self.order_links, handle) {
            self.order.remove(&mut self.order_links, handle);
        }
        self.trials.remove(self.identities.of(handle));
    }

    #[inline]
    fn len(&self) -> u32 {
        self.recency.len()
    }

    fn is_ghost(&self, _: &Links, handle: Handle) -> bool {
        self.order.is_ghost(&self.order_links, handle)
    }

    fn forgotten(&mut self) -> Option<Handle> {
        self.gone.pop().or_else(|| self.order.forgotten())
    }

    fn resize(&mut self, links: &mut Links, frames: u32) {
        self.gone.clear();
        self.frames = frames.max(1);
        self.order.resize(&mut self.order_links, self.frames);
        if let Some(sparser) = self.trials.set_frames(self.frames) {
            self.resample(links, sparser);
        }
    }

    fn reserve(&mut self, handles: u32) {
        if handles > self.order_links.capacity() {
            self.order_links.grow(handles);
            self.order.reserve(handles);
        }
    }

    fn identify(&mut self, handle: Handle, identity: u32) {
        self.identities.tell(handle, identity);
    }

    #[inline]
    fn prefetch(&self, links: &Links, handle: Handle) {
        links.prefetch(handle);
        self.order.prefetch(&self.order_links, handle);
    }

    fn validate(&self, links: &Links) {
        self.recency.validate(links);
        self.order.validate(&self.order_links);
        self.trials.validate();
        self.choice.validate();
        assert_eq!(self.order.len(), self.recency.len(), "R1: the order holds other blocks");
        let is_of_sample = |&handle: &Handle| self.trials.has(self.identities.of(handle));
        assert_eq!(self.recency.iter(links).filter(is_of_sample).count() as u32, self.held, "R3");
    }
}
