//! A set of slots that knows its oldest.
//!
//! The oldest slot is remembered: it is the yardstick of the ULC paper. When it leaves, the next
//! one is looked for towards the younger end.
//!
//! M1  `len` slots are in the set, and `first` is the lowest of them, or `NO_SLOT`.

use pantler_policy::Numbers;

pub(super) const NO_SLOT: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(super) struct SlotMap {
    slots: Numbers,
    first: u32,
    len: u32,
}

impl SlotMap {
    /// An empty set of slots `0..capacity`.
    pub(super) fn new(capacity: usize) -> Self {
        Self { slots: Numbers::new(capacity), first: NO_SLOT, len: 0 }
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
        self.slots.bytes()
    }

    /// Bits of the word that holds slots `64 * index` and up.
    pub(super) fn word(&self, index: usize) -> u64 {
        self.slots.word(index)
    }

    #[inline]
    pub(super) fn insert(&mut self, slot: u32) {
        self.first = self.first.min(slot);
        self.len += 1;
        self.slots.insert(slot);
    }

    #[inline]
    pub(super) fn remove(&mut self, slot: u32) {
        let was_in = self.slots.remove(slot);
        debug_assert!(was_in, "M1: slot {slot} is not in the set");
        self.len -= 1;
        if slot == self.first {
            self.first = self.slots.after(slot).unwrap_or(NO_SLOT);
        }
    }

    /// Checks M1.
    pub(super) fn validate(&self) {
        assert_eq!(self.slots.validate(), self.len as usize, "M1: the length");
        let holds = |slot: u32| self.word(slot as usize / 64) >> (slot % 64) & 1 == 1;
        let lowest = if holds(0) { Some(0) } else { self.slots.after(0) };
        assert_eq!(self.first, lowest.unwrap_or(NO_SLOT), "M1: the oldest slot");
    }
}
