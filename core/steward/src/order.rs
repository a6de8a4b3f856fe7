//! How the blocks of one level are replaced: by a policy over a list, or by one that remembers
//! more.

use alloc::boxed::Box;

use pantler_policy::{Handle, Iter, Links, List, ListPolicy, Lru, Policy, PolicyName, Spec};

use crate::Block;
use crate::remembering::{HANDLES_MIN_COMMON, Remembering};

/// The order of one level.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    /// The frames' places in a list of the managers' slab are all there is.
    Listed(ListPolicy),
    /// The policy also remembers blocks that left, or counts, or draws.
    Remembering(Box<Remembering>),
}

impl Order {
    /// LRU over nothing.
    pub(crate) fn new() -> Self {
        Self::Listed(ListPolicy::Lru(Lru::default()))
    }

    /// A policy over nothing, in a cache of `frames` frames.
    pub(crate) fn for_frames(spec: Spec, frames: u32) -> Self {
        let nothing = |_| unreachable!("the list is empty");
        match Self::over(spec, List::default(), &mut Links::default(), frames, nothing) {
            Self::Remembering(policy) => Self::Remembering(Box::new(policy.with_handles(HANDLES_MIN_COMMON))),
            listed => listed,
        }
    }

    fn over(spec: Spec, list: List, links: &mut Links, frames: u32, block: impl Fn(Handle) -> Block) -> Self {
        let listed = spec.policy_name().and_then(|name| ListPolicy::over(name, list, links));
        match listed {
            Some(listed) => Self::Listed(listed),
            None => Self::Remembering(Box::new(Remembering::over(spec, list, links, frames, block))),
        }
    }

    pub(crate) fn spec(&self) -> Spec {
        match self {
            Self::Listed(policy) => policy.name().spec(),
            Self::Remembering(policy) => policy.spec(),
        }
    }

    pub(crate) fn name(&self) -> PolicyName {
        self.spec().policy_name().unwrap_or_default()
    }

    /// Another policy over the same frames, from the least to the most recently used: what the old
    /// one remembered beyond that order is lost.
    pub(crate) fn change(&mut self, links: &mut Links, spec: Spec, block: impl Fn(Handle) -> Block) {
        if spec != self.spec() {
            let held = self.len().max(1);
            *self = Self::over(spec, self.list(), links, held, block);
        }
    }

    /// A reference to a block that is not here, before room is made for it.
    #[inline]
    pub(crate) fn miss(&mut self, block: Block) {
        if let Self::Remembering(policy) = self {
            policy.miss(block);
        }
    }

    #[inline]
    pub(crate) fn hit(&mut self, links: &mut Links, frame: Handle) {
        match self {
            Self::Listed(policy) => policy.hit(links, frame),
            Self::Remembering(policy) => policy.hit(links, frame),
        }
    }

    #[inline]
    pub(crate) fn insert(&mut self, links: &mut Links, frame: Handle, block: Block) {
        match self {
            Self::Listed(policy) => policy.insert(links, frame),
            Self::Remembering(policy) => policy.insert(links, frame, block),
        }
    }

    pub(crate) fn place(&mut self, links: &mut Links, frame: Handle, block: Block) {
        match self {
            Self::Listed(policy) => policy.place(links, frame),
            Self::Remembering(policy) => policy.insert(links, frame, block),
        }
    }

    pub(crate) fn places_backwards(&self) -> bool {
        match self {
            Self::Listed(policy) => policy.places_backwards(),
            Self::Remembering(_) => false,
        }
    }

    #[inline]
    pub(crate) fn evict(&mut self, links: &mut Links, pinned: &dyn Fn(Handle) -> bool) -> Option<Handle> {
        match self {
            Self::Listed(policy) => policy.evict(links, pinned),
            Self::Remembering(policy) => policy.evict(links, pinned),
        }
    }

    pub(crate) fn remove(&mut self, links: &mut Links, frame: Handle) {
        match self {
            Self::Listed(policy) => policy.remove(links, frame),
            Self::Remembering(policy) => policy.remove(links, frame),
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.list().len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Frames from the least to the most recently used, as far as the policy keeps that order.
    pub(crate) fn iter<'a>(&self, links: &'a Links) -> Iter<'a> {
        self.list().iter(links)
    }

    fn list(&self) -> List {
        match self {
            Self::Listed(policy) => policy.list(),
            Self::Remembering(policy) => policy.recency(),
        }
    }

    pub(crate) fn validate(&self, links: &Links, block: impl Fn(Handle) -> Block) {
        match self {
            Self::Listed(policy) => policy.validate(links),
            Self::Remembering(policy) => policy.validate(links, block),
        }
    }
}
