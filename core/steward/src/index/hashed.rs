//! How blocks of any name are found: an open-addressing table with linear probing that does not
//! look at what it finds.
//!
//! ```text
//!   slots   [ tag | value ] [ tag | value ] [ empty ] [ tag | value ] ...
//! ```
//!
//! A slot is 8 bytes: half of the block's hash, and the number of the frame or record that holds
//! the block. One cache line answers nearly every question; growing and removing never touch the
//! frames, because the home of a slot is the upper bits of its tag. See docs/benchmarks/steward.md.
//! Removal shifts the rest of a run back, so there are no tombstones.
//!
//! T1  Every slot in use can be reached from its home without meeting an empty one.
//! T2  At most half of the slots are in use, and `len` counts them.

use alloc::vec;
use alloc::vec::Vec;
use core::hash::BuildHasher;

use foldhash::fast::FixedState;
use pantler_policy::prefetch::prefetch;

use crate::{Block, FileId};

#[derive(Clone, Copy, Debug)]
struct Slot {
    tag: u32,
    value: u32,
}

/// Values are numbers of frames and records, which stay below this.
const UNUSED: u32 = u32::MAX;

const EMPTY: Slot = Slot { tag: 0, value: UNUSED };

const SLOTS_MIN: usize = 8;

/// Its verbs are those of [`BlockIndex`](super::BlockIndex).
#[derive(Clone, Debug)]
pub(crate) struct HashedIndex {
    /// A power of two of them.
    slots: Vec<Slot>,
    len: u32,
    hasher: FixedState,
}

impl HashedIndex {
    pub(super) fn new(seed: u64) -> Self {
        Self { slots: vec![EMPTY; SLOTS_MIN], len: 0, hasher: FixedState::with_seed(seed) }
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(super) fn find(&self, block: Block, is: impl Fn(u32) -> bool) -> Option<u32> {
        let tag = self.tag(block);
        let mut at = self.home(tag);
        loop {
            let slot = self.slots[at];
            if slot.value == UNUSED {
                return None;
            }
            if slot.tag == tag && is(slot.value) {
                return Some(slot.value);
            }
            at = self.after(at);
        }
    }

    #[inline]
    pub(super) fn prefetch(&self, block: Block) {
        prefetch(&self.slots, self.home(self.tag(block)));
    }

    pub(super) fn insert(&mut self, block: Block, value: u32) {
        debug_assert!(value != UNUSED, "T1: {value} is no number");
        if (self.len as usize + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let tag = self.tag(block);
        self.put(Slot { tag, value });
        self.len += 1;
    }

    pub(super) fn remove(&mut self, block: Block, value: u32) {
        let mut at = self.home(self.tag(block));
        while self.slots[at].value != value {
            assert!(self.slots[at].value != UNUSED, "T1: {block} is not found");
            at = self.after(at);
        }
        self.len -= 1;
        self.close(at);
    }

    /// Frees a slot, and moves those of its run back that would be cut off from their homes.
    fn close(&mut self, mut free: usize) {
        let mask = self.slots.len() - 1;
        let mut at = free;
        loop {
            at = self.after(at);
            let slot = self.slots[at];
            if slot.value == UNUSED {
                self.slots[free] = EMPTY;
                return;
            }
            let from_home = at.wrapping_sub(self.home(slot.tag)) & mask;
            let from_free = at.wrapping_sub(free) & mask;
            if from_home >= from_free {
                self.slots[free] = slot;
                free = at;
            }
        }
    }

    #[cold]
    fn grow(&mut self) {
        let doubled = vec![EMPTY; self.slots.len() * 2];
        let old = core::mem::replace(&mut self.slots, doubled);
        old.into_iter().filter(|slot| slot.value != UNUSED).for_each(|slot| self.put(slot));
    }

    fn put(&mut self, slot: Slot) {
        let mut at = self.home(slot.tag);
        while self.slots[at].value != UNUSED {
            at = self.after(at);
        }
        self.slots[at] = slot;
    }

    #[inline]
    fn tag(&self, Block { file: FileId(file), index }: Block) -> u32 {
        (self.hasher.hash_one((file, index)) >> 32) as u32
    }

    /// The upper bits of the tag: there are at most 2^31 slots.
    #[inline]
    fn home(&self, tag: u32) -> usize {
        (tag >> (32 - self.slots.len().trailing_zeros())) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    /// Checks T1 and T2, given the block that each number stands for.
    pub(super) fn validate(&self, block_of: impl Fn(u32) -> Block) {
        let used = self.slots.iter().filter(|slot| slot.value != UNUSED);
        assert_eq!(used.clone().count(), self.len as usize, "T2: slots in use");
        assert!(self.len as usize * 2 <= self.slots.len(), "T2: more than half of the slots are in use");
        for slot in used {
            let block = block_of(slot.value);
            assert_eq!(self.find(block, |value| value == slot.value), Some(slot.value), "T1: {block}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Insertions and removals in an order that makes runs, which wrap at the end too, against a
    /// plain vector.
    #[test]
    fn finds_what_is_there_and_nothing_else() {
        let block = |number: u32| Block::new(FileId(u64::from(number % 3)), u64::from(number));
        let mut index = HashedIndex::new(7);
        let mut held = Vec::new();
        for step in 0u32..20_000 {
            let number = step.wrapping_mul(2_654_435_761) >> 24;
            match held.iter().position(|&other| other == number) {
                Some(at) => {
                    held.swap_remove(at);
                    index.remove(block(number), number);
                }
                None => {
                    held.push(number);
                    index.insert(block(number), number);
                }
            }
            if step % 64 == 0 {
                index.validate(block);
            }
            for other in [number, number ^ 1] {
                let found = index.find(block(other), |value| block(value) == block(other));
                assert_eq!(found, held.contains(&other).then_some(other));
            }
        }
        assert_eq!(index.len() as usize, held.len());
    }
}
