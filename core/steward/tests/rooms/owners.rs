//! Lookahead with several owners.
//!
//! Owners without hints count as none: then the steward is the two rooms, whichever owner
//! references. With hints it is the steward with a body that looks ahead by itself and tells: that
//! one has a twin of its own (`tests/twin`).

use std::iter;

use pantler_steward::{Access, Action, Block, FileId, Lookahead, Options, OwnerId, PolicyName, Steward};
use proptest::prelude::*;

use crate::naive::Twin;
use crate::props::{check, options, traces};
use crate::rooms::Rooms;

#[test]
fn owners_without_wishes_are_as_one() {
    check(400, &(options(), traces(), any::<u64>()), |(options, trace, owners)| {
        let mut rooms = Rooms::new(*options, PolicyName::Lru.spec());
        let mut twin = Twin::new(*options, PolicyName::Lru);
        for (time, &(file, index)) in (0..).zip(trace) {
            let block = Block::new(FileId(file), index);
            let owner = OwnerId(1 + (owners.rotate_left(time) & 3));
            assert_eq!(rooms.reference_by(owner, block), twin.reference(block), "{block}");
            rooms.steward.validate();
            assert_eq!(rooms.looked(), twin.looked, "{block}");
            assert_eq!(rooms.room() as usize, twin.n);
        }
    });
}

/// All fetches take no time. Returns what was dropped.
fn complete(steward: &mut Steward) -> Vec<Block> {
    let mut drops = Vec::new();
    while let Some(action) = steward.poll() {
        match action {
            Action::Fetch { block, .. } => steward.fetched(block),
            Action::Drop { block, .. } => drops.push(block),
            _ => {}
        }
    }
    drops
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Refer(u64, u64, u64),
    Policy(u64, i32, PolicyName),
    Priority(u64, u64, i32),
    Temporary(u64, u64, u64, i32),
    Exit(u64),
    Forget(u64, u64),
}

const FILES: u64 = 3;
const BLOCKS: u64 = 9;

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let policy = proptest::sample::select(vec![PolicyName::Lru, PolicyName::Mru, PolicyName::Fifo]);
    let scan = (0..4u64, 0..FILES, 0..BLOCKS, 1..5u64);
    let op = prop_oneof![
        6 => scan.prop_map(|(owner, file, from, count)| {
            (from..(from + count).min(BLOCKS)).map(|index| Op::Refer(owner, file, index)).collect()
        }),
        1 => (0..4u64, -1..2i32, policy).prop_map(|(owner, priority, policy)| vec![Op::Policy(owner, priority, policy)]),
        1 => (0..4u64, 0..FILES, -1..2i32).prop_map(|(owner, file, priority)| vec![Op::Priority(owner, file, priority)]),
        1 => (0..4u64, 0..FILES, 0..BLOCKS, -1..2i32)
            .prop_map(|(owner, file, index, priority)| vec![Op::Temporary(owner, file, index, priority)]),
        1 => prop_oneof![
            (0..4u64).prop_map(|owner| vec![Op::Exit(owner)]),
            (0..FILES, 0..BLOCKS).prop_map(|(file, index)| vec![Op::Forget(file, index)]),
        ],
    ];
    prop::collection::vec(op, 1..40).prop_map(|ops: Vec<Vec<Op>>| ops.concat())
}

fn say(steward: &mut Steward, op: Op) -> bool {
    let owner = |number| OwnerId(number + 1);
    let said = match op {
        Op::Refer(who, file, index) => {
            return matches!(steward.access(owner(who), Block::new(FileId(file), index)), Access::Hit(_));
        }
        Op::Policy(who, priority, policy) => steward.set_policy(owner(who), priority, policy),
        Op::Priority(who, file, priority) => steward.set_priority(owner(who), FileId(file), priority),
        Op::Temporary(who, file, index, priority) => {
            steward.set_temporary_priority(owner(who), FileId(file), index, index, priority).map(drop)
        }
        Op::Exit(who) => {
            steward.exit(owner(who));
            Ok(())
        }
        Op::Forget(file, index) => {
            steward.forget(Block::new(FileId(file), index));
            Ok(())
        }
    };
    said.is_ok()
}

#[test]
fn looking_ahead_is_what_a_body_would_tell() {
    check(600, &(2..25u32, ops()), |(frames, ops)| {
        let room = (frames / 10).max(1);
        let own = Options { lookahead: Lookahead::W2r, ..Options::new(*frames) };
        let told = Options { waiting: room, ..Options::new(*frames) };
        let [mut own, mut told] = [own, told].map(|options| Steward::new(options).expect("in range"));
        for &op in ops {
            assert_eq!(say(&mut own, op), say(&mut told, op), "{op:?}");
            let (drops, mut others) = (complete(&mut own), complete(&mut told));
            if let Op::Refer(_, file, index) = op {
                told.looked_ahead(Block::new(FileId(file), index + 1));
                others.extend(iter::from_fn(|| told.poll()).filter_map(|action| match action {
                    Action::Drop { block, .. } => Some(block),
                    _ => None,
                }));
            }
            assert_eq!(drops, others, "{op:?}");
            own.validate();
            told.validate();
            for file in 0..FILES {
                for block in (0..=BLOCKS).map(|index| Block::new(FileId(file), index)) {
                    let of = |steward: &Steward| {
                        steward.explain(block).map(|it| (it.room, it.owner, it.priority, it.temporary))
                    };
                    assert_eq!(of(&own), of(&told), "{block} after {op:?}");
                }
            }
            assert_eq!((own.totals(), own.placeholders()), (told.totals(), told.placeholders()));
        }
    });
}
