//! The kernel tells of no batch of a read whose last block is on its way still: what came for the
//! read before was used all the same.

use pantler_pagecache::{Engine, Event, FileKey, Kind, Options, Origin};
use pantler_steward::OwnerId;
use std::ops::RangeInclusive;

/// The number by which a thread knows the file.
const FILE: FileKey = FileKey { dev: 1, ino: 1 };

/// An engine that watches hits.
fn engine() -> Engine {
    Engine::new(&Options { hits_are_watched: true, ..Options::new(1000) }, 1).unwrap()
}

fn tell(engine: &mut Engine, thread: u32, kind: Kind, blocks: RangeInclusive<u64>) {
    let origin = Origin::Run { thread, owner: OwnerId(u64::from(thread)) };
    let event = Event { time_ns: 1, kind, origin, file: FILE, first: *blocks.start(), last: *blocks.end() };
    if !engine.event(&event) {
        engine.admit(&event);
    }
}

/// References after these events of one thread.
fn counted(events: &[(Kind, RangeInclusive<u64>)]) -> u64 {
    let mut engine = engine();
    for (kind, blocks) in events {
        tell(&mut engine, 3, *kind, blocks.clone());
    }
    engine.validate();
    engine.counters().references
}

/// As the kernel brings a file in: block by block, before it tells of the read.
fn brought(blocks: RangeInclusive<u64>) -> Vec<(Kind, RangeInclusive<u64>)> {
    blocks.map(|block| (Kind::Added, block..=block)).collect()
}

#[test]
fn blocks_before_the_first_that_is_told_of_are_used() {
    let whole = |first| counted(&[brought(0..=15), vec![(Kind::Read, first..=31)]].concat());
    let told: Vec<u64> = (0..16).map(whole).collect();
    assert_eq!(told, [16; 16], "by the first block that was told of");
}

#[test]
fn the_second_of_many_small_reads_is_whole_too() {
    let reads = [vec![(Kind::Read, 0..=1)], brought(2..=9), vec![(Kind::Read, 3..=3), (Kind::Read, 4..=5)]];
    assert_eq!(counted(&[brought(0..=1), reads.concat()].concat()), 6);
}

#[test]
fn no_block_counts_twice() {
    let reads = |each: u64| {
        let reads = (0..16).step_by(each as usize).map(|first| (Kind::Read, first..=first + each - 1));
        counted(&brought(0..=15).into_iter().chain(reads).collect::<Vec<_>>())
    };
    assert_eq!([1, 2, 4, 8, 16].map(reads), [16; 5], "by the blocks of a read");
}

#[test]
fn what_was_brought_in_elsewhere_or_for_another_is_not_used() {
    // Read ahead behind the read, and a jump.
    assert_eq!(counted(&[brought(0..=15), vec![(Kind::Read, 0..=3), (Kind::Read, 9..=9)]].concat()), 5);
    let mut engine = engine();
    for (kind, blocks) in brought(0..=15) {
        tell(&mut engine, 3, kind, blocks);
    }
    tell(&mut engine, 4, Kind::Read, 7..=7);
    assert_eq!(engine.counters().references, 1, "another thread brought them in");
    // A mapped file is read around the page that was touched.
    let touched = [brought(0..=15), vec![(Kind::Fault, 8..=8), (Kind::Read, 9..=9)]];
    assert_eq!(counted(&touched.concat()), 2);
}

/// Another owner's blocks stay as they are.
#[test]
fn what_an_owner_had_is_no_run_s_once_it_is_disowned() {
    let mut engine = engine();
    let own = |thread: u32, at: u64| (thread, at..=at);
    for (thread, block) in [own(3, 0), own(3, 1), own(4, 2), own(3, 3), own(4, 4)] {
        tell(&mut engine, thread, Kind::Added, block.clone());
        tell(&mut engine, thread, Kind::Read, block);
    }
    assert_eq!(engine.ledger().cached_blocks(), 5);
    engine.disown(OwnerId(3));
    engine.validate();
    let left: Vec<u64> = engine.ledger().spans().flat_map(|span| span.indices()).collect();
    assert_eq!((left.len(), engine.ledger().cached_blocks()), (2, 2));
    assert!(left.contains(&2) && left.contains(&4), "{left:?}");
    assert_eq!((engine.steward().used(), engine.counters().drops), (2, 0), "nothing is dropped for it");
    // A reader outside finds nothing to take from a run.
    engine.disown(OwnerId(7));
    assert_eq!(engine.ledger().cached_blocks(), 2);
}
