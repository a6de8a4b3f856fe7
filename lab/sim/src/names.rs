//! Small numbers for the blocks that a policy knows just now, of a trace that has many more.
//!
//! ```text
//!   lines    [ tag, handle | .. | tag, handle ] [ .. ] ...    16 entries of 4 bytes, in no order
//!                     |                  |
//!   ids      77,041,337                 12      ...           by handle
//! ```
//!
//! A table with a row for every id of a large trace is a cache miss for every reference. Here the
//! entries are half as many again as there are handles. A line is compared as a whole, by vectors,
//! so that neither a search nor an entry that goes needs a branch which processors mispredict:
//! docs/decisions/0131-lines-of-names-are-compared-by-vectors.md.
//!
//! Handles are given in rising order, over those in use. Neighbours in
//! time are neighbours in all that a policy keeps of them, and mostly leave so:
//! docs/decisions/0105-names-in-lines-handles-in-order.md.
//!
//! N1  An id is in the table exactly if it has a handle; `ids` of that handle is the id.
//! N2  A handle but 0, which is never given, is in the table or `free`.
//! N3  At most two thirds of the table are taken.
//! N4  From the home of an id up to the line that has it, all lines before that are full.

use pantler_policy::prefetch::prefetch;
use pantler_policy::{Handle, Numbers};
use wide::u32x4;

/// Handles are below the mask, so no entry has all its bits set.
const EMPTY: u32 = u32::MAX;
/// Ids side by side with one home: new ids of a trace are numbered in order.
const NEIGHBOURS: u32 = 2;
/// Free handles, as one of so many, below which the next one is seldom near the last one.
const FREE_ONE_OF: u32 = 16;
/// Lines between the hint that one will be written and the writing.
const AHEAD: usize = 16;

/// Entries of one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u32; Line::ENTRIES]);

impl Line {
    const ENTRIES: usize = 16;

    /// A bit for each entry that has `value` where `mask` has ones.
    #[inline(always)]
    fn same(&self, mask: u32, value: u32) -> u32 {
        let (quarters, _) = self.0.as_chunks::<4>();
        let (mask, value) = (u32x4::splat(mask), u32x4::splat(value));
        let same = |quarter: [u32; 4]| (u32x4::new(quarter) & mask).simd_eq(value).to_bitmask();
        quarters.iter().rev().fold(0, |bits, &quarter| bits << 4 | same(quarter))
    }

    /// A bit for each entry that is empty.
    #[inline(always)]
    fn room(&self) -> u32 {
        self.same(u32::MAX, EMPTY)
    }
}

/// Which handle an id has.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    /// Entries have handles in the low bits, in the others those of a hash of the id.
    lines: Vec<Line>,
    /// The bits of an entry that are the handle.
    mask: u32,
    ids: Vec<u32>,
    free: Numbers,
    /// How many handles are free.
    left: u32,
    /// The handle that was given last.
    last: Handle,
}

impl Names {
    /// Room for `handles` ids.
    pub(crate) fn new(handles: u32) -> Self {
        let (lines, ids, free) = (Vec::new(), vec![0], Numbers::new(1));
        let mut names = Self { lines, mask: 0, ids, free, left: 0, last: 0 };
        names.grow(handles + 1);
        names
    }

    /// Handles there are.
    pub(crate) fn handles(&self) -> u32 {
        self.ids.len() as u32
    }

    /// Whether few handles are free.
    #[inline]
    pub(crate) fn is_scarce(&self) -> bool {
        self.left < self.handles() / FREE_ONE_OF
    }

    /// Says that `id` will be looked for soon.
    #[inline]
    pub(crate) fn expect(&self, id: u32) {
        prefetch(&self.lines, self.home(id));
    }

    /// Says that `handle` will [leave](Self::leave), but not before its line is
    /// [expected](Self::expect_line).
    #[inline]
    pub(crate) fn expect_id(&self, handle: Handle) {
        prefetch(&self.ids, handle as usize);
    }

    /// Says that `handle`, which has an id, will leave soon.
    #[inline]
    pub(crate) fn expect_line(&self, handle: Handle) {
        self.expect(self.ids[handle as usize]);
    }

    /// The handle of `id`.
    #[inline]
    pub(crate) fn find(&self, id: u32) -> Option<Handle> {
        let tag = self.entry(id, 0);
        let mut at = self.home(id);
        loop {
            let line = &self.lines[at];
            let mut same = line.same(!self.mask, tag);
            while same != 0 {
                let handle = line.0[same.trailing_zeros() as usize] & self.mask;
                // What an empty entry has for a handle has no id.
                if self.ids.get(handle as usize) == Some(&id) {
                    return Some(handle);
                }
                same &= same - 1;
            }
            if line.room() != 0 {
                return None;
            }
            at = self.after(at);
        }
    }

    /// The handle that `id` has if it has one, from the first entry at its home that looks so: most
    /// often right. Says that it will be looked for soon.
    #[inline]
    pub(crate) fn guess(&self, id: u32) -> Option<Handle> {
        let line = &self.lines[self.home(id)];
        let same = line.same(!self.mask, self.entry(id, 0));
        let handle = line.0[same.trailing_zeros() as usize % Line::ENTRIES] & self.mask;
        (same != 0 && handle < self.handles()).then(|| {
            self.expect_id(handle);
            handle
        })
    }

    /// Gives `id`, which has none, a handle. `None` when none is free.
    #[inline]
    pub(crate) fn name(&mut self, id: u32) -> Option<Handle> {
        let handle = self.free.after(self.last).or_else(|| self.free.after(0))?;
        self.free.remove(handle);
        (self.left, self.last) = (self.left - 1, handle);
        self.ids[handle as usize] = id;
        self.enter(id, handle);
        Some(handle)
    }

    /// There are `handles` handles from now on, more than before.
    pub(crate) fn grow(&mut self, handles: u32) {
        let before = self.handles();
        let mut free = Numbers::new(handles as usize);
        (before..handles).for_each(|handle| free.insert(handle));
        self.left += handles - before;
        self.ids.reserve_exact((handles - before) as usize);
        self.ids.resize(handles as usize, 0);
        self.mask = (u64::from(handles) + 1).next_power_of_two() as u32 - 1;
        let lines = (handles as usize * 3 / 2).div_ceil(Line::ENTRIES) + 1;
        // The old table goes before the new one comes: `ids` has all that it says.
        self.lines = Vec::new();
        self.lines = vec![Line([EMPTY; Line::ENTRIES]); lines];
        for handle in 1..before {
            if let Some(&soon) = self.ids[..before as usize].get(handle as usize + AHEAD) {
                self.expect(soon);
            }
            if self.free.remove(handle) {
                free.insert(handle);
            } else {
                self.enter(self.ids[handle as usize], handle);
            }
        }
        self.free = free;
    }

    #[inline]
    fn enter(&mut self, id: u32, handle: Handle) {
        let (mut at, entry) = (self.home(id), self.entry(id, handle));
        loop {
            let room = self.lines[at].room();
            if room != 0 {
                self.lines[at].0[room.trailing_zeros() as usize] = entry;
                return;
            }
            at = self.after(at);
        }
    }

    /// Takes the handle from its id.
    #[inline]
    pub(crate) fn leave(&mut self, handle: Handle) {
        self.free.insert(handle);
        self.left += 1;
        let mut at = self.home(self.ids[handle as usize]);
        loop {
            let line = &mut self.lines[at];
            let room = line.room();
            let same = line.same(self.mask, handle);
            if same != 0 {
                line.0[same.trailing_zeros() as usize] = EMPTY;
                if room == 0 {
                    self.fill(at);
                }
                return;
            }
            assert_eq!(room, 0, "N1: {handle} has an id");
            at = self.after(at);
        }
    }

    /// N4: a line was full and is no longer, so what stands behind it and not at home moves back.
    #[cold]
    fn fill(&mut self, mut hole: usize) {
        let mut at = hole;
        loop {
            at = self.after(at);
            let line = self.lines[at];
            let moves = |&slot: &usize| {
                // It may move back as far as its home, seen from where it stands.
                let home = |entry| self.home(self.ids[(entry & self.mask) as usize]);
                let entry = line.0[slot];
                entry != EMPTY && self.distance(home(entry), at) >= self.distance(hole, at)
            };
            if let Some(slot) = (0..Line::ENTRIES).find(moves) {
                let room = self.lines[hole].room().trailing_zeros() as usize;
                self.lines[hole].0[room] = std::mem::replace(&mut self.lines[at].0[slot], EMPTY);
                hole = at;
            }
            if line.room() != 0 {
                return;
            }
        }
    }

    /// An entry of the table.
    #[inline]
    fn entry(&self, id: u32, handle: Handle) -> u32 {
        id.wrapping_mul(0x85EB_CA6B) & !self.mask | handle
    }

    /// The line of `id` if that is not full.
    #[inline]
    fn home(&self, id: u32) -> usize {
        // Fibonacci hashing (Knuth, The Art of Computer Programming 3, section 6.4).
        let hash = u64::from((id / NEIGHBOURS).wrapping_mul(0x9E37_79B9));
        ((hash * self.lines.len() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, line: usize) -> usize {
        if line + 1 == self.lines.len() { 0 } else { line + 1 }
    }

    /// Steps from one line to another.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.lines.len() - from }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantler_trace::generate::Draws;
    use std::collections::HashMap;

    /// Ids that come, are looked for and leave, beside a map of the standard library.
    #[test]
    fn names_are_those_of_a_map() {
        for seed in 0..50_u64 {
            let mut random = Draws::new(seed);
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
                if names.is_scarce() && draw(8) == 0 {
                    names.grow(names.handles() + 1 + draw(40));
                } else if names.is_scarce() {
                    let kept = draw(4);
                    let leaving = twin.extract_if(|_, handle| *handle % 4 != kept);
                    leaving.for_each(|(_, handle)| names.leave(handle));
                }
                if twin.len() as u32 + 1 == names.handles() {
                    assert_eq!(names.name(id), None, "N2, seed {seed}");
                    continue;
                }
                let handle = names.name(id).expect("a handle is free");
                assert!(twin.values().all(|other| *other != handle), "seed {seed}: {handle} given twice");
                twin.insert(id, handle);
            }
            for (id, handle) in &twin {
                assert_eq!(names.find(*id), Some(*handle), "N1, seed {seed}");
            }
            let free = std::iter::from_fn(|| names.name(u32::MAX - 1 - draw(1 << 20))).count();
            assert_eq!(1 + twin.len() + free, names.handles() as usize, "N2, seed {seed}");
        }
    }
}
