//! Reads of many blocks, as the kernel carries them out: it brings in what is missing, copies a
//! batch of blocks, and tells of all that is left of the read before each batch. The engine works
//! between two batches.

use std::collections::BTreeSet;

use pantler_pagecache::{Answer, Decision, Engine, Event, FileKey, Kind, Options, Origin};
use pantler_steward::{OwnerId, PolicyName};

/// Folios that the kernel looks at together, since Linux 6.8; here each is one block.
const BATCH: u64 = 31;
const FILE: FileKey = FileKey { dev: 1, ino: 7 };

/// A page cache with one file and one reader.
struct Machine {
    engine: Engine,
    file: FileKey,
    cached: BTreeSet<u64>,
    time_ns: u64,
    brought_in: u64,
    /// A batch is told of before what it lacks is brought in, as by probes.
    reads_come_first: bool,
}

impl Machine {
    fn new(budget: u32, policy: PolicyName) -> Machine {
        let mut options = Options::new(budget);
        options.common_policy = policy.spec();
        options.hits_are_watched = true;
        let engine = Engine::new(&options, 1).unwrap();
        Machine {
            engine,
            file: FILE,
            cached: BTreeSet::new(),
            time_ns: 1_000_000_000,
            brought_in: 0,
            reads_come_first: false,
        }
    }

    fn tell(&mut self, kind: Kind, first: u64, last: u64) {
        let origin = Origin::Run { thread: 9, owner: OwnerId(0) };
        let event = Event { time_ns: self.time_ns, kind, origin, file: self.file, first, last };
        if !self.engine.event(&event) {
            self.engine.admit(&event);
        }
    }

    /// Reads these blocks (inclusive). Blocks that were brought in twice for it.
    fn read(&mut self, first: u64, last: u64) -> u64 {
        let (mut at, mut came, mut again) = (first, BTreeSet::new(), 0);
        while at <= last {
            if self.reads_come_first {
                self.tell(Kind::Read, at, last);
            }
            if !self.cached.contains(&at) {
                for block in (at..=last).take_while(|block| !self.cached.contains(block)).collect::<Vec<_>>()
                {
                    self.cached.insert(block);
                    self.brought_in += 1;
                    again += u64::from(!came.insert(block));
                    self.tell(Kind::Added, block, block);
                }
            }
            if !self.reads_come_first {
                self.tell(Kind::Read, at, last);
            }
            let batch = (at..=last).take_while(|block| self.cached.contains(block)).take(BATCH as usize);
            at += batch.count() as u64;
            self.round();
        }
        again
    }

    fn round(&mut self) {
        self.time_ns += 300_000;
        self.engine.begin_round(self.time_ns);
        while let Some(decision) = self.engine.poll() {
            let answer = match decision {
                Decision::Drop { span, .. } => {
                    self.cached.retain(|block| !span.indices().contains(block));
                    Answer::Cached(0)
                }
                _ => Answer::Unreachable,
            };
            self.engine.answer(decision, answer);
        }
        self.engine.validate();
    }
}

/// The same where reads come first.
fn told_by_probes(budget: u32, policy: PolicyName) -> Machine {
    let mut machine = Machine::new(budget, policy);
    machine.engine.reads_come_first();
    machine.reads_come_first = true;
    machine
}

#[test]
fn no_read_brings_a_block_in_twice() {
    let (blocks, budget, passes) = (1024, 512, 3);
    for policy in PolicyName::ALL {
        for request in [3, 32, 256, 1024] {
            for mut machine in [Machine::new, told_by_probes].map(|new| new(budget, policy)) {
                for pass in 0..passes {
                    for first in (0..blocks).step_by(request as usize) {
                        let again = machine.read(first, (first + request).min(blocks) - 1);
                        assert_eq!(again, 0, "{policy:?}, pass {pass}, {request} blocks from {first}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_length_of_reads_does_not_change_what_a_cycle_reads() {
    let (blocks, budget, passes) = (4096, 2048, 5);
    // What MIN misses with all of the budget.
    let least = blocks + (passes - 1) * (blocks - u64::from(budget));
    for request in [1, 16, 32, 256] {
        for mut machine in [Machine::new, told_by_probes].map(|new| new(budget, PolicyName::Mru)) {
            for _ in 0..passes {
                for first in (0..blocks).step_by(request as usize) {
                    machine.read(first, first + request - 1);
                }
            }
            // What is read again has no use of the reserves for drops and readahead.
            let read = machine.brought_in;
            assert!(read <= least * 107 / 100, "{read} blocks by {request}, MIN reads {least}");
            assert!(machine.cached.len() as u64 <= u64::from(budget) + request, "the budget is held");
            assert_eq!(machine.engine.counters().references, passes * blocks);
            assert_eq!((machine.engine.counters().foreign, machine.engine.ledger().ahead_blocks()), (0, 0));
        }
    }
}

#[test]
fn what_an_ended_read_was_about_to_copy_leaves_soon() {
    let mut machine = Machine::new(512, PolicyName::Mru);
    for first in [0, 256] {
        machine.read(first, first + 255);
    }
    // A read that is interrupted: it told of all its blocks, and copies only the first batch.
    (512..768).for_each(|block| {
        machine.cached.insert(block);
        machine.tell(Kind::Added, block, block);
    });
    machine.tell(Kind::Read, 512, 767);
    machine.round();
    assert!((512..768).all(|block| machine.cached.contains(&block)), "the read may go on");
    machine.time_ns += 50_000_000;
    machine.round();
    assert!(machine.cached.len() <= 512, "{} blocks", machine.cached.len());
}

/// A reader asks for more than there is, and the kernel looks at what there is in two batches.
#[test]
fn behind_the_end_of_a_file_of_unknown_size_there_are_no_blocks() {
    let mut machine = Machine::new(512, PolicyName::Lru);
    (0..4).for_each(|block| machine.tell(Kind::Added, block, block));
    machine.tell(Kind::Read, 0, 15);
    machine.tell(Kind::Read, 2, 15);
    assert_eq!(machine.engine.counters().references, 4);
    assert_eq!(machine.engine.counters().foreign, 0);
}

/// Pieces of a file stay, and a read meets a hole: nothing of it is another program's.
#[test]
fn what_is_missing_is_told_of_once_it_came() {
    let mut machine = Machine::new(4096, PolicyName::Lru);
    for pass in 1..=3 {
        machine.read(0, 255);
        let counters = machine.engine.counters();
        assert_eq!((counters.references, counters.foreign), (256 * pass, 0), "pass {pass}");
        for hole in [4..30, 40..41, 100..200] {
            machine.cached.retain(|block| !hole.contains(block));
            machine.tell(Kind::Gone, hole.start, hole.end - 1);
        }
    }
}

/// Blocks of others between ours are no holes: no event comes for them.
#[test]
fn blocks_of_others_are_counted_when_the_read_has_passed_them() {
    let mut machine = Machine::new(4096, PolicyName::Lru);
    (0..64).filter(|block| !(10..20).contains(block)).for_each(|block| {
        machine.cached.insert(block);
        machine.tell(Kind::Added, block, block);
    });
    machine.cached.extend(10..20);
    machine.read(0, 63);
    let counters = machine.engine.counters();
    assert_eq!((counters.references, counters.foreign), (64, 10));
}

/// The last blocks of a read, read again and again, are referenced each time.
#[test]
fn the_end_of_a_read_again_is_another_read() {
    let mut machine = Machine::new(512, PolicyName::Lru);
    machine.read(0, 7);
    for again in 1..=5 {
        machine.read(6, 7);
        let references = machine.engine.counters().references;
        assert!(references + 2 >= 8 + 2 * again, "{references} after {again} reads more");
    }
}

/// A program asks for more than there is in small files: their blocks are not held for a read that
/// has ended.
#[test]
fn nothing_is_held_behind_the_end_of_a_file() {
    let mut machine = Machine::new(512, PolicyName::Mru);
    machine.read(0, 479);
    for file in 2..40 {
        machine.file = FileKey { dev: 1, ino: file };
        machine.cached.clear();
        (0..8).for_each(|block| machine.tell(Kind::Added, block, block));
        machine.tell(Kind::Read, 0, 31);
        machine.round();
    }
    machine.time_ns += 5_000_000;
    machine.round();
    let cached = machine.engine.ledger().cached_blocks();
    assert!(cached <= 512, "{cached} blocks");
    assert_eq!(machine.engine.steward().capacity(), machine.engine.capacity(), "nothing is lent");
}
