//! While nothing has to be decided, references to cached blocks are not watched, and those that are
//! told all the same do not count twice.

use pantler_pagecache::{Answer, Decision, Engine, Event, FileKey, Kind, Options, Origin};
use pantler_steward::OwnerId;

fn tell(engine: &mut Engine, kind: Kind, block: u64) {
    let origin = Origin::Run { thread: 3, owner: OwnerId(0) };
    let file = FileKey { dev: 1, ino: 1 };
    let event = Event { time_ns: block, kind, origin, file, first: block, last: block };
    if !engine.event(&event) {
        engine.admit(&event);
    }
}

#[test]
fn a_block_counts_once_when_it_comes() {
    let mut engine = Engine::new(&Options::new(1000), 1).unwrap();
    for block in 0..100 {
        tell(&mut engine, Kind::Added, block);
        tell(&mut engine, Kind::Read, block);
    }
    assert!(engine.is_calm());
    assert_eq!(engine.counters().references, 100);
    // Half of the capacity is used: from here on both count.
    for block in 100..500 {
        tell(&mut engine, Kind::Added, block);
    }
    assert!(engine.wants_hits());
    engine.watch_hits();
    tell(&mut engine, Kind::Read, 7);
    assert_eq!(engine.counters().references, 501);
    engine.validate();
}

/// Whether a round takes the readahead of a file over, which is four times as large as the budget.
fn takes_over(engine: &mut Engine, now_ns: u64) -> bool {
    engine.begin_round(now_ns);
    let mut takes_over = false;
    while let Some(decision) = engine.poll() {
        let answer = match decision {
            Decision::Find { .. } => Answer::Found { size_blocks: 4000 },
            Decision::TakeOver { .. } => Answer::Done,
            _ => Answer::Unreachable,
        };
        takes_over |= matches!(decision, Decision::TakeOver { .. });
        engine.answer(decision, answer);
    }
    takes_over
}

#[test]
fn a_file_whose_readahead_is_taken_over_has_its_reads_watched() {
    let mut engine = Engine::new(&Options::new(1000), 1).unwrap();
    let mut block = 0;
    while !takes_over(&mut engine, block) {
        assert!(engine.is_calm());
        tell(&mut engine, Kind::Added, block);
        block += 1;
    }
    assert!(engine.wants_hits() && block < 500, "else nothing reads ahead from block {block} on");
}
