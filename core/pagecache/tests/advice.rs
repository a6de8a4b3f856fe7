//! Advice of programs, as events of a page cache that heeds it.

use std::collections::BTreeSet;
use std::ops::Range;

use pantler_pagecache::{Advice, Answer, Bytes, Decision, Engine, Event, FileKey, Kind, Options, Origin};
use pantler_steward::{OwnerId, PolicyName};
use proptest::prelude::*;

const BLOCK: u64 = 4096;
/// Blocks of each file.
const SIZE: u64 = 2048;

/// A page cache without readahead of its own, each owner with one thread and one file.
struct Machine {
    engine: Engine,
    cached: BTreeSet<(u64, u64)>,
    brought_in: [u64; 2],
    time_ns: u64,
}

impl Machine {
    fn new(budget: u32, policy: PolicyName) -> Machine {
        let mut options = Options::new(budget);
        options.hits_are_watched = true;
        options.common_policy = policy.spec();
        let engine = Engine::new(&options, 1).expect("options in range");
        Machine { engine, cached: BTreeSet::new(), brought_in: [0; 2], time_ns: 1 }
    }

    fn tell(&mut self, owner: u64, kind: Kind, first: u64, last: u64) {
        let origin = Origin::Run { thread: owner as u32 + 7, owner: OwnerId(owner) };
        let file = FileKey { dev: 1, ino: owner };
        let event = Event { time_ns: self.time_ns, kind, origin, file, first, last };
        if !self.engine.event(&event) {
            let number = self.engine.admit(&event).expect("a place");
            self.engine.set_size(number, SIZE);
        }
    }

    fn bring(&mut self, owner: u64, block: u64) {
        if self.cached.insert((owner, block)) {
            self.brought_in[owner as usize] += 1;
            self.tell(owner, Kind::Added, block, block);
        }
    }

    fn read(&mut self, owner: u64, block: u64) {
        self.bring(owner, block);
        self.tell(owner, Kind::Read, block, block);
        self.round();
    }

    fn advise(&mut self, owner: u64, advice: Advice) {
        let file = self.number(owner);
        self.engine.advise(owner as u32 + 7, OwnerId(owner), file, advice, SIZE * BLOCK);
        match advice {
            Advice::WillNeed(bytes) => {
                bytes.touched(BLOCK, SIZE * BLOCK).for_each(|at| self.bring(owner, at))
            }
            Advice::DoneWith(bytes) => {
                for block in bytes.whole(BLOCK, SIZE * BLOCK) {
                    if self.cached.remove(&(owner, block)) {
                        self.tell(owner, Kind::Gone, block, block);
                    }
                }
            }
            _ => {}
        }
        self.round();
    }

    fn number(&mut self, owner: u64) -> u32 {
        let number = self.engine.admit_file(FileKey { dev: 1, ino: owner }).expect("a place");
        self.engine.set_size(number, SIZE);
        number
    }

    fn round(&mut self) {
        self.time_ns += 3_000_000;
        self.engine.begin_round(self.time_ns);
        while let Some(decision) = self.engine.poll() {
            let answer = match decision {
                Decision::Drop { span, .. } => {
                    let owner = self.engine.file(span.file).key.ino;
                    self.cached.retain(|(of, block)| *of != owner || !span.indices().contains(block));
                    Answer::Cached(0)
                }
                _ => Answer::Unreachable,
            };
            self.engine.answer(decision, answer);
        }
        self.engine.validate();
    }

    fn is_cached(&self, owner: u64, blocks: Range<u64>) -> bool {
        blocks.into_iter().all(|block| self.cached.contains(&(owner, block)))
    }
}

fn bytes(blocks: Range<u64>) -> Bytes {
    Bytes { first: blocks.start * BLOCK, end: blocks.end * BLOCK }
}

/// A reader of a long file that is done with each block, beside one that comes back to what it has.
#[test]
fn a_reader_that_reads_once_leaves_the_frames_of_others() {
    let misses = |advice: Option<Advice>| {
        let mut machine = Machine::new(256, PolicyName::Lru);
        if let Some(advice) = advice {
            machine.advise(1, advice);
        }
        for turn in 0..4 {
            (0..128).for_each(|block| machine.read(0, block));
            (0..512).for_each(|block| machine.read(1, turn * 512 + block));
        }
        machine.brought_in
    };
    assert_eq!(misses(None), [4 * 128, 2048]);
    assert_eq!(misses(Some(Advice::ReadOnce)), [128, 2048]);
    assert_eq!(misses(Some(Advice::Normal)), [4 * 128, 2048]);
}

#[test]
fn what_is_done_with_and_stays_leaves_first() {
    let mut machine = Machine::new(256, PolicyName::Lru);
    (0..100).for_each(|block| machine.read(0, block));
    let file = machine.number(0);
    // Pages that are mapped or dirty stay: the kernel tells of none.
    let done = Advice::DoneWith(bytes(50..100));
    machine.engine.advise(7, OwnerId(0), file, done, SIZE * BLOCK);
    assert!(machine.is_cached(0, 0..100));
    // Of the budget the places for drops and readahead are left out.
    (100..220).for_each(|block| machine.read(0, block));
    assert!(machine.is_cached(0, 0..50) && machine.is_cached(0, 100..220), "those that are needed");
    assert!(!machine.is_cached(0, 60..100), "{:?}", machine.engine.counters());
}

/// MRU would evict what has just come, and the program is about to read it.
#[test]
fn what_was_asked_for_is_there_when_it_is_read() {
    let mut machine = Machine::new(256, PolicyName::Mru);
    (0..600).for_each(|block| machine.read(0, block));
    for first in (1000..1600).step_by(40) {
        machine.advise(0, Advice::WillNeed(bytes(first..first + 40)));
        assert!(machine.is_cached(0, first..first + 40), "{first}");
        let before = machine.brought_in[0];
        (first..first + 40).for_each(|block| machine.read(0, block));
        assert_eq!(machine.brought_in[0], before, "{first}");
    }
    let totals = machine.engine.steward().totals();
    assert_eq!((totals.hits, totals.ahead_used), (0, 600), "asking is no reference");
}

/// What a hint or a profile said holds on.
#[test]
fn an_owner_with_hints_keeps_its_order() {
    let mut machine = Machine::new(256, PolicyName::Lru);
    machine.engine.tell(|steward| steward.set_policy(OwnerId(0), 0, PolicyName::Mru)).expect("a hint");
    machine.advise(0, Advice::ReadOnce);
    for _ in 0..4 {
        (0..400).for_each(|block| machine.read(0, block));
    }
    assert!(machine.brought_in[0] < 1200, "{}: MRU keeps a part of the cycle", machine.brought_in[0]);
}

fn advice() -> impl Strategy<Value = Advice> {
    let part = || (0..300u64, 0..60u64).prop_map(|(first, count)| bytes(first..first + count));
    prop_oneof![
        Just(Advice::Normal),
        Just(Advice::Random),
        Just(Advice::Sequential),
        Just(Advice::ReadOnce),
        part().prop_map(Advice::WillNeed),
        part().prop_map(Advice::DoneWith),
    ]
}

proptest! {
    /// `validate` after each step: whatever is advised, ledger and steward believe the same.
    #[test]
    fn whatever_is_advised_beliefs_agree(
        steps in prop::collection::vec((0..2u64, prop::option::of(advice()), 0..300u64), 1..300),
    ) {
        let mut machine = Machine::new(160, PolicyName::Mru);
        for (owner, advice, block) in steps {
            match advice {
                Some(advice) => machine.advise(owner, advice),
                None => machine.read(owner, block),
            }
        }
    }
}
