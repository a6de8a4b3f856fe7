//! A demand cache of handles around one policy: what [`Policy`] asks of its caller, in the plainest form.

use alloc::vec::Vec;

use crate::{Handle, Links, Policy};

/// A policy, its links, and which handles are resident. Handles are blocks for ever: ghosts need no other number.
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

    /// References a block: whether it was resident, which it is afterwards, and who left for it.
    #[inline]
    pub fn reference(&mut self, block: Handle) -> (bool, Option<Handle>) {
        if self.resident.len() <= block as usize {
            self.grow(block);
        }
        if self.resident[block as usize] {
            self.policy.hit(&mut self.links, block);
            return (true, None);
        }
        self.policy.miss(&mut self.links, block);
        let mut victim = None;
        if self.policy.len() >= self.frames {
            victim = self.policy.evict(&mut self.links, &|_| false);
            debug_assert!(
                victim.is_some() || self.policy.is_empty(),
                "nothing is pinned, so somebody leaves"
            );
            if let Some(victim) = victim {
                self.resident[victim as usize] = false;
            }
        }
        self.policy.insert(&mut self.links, block);
        self.resident[block as usize] = true;
        (false, victim)
    }

    #[cold]
    fn grow(&mut self, block: Handle) {
        let handles = (block as usize + 1).next_power_of_two().max(64);
        self.resident.resize(handles, false);
        self.links.grow(handles as u32);
        self.policy.reserve(handles as u32);
    }

    /// Recomputes D1 and the policy's invariants, and panics with the number of one that fails.
    pub fn validate(&self) {
        self.policy.validate(&self.links);
        let resident = self.resident.iter().filter(|resident| **resident).count();
        assert_eq!(resident as u32, self.policy.len(), "D1: resident blocks");
        assert!(self.policy.len() <= self.frames, "D1: over its frames");
    }
}
