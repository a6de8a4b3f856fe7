//! A set of slots that knows its oldest: one bit per slot, and a tree of 64-ary summaries above.
//!
//! ```text
//!   summary   [ 1 . . 1 ]                      bit = the word below has a bit
//!   words     [. . 1 1] [. . . .] [. . . .] [1 . . .]
//!                  ^ first
//! ```
//!
//! The oldest slot is remembered: it is the yardstick of the ULC paper. When it leaves, the next
//! one is looked for towards the younger end, at most one word per floor up, and one down.
//!
//! M1  A bit of floor f + 1 is set exactly when the word below it is not zero.
//! M2  `len` bits of floor 0 are set, and `first` is the lowest of them, or `NO_SLOT`.

use alloc::vec;
use alloc::vec::Vec;

/// No slot.
pub(super) const NO_SLOT: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(super) struct SlotMap {
    /// Floor 0 has a bit per slot. The highest floor is one word.
    floors: Vec<Vec<u64>>,
    first: u32,
    len: u32,
}

impl SlotMap {
    /// An empty set of slots `0..capacity`.
    pub(super) fn new(capacity: usize) -> Self {
        let mut floors = Vec::new();
        let mut bits = capacity.max(1);
        loop {
            bits = bits.div_ceil(64);
            floors.push(vec![0; bits]);
            if bits == 1 {
                return Self { floors, first: NO_SLOT, len: 0 };
            }
        }
    }

    /// The oldest slot, or [`NO_SLOT`], which is younger than any.
    #[inline]
    pub(super) fn first(&self) -> u32 {
        self.first
    }

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Memory of its words.
    pub(super) fn bytes(&self) -> usize {
        self.floors.iter().map(|floor| floor.capacity() * size_of::<u64>()).sum()
    }

    /// Bits of the word that holds slots `64 * index` and up.
    pub(super) fn word(&self, index: usize) -> u64 {
        self.floors[0][index]
    }

    #[inline]
    pub(super) fn insert(&mut self, slot: u32) {
        self.first = self.first.min(slot);
        self.len += 1;
        let mut at = slot as usize;
        for floor in &mut self.floors {
            let word = &mut floor[at / 64];
            let known = *word != 0;
            *word |= 1 << (at % 64);
            if known {
                return;
            }
            at /= 64;
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, slot: u32) {
        self.len -= 1;
        let mut at = slot as usize;
        for floor in &mut self.floors {
            let word = &mut floor[at / 64];
            debug_assert!(*word >> (at % 64) & 1 == 1, "M1: slot {slot} is not in the set");
            *word &= !(1 << (at % 64));
            if *word != 0 {
                break;
            }
            at /= 64;
        }
        if slot == self.first {
            self.first = self.after(slot);
        }
    }

    /// The lowest slot above `slot`.
    fn after(&self, slot: u32) -> u32 {
        let mut at = slot as usize;
        for (height, floor) in self.floors.iter().enumerate() {
            // Bits above this one. `2 <<` would overflow for the last bit of a word.
            let above = floor[at / 64] & !(u64::MAX >> (63 - at % 64));
            if above != 0 {
                return self.descend(height, at / 64 * 64 + above.trailing_zeros() as usize);
            }
            at /= 64;
        }
        NO_SLOT
    }

    /// The lowest slot below a bit that is set.
    fn descend(&self, height: usize, mut at: usize) -> u32 {
        for floor in self.floors[..height].iter().rev() {
            at = at * 64 + floor[at].trailing_zeros() as usize;
        }
        at as u32
    }

    /// Takes all slots out.
    pub(super) fn clear(&mut self) {
        self.floors.iter_mut().for_each(|floor| floor.fill(0));
        (self.first, self.len) = (NO_SLOT, 0);
    }

    /// Checks M1 and M2.
    pub(super) fn validate(&self) {
        for pair in self.floors.windows(2) {
            for (index, word) in pair[0].iter().enumerate() {
                assert_eq!(pair[1][index / 64] >> (index % 64) & 1 == 1, *word != 0, "M1: word {index}");
            }
        }
        let slots = self.floors[0].iter();
        let lowest = slots.clone().enumerate().find(|(_, word)| **word != 0);
        let first = lowest.map_or(NO_SLOT, |(index, word)| index as u32 * 64 + word.trailing_zeros());
        assert_eq!(self.first, first, "M2: the oldest slot");
        assert_eq!(self.len, slots.map(|word| word.count_ones()).sum::<u32>(), "M2: the length");
    }
}
