//! The stack of a client: what it knows of blocks, ordered by last access (rule U4).
//!
//! ```text
//!   slots      [ a ] [ . ] [ b ] [ c ] [ . ] [ d ] [ e ] | next
//!               oldest                        youngest
//!   tier 1              .     .     c     .     d     .     first = Y_1
//!   tier 2        a     .     .     .     .     .     e     first = Y_2
//!   out                 .     b     .     .     .     .     first = the oldest uncached entry
//! ```
//!
//! Each access takes the next slot, so the order of slots is the order of accesses, and comparing
//! two blocks is comparing two numbers. A [`SlotMap`] per level knows the yardstick. Where slots
//! run out, the entries move together in one pass, which is paid for by the accesses that used the
//! slots up: at most half of the slots are taken then, or they are doubled.
//!
//! S1  A block in the stack has a slot of its own that names it, and is in the map of its level and
//!     in no other.
//! S2  `entries` blocks are in the stack: the sum over the maps.
//! S3  No slot from `next` on is taken.
//! S4  `times` do not decrease along the slots.

use alloc::vec;
use alloc::vec::Vec;

use pantler_policy::Handle;

use super::slot_map::{NO_SLOT, SlotMap};
use super::tier::Tier;

/// Slots at the start.
const SLOTS_MIN: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Record {
    slot: u32,
    /// 1 to `out`, or [`UNKNOWN`].
    level: u8,
}

/// The level of a block that is not in the stack.
const UNKNOWN: u8 = 0;

#[derive(Clone, Debug)]
pub(super) struct Stack {
    /// By handle.
    records: Vec<Record>,
    /// The block of each slot. Stale where no map has the slot.
    slots: Vec<Handle>,
    /// When the block of each slot was accessed, in the caller's unit.
    times: Vec<u64>,
    /// Tier 1 to `out`.
    maps: Vec<SlotMap>,
    next: u32,
    entries: u32,
}

impl Stack {
    /// An empty stack for levels 1 to `out`.
    pub(super) fn new(out: Tier) -> Self {
        let maps = vec![SlotMap::new(SLOTS_MIN); usize::from(out.0)];
        let (slots, times) = (vec![0; SLOTS_MIN], vec![0; SLOTS_MIN]);
        Self { records: Vec::new(), slots, times, maps, next: 0, entries: 0 }
    }

    #[inline]
    fn out(&self) -> Tier {
        Tier(self.maps.len() as u8)
    }

    /// Level and slot of a block in the stack.
    #[inline]
    pub(super) fn find(&self, block: Handle) -> Option<(Tier, u32)> {
        let record = self.records.get(block as usize)?;
        (record.level != UNKNOWN).then_some((Tier(record.level), record.slot))
    }

    /// Slot of the oldest block of a level; [`NO_SLOT`] where there is none.
    #[inline]
    pub(super) fn yardstick(&self, level: Tier) -> u32 {
        self.maps[level.index()].first()
    }

    #[inline]
    pub(super) fn block_at(&self, slot: u32) -> Handle {
        self.slots[slot as usize]
    }

    /// When the block of this slot was accessed.
    #[inline]
    pub(super) fn time_at(&self, slot: u32) -> u64 {
        self.times[slot as usize]
    }

    #[inline]
    pub(super) fn len(&self, level: Tier) -> u32 {
        self.maps[level.index()].len()
    }

    /// Blocks in the stack.
    #[inline]
    pub(super) fn entries(&self) -> u32 {
        self.entries
    }

    /// Slot of the oldest entry of any level.
    pub(super) fn oldest(&self) -> u32 {
        self.maps.iter().map(SlotMap::first).min().unwrap_or(NO_SLOT)
    }

    /// An access: the block goes to the top, with that level.
    #[inline]
    pub(super) fn touch(&mut self, block: Handle, level: Tier, now: u64) {
        self.remove(block);
        if self.next as usize == self.slots.len() {
            self.renumber();
        }
        if self.records.len() <= block as usize {
            self.records.resize(block as usize + 1, Record { slot: NO_SLOT, level: UNKNOWN });
        }
        let slot = self.next;
        let before = if slot == 0 { 0 } else { self.times[slot as usize - 1] };
        self.slots[slot as usize] = block;
        // A clock that goes back must not turn the order of ages around.
        self.times[slot as usize] = now.max(before);
        self.records[block as usize] = Record { slot, level: level.0 };
        self.maps[level.index()].insert(slot);
        self.next += 1;
        self.entries += 1;
    }

    /// Blocks that are not in the stack come to its bottom, with that level and their times, the
    /// last of them uppermost. None is younger than what was there (S4).
    pub(super) fn slide_under(&mut self, blocks: &[(Handle, u64)], level: Tier) {
        if blocks.is_empty() {
            return;
        }
        let latest = self.iter().next().map_or(u64::MAX, |(_, _, time)| time);
        let mut stack = Self::new(self.out());
        blocks.iter().for_each(|&(block, time)| stack.touch(block, level, time.min(latest)));
        self.iter().for_each(|(block, level, time)| stack.touch(block, level, time));
        *self = stack;
    }

    /// Changes the level of a block in the stack; its age stays.
    #[inline]
    pub(super) fn set_level(&mut self, block: Handle, level: Tier) {
        let record = &mut self.records[block as usize];
        debug_assert!(record.level != UNKNOWN, "S1: block {block} is not in the stack");
        let old = Tier(record.level);
        record.level = level.0;
        let slot = record.slot;
        self.maps[old.index()].remove(slot);
        self.maps[level.index()].insert(slot);
    }

    /// Takes a block out, if it is in.
    #[inline]
    pub(super) fn remove(&mut self, block: Handle) {
        if let Some((level, slot)) = self.find(block) {
            self.maps[level.index()].remove(slot);
            self.records[block as usize].level = UNKNOWN;
            self.entries -= 1;
        }
    }

    /// Moves the entries together, to the low end of the slots.
    #[cold]
    fn renumber(&mut self) {
        let mut to = 0;
        for index in 0..self.slots.len() / 64 {
            let mut taken = self.maps.iter().fold(0, |taken, map| taken | map.word(index));
            while taken != 0 {
                let from = index * 64 + taken.trailing_zeros() as usize;
                taken &= taken - 1;
                let block = self.slots[from];
                (self.slots[to], self.times[to]) = (block, self.times[from]);
                self.records[block as usize].slot = to as u32;
                to += 1;
            }
        }
        debug_assert_eq!(to, self.entries as usize, "S2: entries");
        self.next = self.entries;
        if to > self.slots.len() / 2 {
            let doubled = self.slots.len() * 2;
            self.slots.resize(doubled, 0);
            self.times.resize(doubled, 0);
        }
        let slots = self.slots.len();
        self.maps.iter_mut().for_each(|map| *map = SlotMap::new(slots));
        for slot in 0..self.next {
            let level = Tier(self.records[self.slots[slot as usize] as usize].level);
            self.maps[level.index()].insert(slot);
        }
    }

    /// Memory of what grows with the entries.
    pub(super) fn bytes(&self) -> usize {
        let maps: usize = self.maps.iter().map(SlotMap::bytes).sum();
        let records = self.records.capacity() * size_of::<Record>();
        records
            + self.slots.capacity() * size_of::<Handle>()
            + self.times.capacity() * size_of::<u64>()
            + maps
    }

    /// Blocks with their levels and times, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Handle, Tier, u64)> + '_ {
        (0..self.next).filter_map(|slot| {
            let block = self.block_at(slot);
            let (level, at) = self.find(block)?;
            (at == slot).then(|| (block, level, self.time_at(slot)))
        })
    }

    /// Checks S1 to S4.
    pub(super) fn validate(&self) {
        self.maps.iter().for_each(SlotMap::validate);
        let entries: u32 = self.maps.iter().map(SlotMap::len).sum();
        assert_eq!(entries, self.entries, "S2: entries of the maps");
        let mut known = 0;
        for (block, record) in self.records.iter().enumerate().filter(|(_, record)| record.level != UNKNOWN) {
            known += 1;
            assert!(record.slot < self.next, "S3: block {block} has slot {}", record.slot);
            assert_eq!(self.slots[record.slot as usize] as usize, block, "S1: slot {}", record.slot);
            assert!(record.level <= self.out().0, "S1: block {block} has level {}", record.level);
            let (word, bit) = (record.slot as usize / 64, record.slot % 64);
            let map = &self.maps[Tier(record.level).index()];
            assert!(map.word(word) >> bit & 1 == 1, "S1: block {block} is not in the map of its level");
        }
        assert_eq!(known, self.entries, "S2: blocks with a level");
        let times = self.times[..self.next as usize].windows(2);
        assert!(times.into_iter().all(|pair| pair[0] <= pair[1]), "S4: times decrease");
    }
}
