//! Both machines on the same references: all short traces over few blocks, and random longer ones.
//!
//! A failing random run prints its seed; `PANTLER_TEST_SEED=SEED cargo test -p pantler-steward
//! --test rooms` replays it.

use pantler_policy::{PolicyName, Spec};
use pantler_steward::{Block, FileId, Lookahead, Room};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use crate::naive::Twin;
use crate::rooms::{RoomOptions, Rooms};

#[derive(Clone)]
struct Pair {
    fast: Rooms,
    slow: Twin,
}

impl Pair {
    fn new(options: RoomOptions, name: PolicyName) -> Self {
        Pair { fast: Rooms::new(options, name.spec()), slow: Twin::new(options, name) }
    }

    fn reference(&mut self, block: Block) {
        assert_eq!(self.fast.reference(block), self.slow.reference(block), "{block}");
        self.fast.steward.validate();
        assert_eq!(self.fast.room() as usize, self.slow.n, "the size of the waiting room");
        assert_eq!(self.fast.looked(), self.slow.looked);
        let room = |block: &Block| self.fast.steward.explain(*block).map(|it| it.room);
        assert!(self.slow.waiting.iter().all(|block| room(block) == Some(Room::Waiting)), "waiting blocks");
        assert!(
            self.slow.weighing.iter().all(|block| room(block) == Some(Room::Weighing)),
            "weighing blocks"
        );
        let cached = self.slow.waiting.len() + self.slow.weighing.len();
        assert_eq!(self.fast.steward.used() as usize, cached);
    }
}

fn all_traces(pair: &Pair, left: u32, trace: &mut Vec<u64>) {
    if left == 0 {
        return;
    }
    for index in 0..5 {
        trace.push(index);
        let mut next = pair.clone();
        next.reference(Block::new(FileId(0), index));
        all_traces(&next, left - 1, trace);
        trace.pop();
    }
}

#[test]
fn all_traces_up_to_length_6_over_5_blocks() {
    for lookahead in Lookahead::ALL {
        for frames in 1..=4 {
            for window in 1..=2 {
                let options = RoomOptions { window, ..RoomOptions::new(frames, lookahead) };
                let pair = Pair::new(options, PolicyName::Lru);
                all_traces(&pair, if window == 1 { 6 } else { 5 }, &mut Vec::new());
            }
        }
    }
}

fn play(options: RoomOptions, name: PolicyName, trace: &[(u64, u64)]) {
    let mut pair = Pair::new(options, name);
    for &(file, index) in trace {
        pair.reference(Block::new(FileId(file), index));
    }
}

/// Steps of a walk: mostly on by one, sometimes elsewhere.
pub fn traces() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let jump = (0..2u64, 0..60u64).prop_map(Some);
    let step = prop_oneof![3 => Just(None), 2 => jump];
    prop::collection::vec(step, 1..400).prop_map(|steps| {
        let mut at = (0, 0);
        let walk = steps.into_iter().map(|step| {
            at = step.unwrap_or((at.0, at.1 + 1));
            at
        });
        walk.collect()
    })
}

pub fn options() -> impl Strategy<Value = RoomOptions> {
    let lookahead = proptest::sample::select(&Lookahead::ALL[..]);
    (1..60u32, lookahead, 1..4u32).prop_map(|(frames, lookahead, window)| RoomOptions {
        frames,
        lookahead,
        window,
    })
}

/// Runs a property on cases from a seed that the environment can change.
pub fn check<S: Strategy>(cases: u32, strategy: &S, property: impl Fn(&S::Value))
where
    S::Value: Clone,
{
    let seed = std::env::var("PANTLER_TEST_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&u64::to_le_bytes(seed));
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new_with_rng(config, rng).run(strategy, |value| {
        property(&value);
        Ok(())
    });
    if let Err(TestError::Fail(reason, value)) = outcome {
        panic!("{reason}\nreplay with PANTLER_TEST_SEED={seed}: {value:?}");
    }
}

#[test]
fn rooms_and_twin_agree_on_random_walks() {
    check(600, &(options(), traces()), |(options, trace)| {
        play(*options, PolicyName::Lru, trace);
        // Without a waiting room, what was looked ahead is on no manager's list until it is
        // referenced, and the twin has one list of all.
        if !matches!(options.lookahead, Lookahead::Obl | Lookahead::Obl2 | Lookahead::Streams) {
            play(*options, PolicyName::Mru, trace);
            play(*options, PolicyName::Fifo, trace);
        }
    });
}

/// Whatever the policy, the rooms stay within their bounds and count right.
#[test]
fn any_policy_weighs() {
    for known in Spec::all().iter().filter(|known| known.spec.policy_name().is_some()) {
        for lookahead in Lookahead::ALL {
            let mut rooms = Rooms::new(RoomOptions::new(20, lookahead), known.spec);
            for step in 0..2000u64 {
                rooms.reference(Block::new(FileId(step % 3), step.wrapping_mul(step) % 41 + step % 7));
                rooms.steward.validate();
            }
        }
    }
}
