//! Bytes whose blocks left their frames, until the kernel has dropped their pages (K3 of the
//! cache's `lending`).
//!
//! What leaves is named under the lock of the frames, where nothing may wait, and dropping waits
//! for reads of the same pages. So while an origin does not answer more and more is left.
//!
//! ```text
//!   block 3 left      block 4 left      block 9 left            more than RANGES_MAX in all
//!     |                 |                 |                       |
//!     v                 v                 v                       v
//!   [3]        ->     [3  4]     ->     [3  4]  [9]      ->     [3  4  5  6  7  8  9]
//! ```
//!
//! E1  What was added is taken, as part of some range.
//! E2  Ranges of a file lie apart.
//! E3  There are at most [`RANGES_MAX`] ranges, and one for each further file; those that were
//!     taken are not counted. At that bound the ranges of the file that is added to become one:
//!     what lies between them is dropped, too, and read again when it is asked for.
//! E4  A file that the kernel does not know any more has none.
//!
//! Why so: docs/decisions/0168-what-is-to-leave-has-a-bound.md.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard};

/// Ranges that are kept apart: 1 MiB for bookkeeping of what is 4 GiB in blocks of 64 KiB.
pub(crate) const RANGES_MAX: usize = if cfg!(test) { 64 } else { 65_536 };

/// Ranges of one file by their starts, with their ends (E2).
#[derive(Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds a range, which takes up those that it touches.
    fn add(&mut self, mut range: Range<u64>) {
        // From the last one that begins before it: those further back end before that begins.
        while let Some((&start, &end)) = self.0.range(..=range.end).next_back()
            && end >= range.start
        {
            self.0.remove(&start);
            range = range.start.min(start)..range.end.max(end);
        }
        self.0.insert(range.start, range.end);
    }

    /// Makes one of all (E3).
    fn join(&mut self) {
        let ends = (self.0.first_key_value(), self.0.last_key_value());
        if let (Some((&start, _)), Some((_, &end))) = ends {
            self.0 = BTreeMap::from([(start, end)]);
        }
    }
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<u64, Ranges>,
    /// The same files, in the order in which they came.
    order: VecDeque<u64>,
    ranges: usize,
    is_ending: bool,
    /// Whether the thread that drops waits.
    is_idle: bool,
}

impl State {
    fn add(&mut self, file: u64, bytes: Range<u64>) {
        let ranges = match self.files.entry(file) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                self.order.push_back(file);
                new.insert(Ranges::default())
            }
        };
        let before = ranges.0.len();
        ranges.add(bytes);
        self.ranges = self.ranges - before + ranges.0.len();
        if self.ranges > RANGES_MAX {
            self.ranges -= ranges.0.len() - 1;
            ranges.join();
        }
    }

    fn remove(&mut self, file: u64) -> Option<Ranges> {
        let ranges = self.files.remove(&file)?;
        self.ranges -= ranges.0.len();
        Some(ranges)
    }

    fn take(&mut self) -> Option<(u64, Ranges)> {
        let file = self.order.pop_front()?;
        Some((file, self.remove(file)?))
    }
}

/// What is left to drop.
#[derive(Debug, Default)]
pub(crate) struct Left {
    state: Mutex<State>,
    more: Condvar,
}

impl Left {
    /// Bytes of a file that are to be dropped. Waits for nothing.
    pub(crate) fn add(&self, file: u64, bytes: Range<u64>) {
        let mut state = self.lock();
        state.add(file, bytes);
        if std::mem::take(&mut state.is_idle) {
            self.more.notify_one();
        }
    }

    /// The kernel knows a file no more, and has no page of it (E4).
    pub(crate) fn forget(&self, file: u64) {
        let mut state = self.lock();
        if state.remove(file).is_some() {
            state.order.retain(|known| *known != file);
        }
    }

    /// All that is to be dropped of the file that waits for it longest, once there is one. Nothing
    /// at the end, after all that was added.
    pub(crate) fn take(&self) -> Option<(u64, impl Iterator<Item = Range<u64>> + use<>)> {
        let mut state = self.lock();
        loop {
            if let Some((file, ranges)) = state.take() {
                return Some((file, ranges.0.into_iter().map(|(start, end)| start..end)));
            }
            if state.is_ending {
                return None;
            }
            state.is_idle = true;
            state = self.more.wait(state).expect("nothing panics under it");
        }
    }

    /// Nothing comes any more.
    pub(crate) fn end(&self) {
        self.lock().is_ending = true;
        self.more.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantler_policy::Draws;
    use std::collections::{BTreeSet, HashMap};

    fn all(left: &Left) -> HashMap<u64, Vec<Range<u64>>> {
        left.end();
        std::iter::from_fn(|| left.take()).map(|(file, ranges)| (file, ranges.collect())).collect()
    }

    #[test]
    fn ranges_side_by_side_are_one_and_files_come_in_their_order() {
        let left = Left::default();
        for (file, bytes) in [(7, 0..4), (3, 8..12), (7, 8..12), (3, 4..8), (7, 4..8), (5, 1..2)] {
            left.add(file, bytes);
        }
        left.forget(5);
        left.end();
        let next = || {
            left.take().map(|(file, ranges)| (file, ranges.map(|bytes| (bytes.start, bytes.end)).collect()))
        };
        assert_eq!(next(), Some((7, vec![(0, 12)])));
        assert_eq!(next(), Some((3, vec![(4, 12)])));
        assert_eq!(next(), None, "E4");
    }

    /// The twin is a set of bytes for each file.
    #[test]
    fn what_is_taken_is_what_was_added_and_between_that_at_the_bound_alone() {
        for seed in 0..200 {
            let (left, mut draws) = (Left::default(), Draws::new(seed));
            let mut twin: HashMap<u64, BTreeSet<u64>> = HashMap::new();
            let files = 1 + draws.below(100);
            let mut was_full = false;
            for _ in 0..draws.below(400) {
                let (file, start) = (draws.below(files), draws.below(500));
                let bytes = start..start + 1 + draws.below(5);
                left.add(file, bytes.clone());
                twin.entry(file).or_default().extend(bytes);
                if draws.below(50) == 0 {
                    let forgotten = draws.below(files);
                    left.forget(forgotten);
                    twin.remove(&forgotten);
                }
                let state = left.lock();
                let count: usize = state.files.values().map(|ranges| ranges.0.len()).sum();
                assert_eq!(state.ranges, count);
                assert!(count <= RANGES_MAX + state.files.len(), "E3: {count}");
                assert_eq!(state.order.len(), state.files.len(), "E4");
                was_full |= count >= RANGES_MAX;
            }
            let taken = all(&left);
            assert_eq!(taken.len(), twin.len());
            for (file, bytes) in twin {
                let ranges = &taken[&file];
                assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start), "E2");
                let taken: BTreeSet<u64> = ranges.iter().cloned().flatten().collect();
                assert!(taken.is_superset(&bytes), "E1");
                assert!(was_full || taken == bytes, "seed {seed}");
                let hull = *bytes.first().unwrap()..=*bytes.last().unwrap();
                assert!(taken.iter().all(|byte| hull.contains(byte)), "E3");
            }
        }
    }

    #[test]
    fn while_nothing_can_be_dropped_one_file_takes_no_more_than_the_bound() {
        let left = Left::default();
        for block in 0..10_000 {
            left.add(1, 3 * block..3 * block + 1);
            assert!(left.lock().ranges <= RANGES_MAX, "E3");
        }
        for file in 2..1000 {
            left.add(file, 0..1);
        }
        assert!(left.lock().ranges <= RANGES_MAX + 1000, "E3");
        assert_eq!(all(&left).len(), 999, "E1");
    }
}
