//! A demand cache of handles around one policy: what [`Policy`] asks of its caller, in the plainest
//! form.

use alloc::vec::Vec;

use crate::{Handle, Links, Policy};

/// A policy, its links, and which handles are resident. Handles are blocks for ever: ghosts need no
/// other number.
///
/// D1  As many handles are resident as the policy says, and no more than there are frames.
///
/// ```
/// use pantler_policy::{Demand, Lru};
///
/// let mut cache = Demand::new(Lru::default(), 2);
/// assert_eq!(cache.reference(7), (false, None));
/// assert_eq!(cache.reference(8), (false, None));
/// assert_eq!(cache.reference(7), (true, None));
/// assert_eq!(cache.reference(9), (false, Some(8)));
/// ```
#[derive(Clone, Debug)]
pub struct Demand<P> {
    policy: P,
    links: Links,
    /// By handle.
    resident: Vec<bool>,
    frames: u32,
}

impl<P: Policy> Demand<P> {
    /// An empty cache of `frames` frames, for which `policy` was made.
    pub fn new(policy: P, frames: u32) -> Self {
        Self { policy, links: Links::default(), resident: Vec::new(), frames }
    }

    /// References a block: whether it was resident, which it is afterwards, and the block that
    /// left.
    #[inline]
    pub fn reference(&mut self, block: Handle) -> (bool, Option<Handle>) {
        let mut victim = None;
        let hit = self.reference_making_room(block, |cache| {
            if cache.policy.len() >= cache.frames {
                victim = cache.evict();
            }
        });
        (hit, victim)
    }

    /// The same, but on a miss `make_room` decides whether and how many blocks are
    /// [`evict`](Self::evict)ed. D1 is up to it.
    #[inline]
    pub fn reference_making_room(&mut self, block: Handle, make_room: impl FnOnce(&mut Self)) -> bool {
        if self.resident.len() <= block as usize {
            self.grow(block);
        }
        if self.resident[block as usize] {
            self.policy.hit(&mut self.links, block);
            return true;
        }
        self.policy.miss(&mut self.links, block);
        make_room(self);
        self.policy.insert(&mut self.links, block);
        self.resident[block as usize] = true;
        false
    }

    /// One block leaves. `None` if nothing is resident.
    #[inline]
    pub fn evict(&mut self) -> Option<Handle> {
        let victim = self.policy.evict(&mut self.links, &|_| false);
        debug_assert!(victim.is_some() || self.policy.is_empty(), "nothing is pinned, so a block leaves");
        if let Some(victim) = victim {
            self.resident[victim as usize] = false;
        }
        victim
    }

    /// The cache has `frames` frames from now on. What is too much is [`evict`](Self::evict)ed by
    /// the caller.
    pub fn resize(&mut self, frames: u32) {
        self.frames = frames;
        self.policy.resize(&mut self.links, frames);
    }

    /// Whether a block is resident.
    #[inline]
    pub fn holds(&self, block: Handle) -> bool {
        self.resident.get(block as usize).is_some_and(|resident| *resident)
    }

    /// Takes a block out, resident or remembered, as if it had never been referenced. Says whether
    /// it was resident.
    pub fn remove(&mut self, block: Handle) -> bool {
        let is_resident = self.holds(block);
        if is_resident || self.remembers(block) {
            self.policy.remove(&mut self.links, block);
            self.resident[block as usize] = false;
        }
        is_resident
    }

    /// Whether a block was replaced and is remembered.
    pub fn remembers(&self, block: Handle) -> bool {
        (block as usize) < self.resident.len() && self.policy.is_ghost(&self.links, block)
    }

    /// See [`Policy::forgotten`].
    pub fn forgotten(&mut self) -> Option<Handle> {
        self.policy.forgotten()
    }

    /// See [`Policy::identify`].
    pub fn identify(&mut self, block: Handle, identity: u32) {
        if self.resident.len() <= block as usize {
            self.grow(block);
        }
        self.policy.identify(block, identity);
    }

    /// Resident blocks.
    pub fn len(&self) -> u32 {
        self.policy.len()
    }

    /// Whether nothing is resident.
    pub fn is_empty(&self) -> bool {
        self.policy.is_empty()
    }

    /// Blocks that may be resident.
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// Makes room for blocks below `handles`, so that no reference to one of them allocates.
    pub fn reserve(&mut self, handles: u32) {
        if handles as usize > self.resident.len() {
            self.resident.resize(handles as usize, false);
            self.links.grow(handles);
            self.policy.reserve(handles);
        }
    }

    #[cold]
    fn grow(&mut self, block: Handle) {
        self.reserve((block + 1).next_power_of_two().max(64));
    }

    /// Recomputes D1 and the policy's invariants, and panics with the number of one that fails.
    pub fn validate(&self) {
        self.policy.validate(&self.links);
        let resident = self.resident.iter().filter(|resident| **resident).count();
        assert_eq!(resident as u32, self.policy.len(), "D1: resident blocks");
        assert!(self.policy.len() <= self.frames, "D1: over its frames");
    }
}
