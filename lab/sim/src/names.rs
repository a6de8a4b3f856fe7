//! Small numbers for the blocks that a policy knows just now, of a trace that has many more.
//!
//! ```text
//!   id of the trace     77,041,337   12   903,114   ...     found by a table of 8 bytes each, linear probing
//!                            |        |      |
//!   handle                   0        1      2      ...     what the policy names; given to another id later
//! ```
//!
//! A table with a row for every id of a large trace is a cache miss for every reference. Here the
//! rows are as many as blocks are cached or remembered, and half as many again.
//!
//! N1  An id is in the table exactly if it has a handle; `ids` of that handle is the id.
//! N2  A handle is in the table or in `free`.
//! N3  At most half of the table is taken.

use pantler_policy::Handle;
use pantler_policy::prefetch::prefetch;

/// Of a handle without an id: a prepared trace has fewer ids.
const NO_ID: u32 = u32::MAX;
const EMPTY: u64 = u64::MAX;
/// Ids side by side in a cache line of the table: new ids of a trace are numbered in order.
const NEIGHBOURS: u32 = 8;
/// Removals between the hint that a row will be changed and the change.
const AHEAD: usize = 16;

/// Which handle an id has.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// `id << 32 | handle`. Its length is a multiple of [`NEIGHBOURS`].
    table: Vec<u64>,
    /// By handle; `NO_ID` if it is free.
    ids: Vec<u32>,
    /// Handles to give, the next one last.
    free: Vec<Handle>,
}

impl Names {
    /// Room for `handles` ids.
    pub(crate) fn new(handles: u32) -> Self {
        let mut names = Self { table: Vec::new(), ids: Vec::new(), free: Vec::new() };
        names.grow(handles);
        names
    }

    /// Handles there are.
    pub(crate) fn handles(&self) -> u32 {
        self.ids.len() as u32
    }

    /// Handles that can be given without room being made.
    pub(crate) fn free(&self) -> u32 {
        self.free.len() as u32
    }

    /// Says that `id` will be looked for soon.
    #[inline]
    pub(crate) fn expect(&self, id: u32) {
        prefetch(&self.table, self.home(id));
    }

    /// The handle of `id`.
    #[inline]
    pub(crate) fn find(&self, id: u32) -> Option<Handle> {
        let mut row = self.home(id);
        loop {
            let entry = self.table[row];
            if entry >> 32 == u64::from(id) {
                return Some(entry as u32);
            }
            if entry == EMPTY {
                return None;
            }
            row = self.after(row);
        }
    }

    /// Gives `id`, which has none, a handle. `None` when none is free.
    #[inline]
    pub(crate) fn name(&mut self, id: u32) -> Option<Handle> {
        let handle = self.free.pop()?;
        self.ids[handle as usize] = id;
        self.enter(id, handle);
        Some(handle)
    }

    /// Takes back each handle for which `is_known` is false.
    pub(crate) fn forget(&mut self, is_known: impl Fn(Handle) -> bool) {
        // Low handles are given first: the last of `free`.
        let handles = (0..self.handles()).rev();
        let mut leaving: Vec<Handle> =
            handles.filter(|&handle| self.ids[handle as usize] != NO_ID && !is_known(handle)).collect();
        for at in 0..leaving.len() {
            if let Some(&soon) = leaving.get(at + AHEAD) {
                self.expect(self.ids[soon as usize]);
            }
            let id = std::mem::replace(&mut self.ids[leaving[at] as usize], NO_ID);
            self.leave(id);
        }
        self.free.append(&mut leaving);
    }

    /// Makes room for `handles` ids.
    pub(crate) fn grow(&mut self, handles: u32) {
        let before = self.handles();
        assert!(handles >= before, "handles are never fewer");
        self.ids.reserve_exact((handles - before) as usize);
        self.ids.resize(handles as usize, NO_ID);
        self.free.splice(0..0, (before..handles).rev());
        let lines = (handles as usize * 2).div_ceil(NEIGHBOURS as usize) + 1;
        // The old table goes before the new one comes: `ids` has all that it says.
        self.table = Vec::new();
        self.table = vec![EMPTY; lines * NEIGHBOURS as usize];
        for handle in 0..before {
            if let Some(&soon) = self.ids.get(handle as usize + AHEAD) {
                self.expect(soon);
            }
            let id = self.ids[handle as usize];
            if id != NO_ID {
                self.enter(id, handle);
            }
        }
    }

    #[inline]
    fn enter(&mut self, id: u32, handle: Handle) {
        let mut row = self.home(id);
        while self.table[row] != EMPTY {
            row = self.after(row);
        }
        self.table[row] = u64::from(id) << 32 | u64::from(handle);
    }

    /// Takes `id` out, and moves back what stands behind it and not at home.
    fn leave(&mut self, id: u32) {
        let mut hole = self.home(id);
        while self.table[hole] >> 32 != u64::from(id) {
            assert_ne!(self.table[hole], EMPTY, "N1: id {id} has a handle");
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
            let home = self.home((entry >> 32) as u32);
            if self.distance(home, row) >= self.distance(hole, row) {
                self.table[hole] = entry;
                hole = row;
            }
        }
        self.table[hole] = EMPTY;
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

    /// Ids that come, are looked for and are forgotten, beside a map of the standard library.
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
                if names.free() == 0 {
                    let kept = draw(4);
                    names.forget(|handle| handle % 4 == kept);
                    twin.retain(|_, handle| *handle % 4 == kept);
                    if draw(8) == 0 {
                        names.grow(names.handles() + draw(40));
                    }
                }
                let handle = names.name(id).expect("a handle is free");
                assert!(twin.values().all(|other| *other != handle), "seed {seed}: {handle} given twice");
                twin.insert(id, handle);
            }
            assert_eq!(twin.len() as u32 + names.free(), names.handles(), "N2, seed {seed}");
            for (id, handle) in &twin {
                assert_eq!(names.find(*id), Some(*handle), "N1, seed {seed}");
            }
        }
    }
}
