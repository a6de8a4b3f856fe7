//! What the kernel tells of mapped files: of large folios a part.

use pantler_pagecache::{Engine, Event, FileKey, Kind, Options, Origin};
use pantler_steward::OwnerId;

fn tell(engine: &mut Engine, kind: Kind, first: u64, last: u64) {
    let origin = Origin::Run { thread: 3, owner: OwnerId(0) };
    let file = FileKey { dev: 1, ino: 1 };
    let event = Event { time_ns: 1 + first, kind, origin, file, first, last };
    if !engine.event(&event) {
        engine.admit(&event);
    }
    engine.validate();
}

fn engine() -> Engine {
    let mut options = Options::new(10_000);
    options.hits_are_watched = true;
    Engine::new(&options, 1).unwrap()
}

/// Linux 6.18 maps a large folio whole, and tells of 16 pages; before, it told of each 16.
#[test]
fn a_large_folio_is_mapped_once() {
    for tells_of_all in [false, true] {
        let mut engine = engine();
        for folio in 0..4 {
            tell(&mut engine, Kind::Added, 64 * folio, 64 * folio + 63);
            let parts = if tells_of_all { 4 } else { 1 };
            for part in 0..parts {
                let first = 64 * folio + 16 * part;
                tell(&mut engine, Kind::Mapped, first, first + 15);
            }
            assert_eq!(engine.counters().references, 64 * (folio + 1));
        }
        assert_eq!(engine.ledger().ahead_blocks(), 0, "all of them are the steward's");
        // Pages that were used before count as far as the kernel tells of them.
        tell(&mut engine, Kind::Mapped, 0, 15);
        tell(&mut engine, Kind::Mapped, 128, 143);
        tell(&mut engine, Kind::Mapped, 0, 15);
        assert_eq!(engine.counters().references, 4 * 64 + 3 * 16);
    }
}

/// The same thread maps it again after it left: that is a first use again.
#[test]
fn a_large_folio_that_came_back_is_used_anew() {
    let mut engine = engine();
    for pass in 1..=3 {
        tell(&mut engine, Kind::Added, 0, 63);
        tell(&mut engine, Kind::Mapped, 0, 15);
        assert_eq!((engine.counters().references, engine.ledger().ahead_blocks()), (64 * pass, 0));
        tell(&mut engine, Kind::Gone, 0, 63);
    }
}

#[test]
fn pages_of_their_own_count_each_time() {
    let mut engine = engine();
    (0..32).for_each(|page| tell(&mut engine, Kind::Added, page, page));
    for _ in 0..2 {
        tell(&mut engine, Kind::Mapped, 0, 15);
    }
    assert_eq!(engine.counters().references, 32);
    assert_eq!(engine.ledger().ahead_blocks(), 16);
}
