//! While nothing has to be decided, references to cached blocks are not watched, and those that are
//! told all the same do not count twice.

use pantler_pagecache::{Engine, Event, FileKey, Kind, Options, Origin};
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
