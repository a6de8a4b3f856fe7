//! Small numbers for the blocks that a policy knows just now, of a trace that has many more.
//!
//! ```text
//!   table    [ tag, handle ] [ .. ] [ tag, handle ] ...     4 bytes each, linear probing
//!                     |                     |
//!   ids      77,041,337                    12      ...      by handle; of a free one the next one
//! ```
//!
//! A table with a row for every id of a large trace is a cache miss for every reference. Here the
//! rows are as many as blocks are cached or remembered, twice.
//!
//! N1  An id is in the table exactly if it has a handle; `ids` of that handle is the id.
//! N2  A handle is in the table, or in the list that begins with `free`.
//! N3  At most half of the table is taken.

use pantler_policy::prefetch::prefetch;
use pantler_policy::{Handle, NONE};

/// Handles are below the mask, so no entry has all its bits set.
const EMPTY: u32 = u32::MAX;
/// Ids side by side in a cache line of the table: new ids of a trace are numbered in order.
const NEIGHBOURS: u32 = 16;
/// Entries between the hint that a row will be written and the writing.
const AHEAD: usize = 16;

/// Which handle an id has.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// Handles in the low bits, in the others those of a hash of the id. Its length is a multiple
    /// of [`NEIGHBOURS`].
    table: Vec<u32>,
    /// The bits of an entry that are the handle.
    mask: u32,
    ids: Vec<u32>,
    free: Handle,
}

impl Names {
    /// Room for `handles` ids.
    pub(crate) fn new(handles: u32) -> Self {
        let mut names = Self { table: Vec::new(), mask: 0, ids: Vec::new(), free: NONE };
        names.grow(handles);
        names
    }

    /// Handles there are.
    pub(crate) fn handles(&self) -> u32 {
        self.ids.len() as u32
    }

    /// Whether no handle can be given without room being made.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.free == NONE
    }

    /// Says that `id` will be looked for soon.
    #[inline]
    pub(crate) fn expect(&self, id: u32) {
        prefetch(&self.table, self.home(id));
    }

    /// Says that `handle` will [leave](Self::leave), but not before its row is
    /// [expected](Self::expect_row).
    #[inline]
    pub(crate) fn expect_id(&self, handle: Handle) {
        prefetch(&self.ids, handle as usize);
    }

    /// Says that `handle`, which has an id, will leave soon.
    #[inline]
    pub(crate) fn expect_row(&self, handle: Handle) {
        self.expect(self.ids[handle as usize]);
    }

    /// The handle of `id`.
    #[inline]
    pub(crate) fn find(&self, id: u32) -> Option<Handle> {
        let tag = self.entry(id, 0);
        let mut row = self.home(id);
        loop {
            let entry = self.table[row];
            if entry == EMPTY {
                return None;
            }
            let handle = entry & self.mask;
            if entry ^ handle == tag && self.ids[handle as usize] == id {
                return Some(handle);
            }
            row = self.after(row);
        }
    }

    /// Gives `id`, which has none, a handle. `None` when none is free.
    #[inline]
    pub(crate) fn name(&mut self, id: u32) -> Option<Handle> {
        let handle = self.free;
        if handle == NONE {
            return None;
        }
        self.free = std::mem::replace(&mut self.ids[handle as usize], id);
        self.enter(id, handle);
        Some(handle)
    }

    /// Makes room for `handles` ids, after every handle was given.
    pub(crate) fn grow(&mut self, handles: u32) {
        assert!(self.is_full(), "N2: handles are free");
        let before = self.handles();
        self.ids.reserve_exact((handles - before) as usize);
        // Each free handle names the next one.
        self.ids.extend(before + 1..handles);
        self.ids.push(NONE);
        self.free = before;
        self.mask = (u64::from(handles) + 1).next_power_of_two() as u32 - 1;
        let lines = (handles as usize * 2).div_ceil(NEIGHBOURS as usize) + 1;
        // The old table goes before the new one comes: `ids` has all that it says.
        self.table = Vec::new();
        self.table = vec![EMPTY; lines * NEIGHBOURS as usize];
        for handle in 0..before {
            if let Some(&soon) = self.ids[..before as usize].get(handle as usize + AHEAD) {
                self.expect(soon);
            }
            self.enter(self.ids[handle as usize], handle);
        }
    }

    #[inline]
    fn enter(&mut self, id: u32, handle: Handle) {
        let mut row = self.home(id);
        while self.table[row] != EMPTY {
            row = self.after(row);
        }
        self.table[row] = self.entry(id, handle);
    }

    /// Takes the handle from its id, and moves back what stands behind it and not at home.
    #[inline]
    pub(crate) fn leave(&mut self, handle: Handle) {
        let id = std::mem::replace(&mut self.ids[handle as usize], self.free);
        self.free = handle;
        let mut hole = self.home(id);
        while self.table[hole] & self.mask != handle {
            assert_ne!(self.table[hole], EMPTY, "N1: {handle} has an id");
            hole = self.after(hole);
        }
        let mut row = hole;
        loop {
            row = self.after(row);
            let entry = self.table[row];
            if entry == EMPTY {
                break;
            }
            // It may move back as far as its home, seen from where it stands.
            let home = self.home(self.ids[(entry & self.mask) as usize]);
            if self.distance(home, row) >= self.distance(hole, row) {
                self.table[hole] = entry;
                hole = row;
            }
        }
        self.table[hole] = EMPTY;
    }

    /// A row of the table.
    #[inline]
    fn entry(&self, id: u32, handle: Handle) -> u32 {
        id.wrapping_mul(0x85EB_CA6B) & !self.mask | handle
    }

    /// Where `id` stands if nothing is in its way.
    #[inline]
    fn home(&self, id: u32) -> usize {
        // Fibonacci hashing (Knuth, The Art of Computer Programming 3, section 6.4) of the line.
        let line = (id / NEIGHBOURS).wrapping_mul(0x9E37_79B9) as usize;
        let lines = self.table.len() / NEIGHBOURS as usize;
        ((line * lines) >> 32) * NEIGHBOURS as usize + (id % NEIGHBOURS) as usize
    }

    #[inline]
    fn after(&self, row: usize) -> usize {
        if row + 1 == self.table.len() { 0 } else { row + 1 }
    }

    /// Steps from one row to another.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.table.len() - from }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantler_trace::generate::Random;
    use std::collections::HashMap;

    /// Ids that come, are looked for and leave, beside a map of the standard library.
    #[test]
    fn names_are_those_of_a_map() {
        for seed in 0..50_u64 {
            let mut random = Random::new(seed);
            let mut draw = |below: u32| random.below(below.into()) as u32;
            let ids = [20, 200, 4_000_000_000][seed as usize % 3];
            let mut names = Names::new(16);
            let mut twin: HashMap<u32, Handle> = HashMap::new();
            for _ in 0..3_000 {
                let id = draw(ids);
                assert_eq!(names.find(id), twin.get(&id).copied(), "seed {seed}, id {id}");
                if twin.contains_key(&id) {
                    continue;
                }
                if names.is_full() && draw(8) == 0 {
                    names.grow(names.handles() + 1 + draw(40));
                } else if names.is_full() {
                    let kept = draw(4);
                    let leaving = twin.extract_if(|_, handle| *handle % 4 != kept);
                    leaving.for_each(|(_, handle)| names.leave(handle));
                }
                let handle = names.name(id).expect("a handle is free");
                assert!(twin.values().all(|other| *other != handle), "seed {seed}: {handle} given twice");
                twin.insert(id, handle);
            }
            for (id, handle) in &twin {
                assert_eq!(names.find(*id), Some(*handle), "N1, seed {seed}");
            }
            let free = std::iter::from_fn(|| names.name(u32::MAX - 1 - draw(1 << 20))).count();
            assert_eq!(twin.len() + free, names.handles() as usize, "N2, seed {seed}");
        }
    }
}
