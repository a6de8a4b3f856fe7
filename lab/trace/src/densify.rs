//! From sparse keys to dense ids in order of first use.
//!
//! ```text
//!   key --hash--> slot: [ tag |  id  ] --> keys[id] == key ?  id  :  next slot
//!                  32 bits: as many for the id as 2^bits slots need, the rest from the hash
//! ```
//!
//! An open table of slots with linear probing; keys stand apart, in order of their ids, because
//! they are needed afterwards anyway. A slot holds a part of the hash beside the id, so that almost
//! every comparison of keys succeeds. Keys are looked up in batches, and each step is taken for the
//! whole batch: first all slots are asked for, then all keys that they name, then all are compared.
//! The processor waits for many cache lines at once, and guesses nothing; what the first slot does
//! not settle (new keys, and those that others displaced) is settled afterwards, in order.
//!
//! D1  `keys[id]` is the key of `id`, without duplicates, in order of first use.
//! D2  Each id is in exactly one slot, reachable from its hash's slot without passing an empty one.
//! D3  At most 3 of 4 slots are taken.
//!
//! The hash is seeded at random: a trace cannot be made to collide, and ids do not depend on it.

use std::hash::{BuildHasher, RandomState};

use pantler_policy::prefetch::prefetch;

use crate::memory;

/// Keys looked up at once: enough for the lines that a processor waits for, few enough to stay
/// beside them.
const BATCH: usize = 128;
/// Slots of the first table.
const SLOTS_MIN: usize = 1 << 10;
/// A slot without an id: no id is as high as the last that its bits could tell (D3).
const EMPTY: u32 = u32::MAX;
const SLOT_BITS: u32 = u32::BITS;
/// Most ids: the highest number means *never* and *none*.
pub const IDS_MAX: usize = u32::MAX as usize;

/// What can be densified.
pub trait Key: Copy + Eq {
    /// A well mixed number; equal keys give equal numbers.
    fn mixed(self, seed: u64) -> u64;
}

impl Key for u64 {
    fn mixed(self, seed: u64) -> u64 {
        folded(self ^ seed, MULTIPLIER)
    }
}

impl Key for (u32, u64) {
    fn mixed(self, seed: u64) -> u64 {
        folded(folded(self.1 ^ seed, MULTIPLIER) ^ u64::from(self.0), MULTIPLIER)
    }
}

/// The golden ratio's digits: odd, and without a pattern.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Both halves of a product, folded.
#[inline]
fn folded(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    (product as u64) ^ ((product >> 64) as u64)
}

/// A table from keys to dense ids.
pub struct Densifier<K> {
    slots: Vec<u32>,
    /// Binary logarithm of the number of slots.
    bits: u32,
    keys: Vec<K>,
    seed: u64,
}

impl<K: Key> Densifier<K> {
    /// An empty table.
    pub fn new() -> Densifier<K> {
        let mut empty = Densifier {
            slots: Vec::new(),
            bits: 0,
            keys: Vec::new(),
            seed: RandomState::new().hash_one(0_u8),
        };
        empty.rebuild(SLOTS_MIN);
        empty
    }

    /// A table that knows `keys`, which hold no duplicates, in order of their ids.
    pub fn from_keys(keys: Vec<K>) -> Densifier<K> {
        let mut table = Densifier::new();
        let slots = (keys.len() + BATCH).saturating_mul(4).div_ceil(3).next_power_of_two().max(SLOTS_MIN);
        table.keys = keys;
        table.rebuild(slots);
        table
    }

    /// How many keys are known.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Keys by id, without the table.
    pub fn into_keys(self) -> Vec<K> {
        self.keys
    }

    /// The id of a key that was given before.
    #[cfg(test)]
    fn find(&self, key: K) -> Option<u32> {
        self.look_up(key, key.mixed(self.seed)).ok()
    }

    /// Appends the ids of `keys` to `ids`; keys seen for the first time get the next id.
    ///
    /// The caller sees to it that no more than [`IDS_MAX`] keys become known.
    pub fn densify(&mut self, keys: &[K], ids: &mut Vec<u32>) {
        for batch in keys.chunks(BATCH) {
            self.make_room();
            if self.keys.is_empty() {
                // So that every slot, an empty one too, can be taken for one with a key.
                self.find_or_add(batch[0], batch[0].mixed(self.seed));
            }
            self.densify_batch(batch, ids);
        }
    }

    fn densify_batch(&mut self, batch: &[K], ids: &mut Vec<u32>) {
        let (mut hashes, mut found) = ([0; BATCH], [0; BATCH]);
        for (&key, hash) in batch.iter().zip(&mut hashes) {
            *hash = key.mixed(self.seed);
            prefetch(&self.slots, self.home(*hash));
        }
        let last = self.keys.len() - 1;
        for (&hash, slot) in hashes[..batch.len()].iter().zip(&mut found) {
            *slot = self.slots[self.home(hash)];
            prefetch(&self.keys, self.id(*slot) as usize);
        }
        let (mut unsettled, mut count) = ([0_u8; BATCH], 0);
        for (at, (&key, found)) in batch.iter().zip(&mut found).enumerate() {
            let (slot, tag) = (*found, self.tag(hashes[at]));
            // An empty slot names no key, and the last one is as good as any: the comparison says
            // no.
            let id = self.id(slot).min(last as u32);
            let known = (self.tag_of(slot) == tag) & (self.keys[id as usize] == key);
            *found = id;
            unsettled[count % BATCH] = at as u8;
            count += usize::from(!known);
        }
        // Additions leave found slots alone: a taken slot stays taken by the same id.
        for &at in &unsettled[..count] {
            found[usize::from(at)] = self.find_or_add(batch[usize::from(at)], hashes[usize::from(at)]);
        }
        ids.extend_from_slice(&found[..batch.len()]);
    }

    fn find_or_add(&mut self, key: K, hash: u64) -> u32 {
        self.look_up(key, hash).unwrap_or_else(|empty| {
            let id = u32::try_from(self.keys.len()).expect("the caller bounds the number of ids");
            self.slots[empty] = self.tag(hash) | id;
            self.keys.push(key);
            id
        })
    }

    /// The id of a key, or the empty slot where it belongs.
    #[inline]
    fn look_up(&self, key: K, hash: u64) -> Result<u32, usize> {
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at];
            if slot == EMPTY {
                return Err(at);
            }
            let id = self.id(slot);
            if self.tag_of(slot) == self.tag(hash) && self.keys[id as usize] == key {
                return Ok(id);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        (hash >> (u64::BITS - self.bits)) as usize
    }

    /// Bits of a slot that tell an id. From 2^32 slots on there are no others.
    #[inline]
    fn id_mask(&self) -> u32 {
        ((1_u64 << self.bits.min(SLOT_BITS)) - 1) as u32
    }

    #[inline]
    fn id(&self, slot: u32) -> u32 {
        slot & self.id_mask()
    }

    #[inline]
    fn tag_of(&self, slot: u32) -> u32 {
        slot & !self.id_mask()
    }

    /// What a slot holds of a hash: of its lower bits, because the upper ones choose the slot.
    #[inline]
    fn tag(&self, hash: u64) -> u32 {
        hash as u32 & !self.id_mask()
    }

    /// Makes room for one more batch (D3).
    fn make_room(&mut self) {
        if (self.keys.len() + BATCH) * 4 > self.slots.len() * 3 {
            self.rebuild(self.slots.len() * 2);
        }
    }

    /// A larger table. The old one is freed first: the keys are all that is needed.
    fn rebuild(&mut self, slots: usize) {
        self.slots = Vec::new();
        self.slots.reserve_exact(slots);
        memory::large(self.slots.spare_capacity_mut());
        self.slots.resize(slots, EMPTY);
        self.bits = slots.trailing_zeros();
        let ids = std::mem::take(&mut self.keys);
        for (id, keys) in ids.chunks(BATCH).enumerate() {
            let mut hashes = [0; BATCH];
            for (key, hash) in keys.iter().zip(&mut hashes) {
                *hash = key.mixed(self.seed);
                prefetch(&self.slots, self.home(*hash));
            }
            for (id, &hash) in (id * BATCH..).zip(&hashes[..keys.len()]) {
                let mut at = self.home(hash);
                while self.slots[at] != EMPTY {
                    at = (at + 1) & (slots - 1);
                }
                self.slots[at] = self.tag(hash) | id as u32;
            }
        }
        self.keys = ids;
    }

    /// Recomputes what the table believes, and panics with the number of the invariant that fails.
    #[cfg(test)]
    fn validate(&self) {
        for (id, &key) in self.keys.iter().enumerate() {
            assert_eq!(self.find(key), Some(id as u32), "D1, D2");
        }
        let taken = self.slots.iter().filter(|&&slot| slot != EMPTY).count();
        assert_eq!(taken, self.keys.len(), "D2");
        assert!(taken * 4 <= self.slots.len() * 3, "D3");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// The obvious way.
    fn naive<K: Copy + Eq + std::hash::Hash>(keys: &[K]) -> Vec<u32> {
        let mut ids = HashMap::new();
        keys.iter()
            .map(|&key| {
                let next = ids.len() as u32;
                *ids.entry(key).or_insert(next)
            })
            .collect()
    }

    proptest! {
        #[test]
        fn ids_are_those_of_a_map(keys in prop::collection::vec(0_u64..700, 0..3000), spread in any::<u64>()) {
            let keys: Vec<u64> = keys.iter().map(|key| key.wrapping_mul(spread | 1)).collect();
            let (mut table, mut ids) = (Densifier::new(), Vec::new());
            for part in keys.chunks(77) {
                table.densify(part, &mut ids);
            }
            table.validate();
            prop_assert_eq!(&ids, &naive(&keys));
            let pairs: Vec<(u32, u64)> = keys.iter().map(|&key| (key as u32 % 3, key / 3)).collect();
            let (mut table, mut ids) = (Densifier::new(), Vec::new());
            table.densify(&pairs, &mut ids);
            table.validate();
            prop_assert_eq!(ids, naive(&pairs));
            Densifier::from_keys(table.into_keys()).validate();
        }
    }

    #[test]
    fn the_table_grows() {
        let keys: Vec<u64> = (0..100_000).map(|key| key << 40).collect();
        let (mut table, mut ids) = (Densifier::new(), Vec::new());
        table.densify(&keys, &mut ids);
        table.validate();
        assert!(ids.iter().copied().eq(0..100_000));
        assert_eq!(table.find(1), None);
    }
}
