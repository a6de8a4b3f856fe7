//! Small caches that see a sample of the blocks, one for each contender: their trials.
//!
//! T2  A slot is in the table under the identity of its block, or free. A trial holds or remembers
//!     no free one.
//! T3  Blocks in the table are of the sample.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::contender::{CONTENDERS, contender};
use crate::{Demand, Handle, Replacement};

/// Slots at first.
const SLOTS_MIN: usize = 64;

/// Small caches whose handles are slots.
#[derive(Clone, Debug)]
pub(super) struct Trials {
    /// One block in 2 to this power is in the sample.
    shift: u32,
    /// Frames of the cache beside that need no smaller sample.
    sample: u32,
    caches: Box<[Demand<Replacement>; CONTENDERS]>,
    slots: BTreeMap<u32, Handle>,
    /// By slot: the identity of its block.
    identities: Vec<u32>,
    free: Vec<Handle>,
}

impl Trials {
    /// Empty ones beside a cache of `frames` frames, `sample` frames each at most.
    pub(super) fn new(frames: u32, sample: u32) -> Self {
        let caches = core::array::from_fn(|number| Demand::new(contender(number, 1), 1));
        Self {
            shift: shift_for(frames, sample),
            sample,
            caches: Box::new(caches),
            slots: BTreeMap::new(),
            identities: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Whether a block is in the sample.
    #[inline]
    pub(super) fn has(&self, identity: u32) -> bool {
        // Numbers in a row are spread evenly: of a loop in a simulator its share is in the sample,
        // and no more. Names that are hashes already are drawn at random.
        self.shift == 0 || identity.wrapping_mul(0x9e37_79b9) >> (32 - self.shift) == 0
    }

    /// The cache beside has `frames` frames now. Gives by how much the power has grown, if the
    /// sample is another for it: smaller than before where there are more frames, and drawn anew,
    /// with empty trials, where there is a quarter of those that it was drawn for.
    pub(super) fn set_frames(&mut self, frames: u32) -> Option<i32> {
        let (before, wanted) = (self.shift, shift_for(frames, self.sample));
        if wanted > before {
            self.shift = wanted;
            let left: Vec<u32> = self.slots.keys().copied().filter(|&identity| !self.has(identity)).collect();
            left.into_iter().for_each(|identity| self.remove(identity));
        } else if wanted + 2 <= before {
            *self = Self::new(frames, self.sample);
        }
        (self.shift != before).then(|| self.shift as i32 - before as i32)
    }

    /// A block of the sample is referenced, and the cache beside holds `held` of them now: which
    /// contenders hit.
    pub(super) fn refer(&mut self, identity: u32, held: u32) -> [bool; CONTENDERS] {
        let slot = self.slot(identity);
        let mut hits = [false; CONTENDERS];
        for (cache, hit) in self.caches.iter_mut().zip(&mut hits) {
            *hit = cache.reference_making_room(slot, |cache| {
                if cache.frames() != held {
                    cache.resize(held);
                }
                while cache.len() >= held && cache.evict().is_some() {}
            });
        }
        hits
    }

    /// A block left otherwise than by eviction.
    pub(super) fn remove(&mut self, identity: u32) {
        if let Some(slot) = self.slots.remove(&identity) {
            for cache in self.caches.iter_mut() {
                cache.remove(slot);
            }
            self.free.push(slot);
        }
    }

    fn slot(&mut self, identity: u32) -> Handle {
        if let Some(&slot) = self.slots.get(&identity) {
            return slot;
        }
        if self.free.is_empty() && self.identities.len() == self.identities.capacity() {
            self.free_forgotten();
        }
        let slot = self.free.pop().unwrap_or(self.identities.len() as Handle);
        if slot as usize == self.identities.len() {
            self.identities.push(identity);
        } else {
            self.identities[slot as usize] = identity;
        }
        self.slots.insert(identity, slot);
        slot
    }

    /// Frees the slots of blocks that no trial knows any more. Where these are few there will be
    /// twice as many slots, which ends: contenders remember in proportion to their frames.
    fn free_forgotten(&mut self) {
        let Self { caches, free, slots, .. } = self;
        slots.retain(|_, &mut slot| {
            let is_known = is_known(caches.as_slice(), slot);
            if !is_known {
                free.push(slot);
            }
            is_known
        });
        let all = self.identities.len();
        if self.free.len() <= all / 8 {
            self.identities.reserve_exact(all.max(SLOTS_MIN));
        }
    }

    pub(super) fn validate(&self) {
        self.caches.iter().for_each(Demand::validate);
        for (&identity, &slot) in &self.slots {
            assert_eq!(self.identities[slot as usize], identity, "T2: slot {slot}");
            assert!(self.has(identity), "T3: {identity}");
        }
        assert!(
            !self.free.iter().any(|&slot| is_known(self.caches.as_slice(), slot)),
            "T2: a free slot is known"
        );
        assert_eq!(self.slots.len() + self.free.len(), self.identities.len(), "T2: a slot was lost");
    }
}

/// The least power that makes `frames` frames no more than `sample`.
fn shift_for(frames: u32, sample: u32) -> u32 {
    (0..u32::BITS - 1).find(|&shift| frames >> shift <= sample).unwrap_or(u32::BITS - 1)
}

fn is_known(caches: &[Demand<Replacement>], slot: Handle) -> bool {
    caches.iter().any(|cache| cache.holds(slot) || cache.remembers(slot))
}
