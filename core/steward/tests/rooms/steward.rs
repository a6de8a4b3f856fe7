//! The steward's lookahead where frames, files and fetches change on the way.

use std::iter;

use pantler_policy::PolicyName;
use pantler_steward::{Action, Block, FileId, Lookahead, OwnerId, Why};

use proptest::prelude::*;

use crate::naive::Twin;
use crate::props::{check, options, traces};
use crate::rooms::{RoomOptions, Rooms};

const OWNER: OwnerId = OwnerId(1);

fn rooms(options: RoomOptions) -> Rooms {
    Rooms::new(options, PolicyName::Lru.spec())
}

/// References a block. Returns what was looked ahead.
fn touch(rooms: &mut Rooms, block: Block) -> Vec<u64> {
    rooms.steward.access(OWNER, block);
    rooms.complete().0.into_iter().map(|block| block.index).collect()
}

/// What the room has learnt outlives another number of frames: a body with tiers changes it often.
#[test]
fn the_room_keeps_its_share_of_another_number_of_frames() {
    let change = prop::collection::vec((1..400usize, 1..60u32), 0..12);
    check(400, &(options(), traces(), change), |(options, trace, changes)| {
        let mut rooms = rooms(*options);
        let mut twin = Twin::new(*options, PolicyName::Lru);
        for (time, &(file, index)) in trace.iter().enumerate() {
            for &(_, frames) in changes.iter().filter(|(at, _)| *at == time) {
                rooms.steward.set_capacity(frames).expect("at least one frame");
                while rooms.steward.poll().is_some() {}
                twin.set_frames(frames);
            }
            let block = Block::new(FileId(file), index);
            assert_eq!(rooms.reference(block), twin.reference(block), "{block} at {time}");
            rooms.steward.validate();
            assert_eq!(rooms.looked(), twin.looked, "{block} at {time}");
            assert_eq!(rooms.room() as usize, twin.n, "{block} at {time}");
        }
    });
}

#[test]
fn a_room_that_has_grown_stays_so_when_a_frame_comes_and_goes() {
    let mut rooms = rooms(RoomOptions::new(40, Lookahead::SaW2r));
    // Twelve streams in turn: each waits for the others, and a room of 4 is too small (W3).
    for time in 0..400 {
        touch(&mut rooms, Block::new(FileId(time % 12), time / 12));
    }
    let grown = rooms.room();
    assert!(grown > 8, "{grown}");
    for frames in [41, 40, 42, 40] {
        rooms.steward.set_capacity(frames).expect("at least one frame");
        assert!(rooms.room().abs_diff(grown) <= 1, "{frames} frames: {}", rooms.room());
    }
    assert_eq!(rooms.room(), grown);
}

#[test]
fn the_end_of_a_file_is_learnt() {
    let mut rooms = rooms(RoomOptions::new(20, Lookahead::W2r));
    let block = |index| Block::new(FileId(1), index);
    assert_eq!(touch(&mut rooms, block(0)), [1]);
    assert_eq!(touch(&mut rooms, block(5)), [6]);
    // Block 2 is not there.
    rooms.steward.access(OWNER, block(1));
    while let Some(action) = rooms.steward.poll() {
        if let Action::Fetch { block, why: Why::Lookahead, .. } = action {
            rooms.steward.failed(block);
        }
    }
    assert!(touch(&mut rooms, block(1)).is_empty());
    // The file grows.
    assert_eq!(touch(&mut rooms, block(2)), [3]);
}

#[test]
fn a_waiting_room_that_is_on_its_way_takes_no_more_frames() {
    let mut rooms = rooms(RoomOptions::new(20, Lookahead::W2r));
    for index in 0..10 {
        rooms.steward.access(OWNER, Block::new(FileId(1), 10 * index));
        rooms.steward.validate();
    }
    let fetches = iter::from_fn(|| rooms.steward.poll())
        .filter(|action| matches!(action, Action::Fetch { why: Why::Lookahead, .. }));
    assert_eq!(fetches.count(), 2);
    assert!(rooms.steward.used() <= 20);
}
