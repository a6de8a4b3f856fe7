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
//! counts against it, and so does 1/64 of each miss of the followed one: who is not better by that
//! is never followed. The *lead* of another is the sum, and never below 0. Once it is larger than a
//! share of the frames, by twice what chance makes of as many differences, the other is followed,
//! and the cache is ordered anew: from the block used longest ago on, each comes in as if it were
//! referenced for the first time. Each change doubles the share, up to all frames, and 32
//! references for each of them halve it: in a loop, one is ahead after the other within each round.
//! S3-FIFO is followed at first.
//!
//! LRU is the one that no user shall be worse off than. It is compared with what the cache itself
//! missed, needs no more than the first share whatever was changed before, and half of what the
//! cache has missed less than LRU until then.
//!
//! The frames of the trials are what makes a small sample right: of a loop that is a little larger
//! than the cache, the sample may well have fewer blocks than its share of the frames, and would
//! seem to fit in. The part that the cache does not hold is in the sample, too.
//!
//! R1  Resident handles are linked without a mark, on `recency`; the order holds the same.
//! R2  Ghosts of an order that is followed no more are linked with a mark, on `leaving`: they are
//!     forgotten soon. All other ghosts are those of the order.
//! R3  `held` is the number of residents in the sample.
//!
//! T1 to T3 are those of the choice and of the trials.
//!
//! Source: sampling by hash, all references to a block or none, is that of C. Waldspurger et al.,
//! Efficient MRC construction with SHARDS, FAST 2015; to follow what a simulation says is that of
//! `duel`. Differences: the trials have no share of the frames that was fixed at first.
//! Why so: docs/decisions/0140-the-policy-that-misses-least.md.
//! Defaults: `sample=1024,lead=0.0625`.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::parameters::parameters;
use crate::{Forgotten, Handle, Links, List, NONE, Online, Policy, PolicyName};

mod choice;
mod contender;
mod trials;

use choice::Choice;
use contender::Contender;
use trials::Trials;

parameters! {
    /// Parameters of [`Auto`].
    pub struct AutoParameters {
        /// Frames of each trial at most, about: larger caches are sampled.
        "sample" => sample: u32 = 1024, 1..=4294967295;
        /// Misses that another must have avoided before it is followed, per frame of the trials.
        "lead" => lead: f64 = 0.0625, 0.0..=16.0;
    }
}

/// The mark of handles on `leaving`.
const LEAVING: u8 = 1;

/// Whichever misses least.
#[derive(Clone, Debug)]
pub struct Auto {
    parameters: AutoParameters,
    frames: u32,
    order: Box<Contender>,
    order_links: Links,
    recency: List,
    leaving: List,
    forgotten: Forgotten,
    /// Of each handle, if they were told.
    identities: Vec<u32>,
    /// Resident blocks in the sample.
    held: u32,
    trials: Trials,
    choice: Choice,
}

impl Auto {
    /// The policy that is followed now.
    pub fn followed(&self) -> PolicyName {
        Contender::name(self.choice.followed())
    }

    fn identity(&self, handle: Handle) -> u32 {
        self.identities.get(handle as usize).copied().unwrap_or(handle)
    }

    /// A handle is referenced that is resident now, and was before if it was a hit.
    #[inline]
    fn refer(&mut self, links: &mut Links, handle: Handle, hit: bool) {
        let identity = self.identity(handle);
        if !self.trials.has(identity) {
            return;
        }
        let hits = self.trials.refer(identity, self.held);
        if let Some(other) = self.choice.refer(hit, &hits, self.held, self.parameters.lead) {
            self.follow(links, other);
        }
    }

    /// Orders the cache anew.
    fn follow(&mut self, links: &mut Links, other: usize) {
        let forgotten = core::iter::from_fn(|| self.order.forgotten()).collect::<Vec<_>>();
        let is_ghost = |&handle: &Handle| self.order.is_ghost(&self.order_links, handle);
        for handle in forgotten.into_iter().chain((0..links.capacity()).filter(is_ghost)) {
            if !links.is_linked(handle) {
                self.leaving.push_back(links, handle);
                links.set_mark(handle, LEAVING);
            }
        }
        self.order_links = Links::new(links.capacity());
        *self.order = Contender::new(other, self.frames);
        self.order.reserve(links.capacity());
        for handle in self.recency.iter(links) {
            self.order.insert(&mut self.order_links, handle);
        }
    }

    fn is_leaving(&self, links: &Links, handle: Handle) -> bool {
        links.is_linked(handle) && links.mark(handle) == LEAVING
    }

    /// A ghost of an earlier order is none any more.
    fn unlist(&mut self, links: &mut Links, handle: Handle) {
        if self.is_leaving(links, handle) {
            self.leaving.remove(links, handle);
            links.set_mark(handle, 0);
        }
    }

    /// Some ghosts of an earlier order are forgotten.
    fn forget(&mut self, links: &mut Links) {
        self.forgotten.trim(links, &mut self.leaving, 0, NONE);
    }

    /// A block leaves the cache.
    fn leave(&mut self, links: &mut Links, handle: Handle) {
        self.recency.remove(links, handle);
        self.held -= u32::from(self.trials.has(self.identity(handle)));
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
            order: Box::new(Contender::new(choice.followed(), frames)),
            order_links: Links::default(),
            recency: List::default(),
            leaving: List::default(),
            forgotten: Forgotten::default(),
            identities: Vec::new(),
            held: 0,
            trials: Trials::new(frames, parameters.sample),
            choice,
        }
    }
}

impl Policy for Auto {
    #[inline]
    fn hit(&mut self, links: &mut Links, handle: Handle) {
        self.recency.move_to_back(links, handle);
        self.order.hit(&mut self.order_links, handle);
        self.refer(links, handle, true);
        self.forget(links);
    }

    fn miss(&mut self, links: &mut Links, handle: Handle) {
        self.reserve(links.capacity());
        self.unlist(links, handle);
        self.order.miss(&mut self.order_links, handle);
        self.forget(links);
    }

    fn insert(&mut self, links: &mut Links, handle: Handle) {
        self.reserve(links.capacity());
        self.unlist(links, handle);
        self.recency.push_back(links, handle);
        self.order.insert(&mut self.order_links, handle);
        self.held += u32::from(self.trials.has(self.identity(handle)));
        self.refer(links, handle, false);
        self.forget(links);
    }

    #[inline]
    fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        let victim = self.order.evict(&mut self.order_links, pinned)?;
        self.leave(links, victim);
        self.forget(links);
        Some(victim)
    }

    fn remove(&mut self, links: &mut Links, handle: Handle) {
        if self.is_leaving(links, handle) {
            self.unlist(links, handle);
        } else {
            if links.is_linked(handle) {
                self.leave(links, handle);
            }
            self.order.remove(&mut self.order_links, handle);
        }
        self.trials.remove(self.identity(handle));
        self.forget(links);
    }

    #[inline]
    fn len(&self) -> u32 {
        self.recency.len()
    }

    fn is_ghost(&self, links: &Links, handle: Handle) -> bool {
        self.is_leaving(links, handle) || self.order.is_ghost(&self.order_links, handle)
    }

    fn forgotten(&mut self) -> Option<Handle> {
        self.forgotten.take().or_else(|| self.order.forgotten())
    }

    fn resize(&mut self, links: &mut Links, frames: u32) {
        self.frames = frames.max(1);
        self.order.resize(&mut self.order_links, self.frames);
        if self.trials.set_frames(self.frames) {
            let is_of_sample = |&handle: &Handle| self.trials.has(self.identity(handle));
            self.held = self.recency.iter(links).filter(is_of_sample).count() as u32;
        }
        self.forget(links);
    }

    fn reserve(&mut self, handles: u32) {
        if handles > self.order_links.capacity() {
            self.order_links.grow(handles);
            self.order.reserve(handles);
        }
    }

    fn identify(&mut self, handle: Handle, identity: u32) {
        let known = self.identities.len() as Handle;
        self.identities.extend(known..=handle);
        self.identities[handle as usize] = identity;
    }

    #[inline]
    fn prefetch(&self, links: &Links, handle: Handle) {
        links.prefetch(handle);
        self.order_links.prefetch(handle);
    }

    fn validate(&self, links: &Links) {
        self.recency.validate(links);
        self.leaving.validate(links);
        self.order.validate(&self.order_links);
        self.trials.validate();
        self.choice.validate();
        assert_eq!(self.order.len(), self.recency.len(), "R1: the order holds other blocks");
        assert!(self.recency.iter(links).all(|handle| links.mark(handle) == 0), "R1: a mark");
        assert!(self.leaving.iter(links).all(|handle| links.mark(handle) == LEAVING), "R2: a mark");
        let is_of_sample = |&handle: &Handle| self.trials.has(self.identity(handle));
        assert_eq!(self.recency.iter(links).filter(is_of_sample).count() as u32, self.held, "R3");
    }
}
