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
//!     taken are not counted. At that bound the ranges of the file with most of them become one:
//!     what lies between them is dropped, too, and read again when it is asked for.
//! E4  A file that the kernel does not know any more has none.
//! E5  A file has one place in the order: the one of its oldest range, whatever was forgotten.
//!
//! Why so: docs/decisions/0168-what-is-to-leave-has-a-bound.md.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard};

/// Ranges that are kept apart: what is 4 GiB in blocks of 64 KiB. They take about 2 MiB beside the
/// cache, and as much again what was taken.
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
    /// With the places of files in the order in which they came.
    files: BTreeMap<u64, (u64, Ranges)>,
    order: BTreeMap<u64, u64>,
    /// Files by the number of their ranges.
    sizes: BTreeSet<(usize, u64)>,
    ranges: usize,
    /// Places that were given to files.
    places: u64,
    is_ending: bool,
    /// Whether the thread that drops waits.
    is_idle: bool,
}

impl State {
    fn add(&mut self, file: u64, bytes: Range<u64>) {
        self.change(file, |ranges| ranges.add(bytes));
        if self.ranges > RANGES_MAX
            && let Some(&(count, largest)) = self.sizes.last()
            && count > 1
        {
            self.change(largest, Ranges::join);
        }
    }

    /// Changes the ranges of a file, which has some afterwards.
    fn change(&mut self, file: u64, change: impl FnOnce(&mut Ranges)) {
        let (_, ranges) = self.files.entry(file).or_insert_with(|| {
            self.places += 1;
            self.order.insert(self.places, file);
            (self.places, Ranges::default())
        });
        let before = ranges.0.len();
        change(ranges);
        let after = ranges.0.len();
        if after != before {
            self.sizes.remove(&(before, file));
            self.sizes.insert((after, file));
            self.ranges = self.ranges - before + after;
        }
    }

    fn remove(&mut self, file: u64) -> Option<Ranges> {
        let (place, ranges) = self.files.remove(&file)?;
        self.order.remove(&place);
        self.sizes.remove(&(ranges.0.len(), file));
        self.ranges -= ranges.0.len();
        Some(ranges)
    }

    fn take(&mut self) -> Option<(u64, Ranges)> {
        let (_, &file) = self.order.first_key_value()?;
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
        self.lock().remove(file);
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
        // The number is another file's now, which comes after those that wait.
        left.forget(7);
        left.add(7, 4..8);
        left.end();
        let next = || {
            left.take().map(|(file, ranges)| (file, ranges.map(|bytes| (bytes.start, bytes.end)).collect()))
        };
        assert_eq!(next(), Some((3, vec![(4, 12)])));
        assert_eq!(next(), Some((7, vec![(4, 8)])), "E5");
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
                let count: usize = state.files.values().map(|(_, ranges)| ranges.0.len()).sum();
                assert_eq!(state.ranges, count);
                let sizes = state.files.iter().map(|(&file, (_, ranges))| (ranges.0.len(), file));
                assert_eq!(state.sizes, sizes.collect());
                assert!(count <= RANGES_MAX + state.files.len(), "E3: {count}");
                let order = state.files.iter().map(|(&file, &(place, _))| (place, file));
                assert_eq!(state.order, order.collect(), "E5");
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

    #[test]
    fn at_the_bound_the_file_with_most_ranges_pays_whichever_is_added_to() {
        let left = Left::default();
        let large = RANGES_MAX as u64 - 1;
        (0..large).for_each(|block| left.add(1, 3 * block..3 * block + 1));
        left.add(2, 0..1);
        left.add(2, 9..10);
        let taken = all(&left);
        assert_eq!(taken[&1], vec![0..3 * large - 2; 1], "E3");
        assert_eq!(taken[&2], [0..1, 9..10]);
    }

    #[test]
    fn what_several_threads_add_while_one_takes_is_taken_once() {
        let left = Left::default();
        let mut taken = BTreeSet::new();
        std::thread::scope(|scope| {
            let adding: Vec<_> = (0..4)
                .map(|file| {
                    let left = &left;
                    scope.spawn(move || (0..5000).for_each(|byte| left.add(file, byte..byte + 1)))
                })
                .collect();
            scope.spawn(|| {
                adding.into_iter().for_each(|thread| thread.join().unwrap());
                left.end();
            });
            while let Some((file, ranges)) = left.take() {
                for byte in ranges.flatten() {
                    assert!(taken.insert((file, byte)), "{byte} of {file} is taken again");
                }
            }
        });
        assert_eq!(taken.len(), 4 * 5000, "E1");
    }
}
