//! The steward's own lookahead against the two rooms alone: with one owner without wishes, and
//! fetches that take no time, they are the same (W5).

use std::iter;

use pantler_policy::{Lru, PolicyName};
use pantler_steward::rooms::{Reference, RoomOptions, TwoRooms};
use pantler_steward::{Access, Action, Block, FileId, Lookahead, Options, OwnerId, Room, Steward, Why};

use proptest::prelude::*;

use crate::naive::Twin;
use crate::props::{check, options, traces};

const OWNER: OwnerId = OwnerId(1);

fn steward(options: RoomOptions) -> Steward {
    let RoomOptions { frames, lookahead, window, .. } = options;
    Steward::new(Options { lookahead, window, ..Options::new(frames) }).expect("options are in range")
}

/// References a block, and completes all fetches. Returns what was looked ahead.
fn touch(steward: &mut Steward, block: Block) -> (Access, Vec<u64>) {
    let access = steward.access(OWNER, block);
    let mut ahead = Vec::new();
    while let Some(action) = steward.poll() {
        if let Action::Fetch { block, why, .. } = action {
            steward.fetched(block);
            if why == Why::Lookahead {
                ahead.push(block.index);
            }
        }
    }
    (access, ahead)
}

#[test]
fn the_steward_looks_ahead_as_two_rooms_under_lru() {
    check(400, &(options(), traces()), |(options, trace)| {
        let mut steward = steward(*options);
        let mut rooms = TwoRooms::new(*options, <Lru>::default());
        for &(file, index) in trace {
            let block = Block::new(FileId(file), index);
            let (access, _) = touch(&mut steward, block);
            steward.validate();
            let met = rooms.reference(block);
            assert_eq!(matches!(access, Access::Hit(_)), met != Reference::Miss, "{block}");
            assert_eq!(steward.looked(), rooms.looked(), "{block}");
            assert_eq!(steward.waiting_max(), rooms.room());
            assert_eq!(steward.waiting() as usize, rooms.waiting().count());
            for waiting in rooms.waiting() {
                assert_eq!(steward.explain(waiting).map(|it| it.room), Some(Room::Waiting));
            }
        }
    });
}

/// What the room has learnt outlives another number of frames: a body with tiers changes it often.
/// must be able to rely on.
#[test]
fn the_room_keeps_its_share_of_another_number_of_frames() {
    let change = prop::collection::vec((1..400usize, 1..60u32), 0..12);
    check(400, &(options(), traces(), change), |(options, trace, changes)| {
        let mut steward = steward(*options);
        let mut twin = Twin::new(*options, PolicyName::Lru);
        for (time, &(file, index)) in trace.iter().enumerate() {
            for &(_, frames) in changes.iter().filter(|(at, _)| *at == time) {
                steward.set_capacity(frames).expect("at least one frame");
                while steward.poll().is_some() {}
                twin.set_frames(frames);
            }
            let block = Block::new(FileId(file), index);
            let (access, _) = touch(&mut steward, block);
            steward.validate();
            let met = twin.reference(block);
            assert_eq!(matches!(access, Access::Hit(_)), met != Reference::Miss, "{block} at {time}");
            assert_eq!(steward.looked(), twin.looked, "{block} at {time}");
            assert_eq!(steward.waiting_max() as usize, twin.held, "{block} at {time}");
        }
    });
}

#[test]
fn a_room_that_has_grown_stays_so_when_a_frame_comes_and_goes() {
    let mut steward = steward(RoomOptions::new(40, Lookahead::SaW2r));
    // Twelve streams in turn: each waits for the others, and a room of 4 is too small (W3).
    // fetch ahead (W3).
    for time in 0..400 {
        touch(&mut steward, Block::new(FileId(time % 12), time / 12));
    }
    let grown = steward.waiting_max();
    assert!(grown > 8, "{grown}");
    for frames in [41, 40, 42, 40] {
        steward.set_capacity(frames).expect("at least one frame");
        assert!(steward.waiting_max().abs_diff(grown) <= 1, "{frames} frames: {}", steward.waiting_max());
    }
    assert_eq!(steward.waiting_max(), grown);
}

#[test]
fn the_end_of_a_file_is_learnt() {
    let mut steward = steward(RoomOptions::new(20, Lookahead::W2r));
    let block = |index| Block::new(FileId(1), index);
    assert_eq!(touch(&mut steward, block(0)).1, [1]);
    assert_eq!(touch(&mut steward, block(5)).1, [6]);
    // Block 2 is not there.
    steward.access(OWNER, block(1));
    while let Some(action) = steward.poll() {
        if let Action::Fetch { block, why: Why::Lookahead, .. } = action {
            steward.failed(block);
        }
    }
    assert_eq!(touch(&mut steward, block(1)).1, []);
    // The file grows.
    assert_eq!(touch(&mut steward, block(2)).1, [3]);
}

#[test]
fn a_waiting_room_that_is_on_its_way_takes_no_more_frames() {
    let mut steward = steward(RoomOptions::new(20, Lookahead::W2r));
    for index in 0..10 {
        steward.access(OWNER, Block::new(FileId(1), 10 * index));
        steward.validate();
    }
    let fetches = iter::from_fn(|| steward.poll())
        .filter(|action| matches!(action, Action::Fetch { why: Why::Lookahead, .. }));
    assert_eq!(fetches.count(), 2);
    assert!(steward.used() <= 20);
}
