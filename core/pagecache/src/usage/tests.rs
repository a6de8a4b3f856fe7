//! Counting against a twin, and what each kind of event means.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

const FILE: FileKey = FileKey { dev: 1, ino: 9 };

fn owner_of(thread: u32) -> OwnerId {
    OwnerId(u64::from(thread / 10))
}

fn told(thread: u32, kind: Kind, file: FileKey, first: u64, last: u64) -> Event {
    let origin = Origin::Run { thread, owner: owner_of(thread) };
    Event { time_ns: 0, kind, origin, file, first, last }
}

/// What one thread did with `FILE` of `end` blocks, as references, misses, blocks brought in and
/// faults.
fn counted(end: u64, events: &[(Kind, u64, u64)]) -> (u64, u64, u64, u64) {
    let mut usage = Usage::default();
    usage.set_end(FILE, Some(end));
    for &(kind, first, last) in events {
        usage.event(&told(1, kind, FILE, first, last));
        usage.fresh.validate();
    }
    let counts = usage.report().owners.first().map_or(Counts::default(), |owner| owner.1);
    (counts.references, counts.misses, counts.brought_in, counts.faults)
}

use Kind::{Added, Fault as Faulted, Gone, Mapped, Read as Looked};

#[test]
fn what_is_read_ahead_is_a_miss_once() {
    let first = [(Added, 0, 3), (Looked, 0, 0), (Looked, 1, 1), (Added, 4, 7), (Looked, 2, 7)];
    assert_eq!(counted(8, &first), (8, 8, 8, 0));
    let again = [&first[..], &[(Looked, 0, 7)]].concat();
    assert_eq!(counted(8, &again), (16, 8, 8, 0));
    let evicted = [&first[..], &[(Gone, 0, 7), (Added, 0, 7), (Looked, 0, 7)]].concat();
    assert_eq!(counted(8, &evicted), (16, 16, 16, 0));
}

#[test]
fn what_was_cached_before_is_hit_up_to_the_end_of_the_file() {
    assert_eq!(counted(4, &[(Looked, 0, 31)]), (4, 0, 0, 0));
    assert_eq!(counted(4, &[(Looked, 0, 31), (Looked, 0, 31)]), (8, 0, 0, 0));
}

#[test]
fn a_long_read_is_one_read() {
    let batches = [(Added, 0, 31), (Looked, 0, 99), (Added, 32, 99), (Looked, 31, 99), (Looked, 62, 99)];
    assert_eq!(counted(100, &batches), (100, 100, 100, 0));
    let two = [(Looked, 0, 9), (Looked, 10, 19), (Looked, 10, 19)];
    assert_eq!(counted(100, &two), (30, 0, 0, 0));
}

#[test]
fn without_the_end_of_a_file_only_what_is_sure_counts() {
    let mut usage = Usage::default();
    assert!(usage.wants_end(&told(1, Looked, FILE, 0, 31)));
    usage.set_end(FILE, None);
    assert!(!usage.wants_end(&told(1, Looked, FILE, 0, 31)), "asked for in vain");
    usage.event(&told(1, Added, FILE, 0, 2));
    usage.event(&told(1, Looked, FILE, 0, 31));
    usage.event(&told(1, Looked, FILE, 8, 39));
    let report = usage.report();
    assert_eq!((report.files[0].1.references, report.endless_reads), (4, 2));
    assert!(usage.wants_end(&told(1, Looked, FILE, 0, 31)), "once for each report");
    usage.set_end(FILE, Some(9));
    assert!(!usage.wants_end(&told(1, Looked, FILE, 0, 31)));
    usage.event(&told(1, Gone, FILE, 8, 8));
    assert!(usage.wants_end(&told(1, Looked, FILE, 0, 31)), "it may have been cut");
    assert!(!usage.wants_end(&told(1, Added, FILE, 0, 31)), "no reference");
}

#[test]
fn a_block_that_was_written_is_hit_and_was_not_read() {
    let mut usage = Usage::default();
    usage.set_end(FILE, Some(3));
    for block in 0..3 {
        usage.event(&told(1, Added, FILE, block, block));
        usage.written(OwnerId(0), 1, if block == 1 { 77 } else { FILE.ino }, block);
    }
    usage.event(&told(20, Looked, FILE, 0, 2));
    let by_owner: BTreeMap<_, _> = usage.report().owners.into_iter().collect();
    assert_eq!(by_owner[&OwnerId(0)].brought_in, 1, "another file was written");
    assert_eq!((by_owner[&OwnerId(2)].hits(), by_owner[&OwnerId(2)].misses), (2, 1));
}

#[test]
fn a_page_fault_is_one_with_all_of_its_events() {
    let miss = [(Mapped, 0, 15), (Faulted, 7, 7), (Added, 0, 15), (Mapped, 0, 15)];
    assert_eq!(counted(99, &miss), (0, 0, 16, 1));
    assert_eq!(counted(99, &[(Mapped, 0, 15), (Mapped, 0, 15), (Mapped, 16, 31)]), (0, 0, 0, 3));
    assert_eq!(counted(99, &[(Faulted, 1, 1), (Faulted, 2, 2)]), (0, 0, 0, 2));
    let read = [&miss[..], &[(Looked, 0, 15)]].concat();
    assert_eq!(counted(99, &read), (16, 0, 16, 1), "used by the mapping before");
}

#[test]
fn two_readers_are_told_apart_and_one_of_them_misses() {
    let mut usage = Usage::default();
    usage.set_end(FILE, Some(8));
    for (thread, kind) in [(10, Added), (10, Looked), (20, Looked)] {
        usage.event(&told(thread, kind, FILE, 0, 7));
    }
    let by_owner: BTreeMap<_, _> = usage.report().owners.into_iter().collect();
    assert_eq!((by_owner[&OwnerId(1)].misses, by_owner[&OwnerId(2)].misses), (8, 0));
    assert_eq!(by_owner[&OwnerId(2)].hit_ratio(), Some(1.0));
}

#[test]
fn probes_tell_of_a_read_before_what_it_brings_in() {
    let mut usage = Usage::default();
    usage.reads_come_first();
    usage.set_end(FILE, Some(16));
    for _ in 0..2 {
        let read = [(Looked, 0, 3), (Added, 0, 7), (Looked, 4, 7), (Gone, 0, 7)];
        read.iter().for_each(|&(kind, first, last)| usage.event(&told(1, kind, FILE, first, last)));
    }
    let counts = usage.report().files[0].1;
    assert_eq!((counts.references, counts.misses), (16, 16));
}

/// Everything by block, without bounds and chunks.
#[derive(Default)]
struct Twin {
    fresh: BTreeSet<(FileKey, u64)>,
    ends: BTreeMap<FileKey, u64>,
    reads: BTreeMap<u32, (FileKey, u64, u64)>,
    added: BTreeMap<u32, (FileKey, u64, u64)>,
    owners: BTreeMap<OwnerId, Counts>,
    files: BTreeMap<FileKey, Counts>,
}

impl Twin {
    fn both(&mut self, owner: OwnerId, file: FileKey, change: impl Fn(&mut Counts)) {
        change(self.owners.entry(owner).or_default());
        change(self.files.entry(file).or_default());
    }

    fn event(&mut self, event: &Event) {
        let Event { kind, file, first, last, origin: Origin::Run { thread, owner }, .. } = *event else {
            return;
        };
        let end = self.ends.entry(file).or_default();
        match kind {
            Looked => {
                let goes_on = self.reads.insert(thread, (file, first, last)).is_some_and(|before| {
                    (before.0, before.2) == (file, last) && before.1 < first && first <= last
                });
                *end = (*end).max(first + 1);
                for block in (first..=last).filter(|block| block < end).collect::<Vec<_>>() {
                    let misses = u64::from(self.fresh.remove(&(file, block)));
                    self.both(owner, file, |counts| {
                        counts.references += u64::from(!goes_on);
                        counts.misses += misses;
                    });
                }
            }
            Added => {
                if first >= *end {
                    *end = last + 1;
                }
                self.added.insert(thread, (file, first, last));
                for block in first..=last {
                    self.fresh.insert((file, block));
                    self.both(owner, file, |counts| counts.brought_in += 1);
                }
            }
            Gone => {
                if last + 1 >= *end {
                    *end = (*end).min(first);
                }
                self.fresh.retain(|&(of, block)| of != file || !(first..=last).contains(&block));
            }
            Faulted | Mapped => {
                self.fresh.retain(|&(of, block)| of != file || !(first..=last).contains(&block));
            }
        }
    }

    fn written(&mut self, owner: OwnerId, thread: u32, ino: u64, block: u64) {
        let Some(&(file, first, last)) = self.added.get(&thread) else { return };
        if file.ino == ino && (first..=last).contains(&block) {
            self.added.remove(&thread);
            for block in first..=last {
                self.fresh.remove(&(file, block));
                self.both(owner, file, |counts| counts.brought_in -= 1);
            }
        }
    }
}

/// A write stands for none of the kinds.
fn steps() -> impl Strategy<Value = Vec<(u32, Option<Kind>, u64, u64, u64)>> {
    let kind = prop::sample::select(std::vec![
        None,
        Some(Looked),
        Some(Looked),
        Some(Added),
        Some(Gone),
        Some(Faulted),
        Some(Mapped)
    ]);
    prop::collection::vec((0u32..4, kind, 0u64..3, 500u64..530, 0u64..20), 1..200)
}

fn play(usage: &mut Usage, twin: &mut Twin, steps: &[(u32, Option<Kind>, u64, u64, u64)]) {
    for &(thread, kind, ino, first, more) in steps {
        let (thread, file) = (10 * thread, FileKey { dev: 1, ino });
        let Some(kind) = kind else {
            usage.written(owner_of(thread), thread, ino, first);
            twin.written(owner_of(thread), thread, ino, first);
            continue;
        };
        let event = told(thread, kind, file, first, first + more);
        usage.event(&event);
        twin.event(&event);
        usage.fresh.validate();
    }
}

fn total<K>(counts: &[(K, Counts)], other: Counts) -> Counts {
    counts.iter().fold(other, |mut sum, one| {
        sum += one.1;
        sum
    })
}

proptest! {
    #[test]
    fn as_a_twin_that_counts_block_by_block(steps in steps()) {
        let (mut usage, mut twin) = (Usage::default(), Twin::default());
        play(&mut usage, &mut twin, &steps);
        let report = usage.report();
        prop_assert_eq!(total(&report.owners, report.other_owners), total(&report.files, report.other_files), "U1");
        let without_faults = |counts: Counts| Counts { faults: 0, ..counts };
        for (owner, counts) in report.owners {
            prop_assert_eq!(without_faults(counts), twin.owners.remove(&owner).unwrap_or_default());
        }
        for (file, counts) in report.files {
            prop_assert_eq!(without_faults(counts), twin.files.remove(&file).unwrap_or_default());
        }
        prop_assert!(twin.owners.into_values().chain(twin.files.into_values()).all(|left| left == Counts::default()));
    }

    /// With little to remember references may be told of other owners, never be lost; a miss may
    /// be taken for a hit only if its block was forgotten.
    #[test]
    fn bounds_hold_and_what_is_beyond_is_told(steps in steps()) {
        let steps: Vec<_> = steps.into_iter().filter(|step| step.1.is_some()).collect();
        let bounds = Bounds { owners: 2, files: 2, chunks: 2, ..Bounds::default() };
        let (mut usage, mut full) = (Usage::new(bounds), Usage::default());
        for ino in 0..3 {
            full.set_end(FileKey { dev: 1, ino }, Some(1000));
        }
        for &(thread, kind, ino, first, more) in &steps {
            let file = FileKey { dev: 1, ino };
            let event = told(10 * thread, kind.expect("kept"), file, first, first + more);
            usage.set_end(file, Some(1000));
            usage.event(&event);
            full.event(&event);
            usage.fresh.validate();
            prop_assert!(usage.owners.len() <= 2 && usage.files.len() <= 2 && usage.numbers.len() <= 2, "U2");
        }
        let (bounded, full) = (usage.report(), full.report());
        let by_owner = total(&bounded.owners, bounded.other_owners);
        prop_assert_eq!(by_owner, total(&bounded.files, bounded.other_files), "U1");
        let full = total(&full.owners, full.other_owners);
        prop_assert_eq!(by_owner.references, full.references);
        prop_assert_eq!((by_owner.brought_in, by_owner.faults), (full.brought_in, full.faults));
        prop_assert!(by_owner.misses <= full.misses && full.misses <= by_owner.misses + bounded.forgotten);
    }
}
