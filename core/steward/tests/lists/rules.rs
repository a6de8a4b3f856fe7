//! The rules of informed prefetching, each as a property or on the smallest example that shows it.
//!
//! `PANTLER_TEST_SEED=SEED cargo test -p pantler-steward --test lists` replays a failing random
//! run.

use std::iter;

use pantler_policy::Draws;
use pantler_steward::lists::{Chunk, Prefetching};
use pantler_steward::{
    Access, Action, Block, FileId, HintError, Limits, Lookahead, Notice, Options, OwnerId, Steward, Why,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

const A: OwnerId = OwnerId(1);
const FILE: FileId = FileId(3);

fn block(index: u64) -> Block {
    Block::new(FILE, index)
}

fn chunk(first: u64, last: u64) -> Chunk {
    Chunk { file: FILE, first, last }
}

fn steward(frames: u32, prefetching: Prefetching) -> Steward {
    Steward::new(Options { prefetching, ..Options::new(frames) }).expect("options are in range")
}

fn actions(steward: &mut Steward) -> Vec<Action> {
    steward.validate();
    iter::from_fn(|| steward.poll()).collect()
}

fn listed(actions: &[Action]) -> Vec<u64> {
    let fetched = actions.iter().filter_map(|action| match action {
        Action::Fetch { block, why: Why::List, .. } => Some(block.index),
        _ => None,
    });
    fetched.collect()
}

/// P4 in the model of the bound: one owner, full knowledge, threshold 1, B = 1.
fn obeys_the_four_rules(frames: u32, trace: &[u64], delays: &[u8]) {
    let options = Prefetching {
        threshold: 1,
        batch: 1,
        match_steps: 2,
        any_order: false,
        when_idle: true,
        catches_up: false,
        trusting: true,
    };
    let mut steward = steward(frames, options);
    let chunks: Vec<Chunk> = trace.iter().map(|&index| chunk(index, index)).collect();
    steward.give_list(A, &chunks).expect("a good list");
    let mut coming = listed(&actions(&mut steward)).first().map(|&index| (index, 0));
    for (now, &wanted) in trace.iter().enumerate() {
        let check = |steward: &mut Steward, coming: &mut Option<(u64, u8)>| {
            let next_use = |index: u64| trace[now + 1..].iter().position(|&other| other == index);
            let actions = actions(steward);
            let cached = |index: u64| steward.lookup(block(index)).is_some();
            let others = || (0..10).filter(|&index| index != wanted && cached(index));
            if let Some(&fetched) = listed(&actions).first() {
                assert_eq!(*coming, None, "one at a time");
                let hole = next_use(fetched).expect("rule 1: it is on the list");
                let before = &trace[now + 1..][..hole];
                assert!(before.iter().all(|&index| cached(index)), "rule 1: {fetched} is not the next hole");
                let at =
                    actions.iter().position(|action| matches!(action, Action::Fetch { why: Why::List, .. }));
                let start = &actions[..at.expect("it was found")];
                let demand = start.iter().rposition(|action| matches!(action, Action::Fetch { .. }));
                let victim = start[demand.map_or(0, |at| at + 1)..].iter().find_map(|action| match action {
                    Action::Drop { block, .. } => Some(block.index),
                    _ => None,
                });
                if let Some(victim) = victim {
                    let when = next_use(victim).unwrap_or(usize::MAX);
                    assert!(when > hole, "rule 3: {victim} is needed before {fetched}");
                    let later = others()
                        .filter(|&index| index != fetched)
                        .find(|&index| next_use(index).unwrap_or(usize::MAX) > when);
                    assert_eq!(later, None, "rule 2: used later than {victim}");
                }
                *coming = Some((fetched, delays[now % delays.len()]));
            }
            let hole = trace[now + 1..].iter().position(|&index| !cached(index));
            if let (None, Some(hole)) = (*coming, hole) {
                assert_eq!(steward.used(), frames, "rule 4: a frame was empty");
                let chance = others().find(|&index| next_use(index).is_none_or(|when| when > hole));
                assert_eq!(chance, None, "rule 4: it could have left");
            }
        };
        if let Some((index, _)) = coming.filter(|&(index, left)| index == wanted || left == 0) {
            // In use while it arrives.
            steward.pin(block(wanted));
            steward.fetched(block(index));
            coming = listed(&iter::from_fn(|| steward.poll()).collect::<Vec<_>>())
                .first()
                .map(|&index| (index, delays[now % delays.len()]));
            steward.unpin(block(wanted));
        } else if let Some((_, left)) = &mut coming {
            *left -= 1;
        }
        if let Access::Miss(_) = steward.access(A, block(wanted)) {
            while steward.poll().is_some() {}
            // While a demand is in flight no prefetch goes out; then it is in use.
            steward.pin(block(wanted));
            steward.fetched(block(wanted));
            steward.unpin(block(wanted));
        }
        check(&mut steward, &mut coming);
    }
}

#[test]
fn p4_the_four_rules_on_random_lists() {
    let seed = std::env::var("PANTLER_TEST_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&u64::to_le_bytes(seed));
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = Config { cases: 1500, failure_persistence: None, ..Config::default() };
    let trace = prop::collection::vec(0..10u64, 1..60).prop_map(|mut trace| {
        trace.dedup();
        trace
    });
    let strategy = (2..7u32, trace, prop::collection::vec(0..4u8, 1..5));
    let outcome = TestRunner::new_with_rng(config, rng).run(&strategy, |(frames, trace, delays)| {
        obeys_the_four_rules(frames, &trace, &delays);
        Ok(())
    });
    if let Err(TestError::Fail(reason, case)) = outcome {
        panic!("{reason}\nseed {seed}: {case:?}");
    }
}

#[test]
fn p5_a_batch_goes_out_in_order_of_position() {
    let mut steward = steward(40, Prefetching { trusting: true, ..Prefetching::default() });
    steward.give_list(A, &[chunk(30, 34), chunk(10, 14), chunk(20, 40)]).expect("a good list");
    let batch = listed(&actions(&mut steward));
    assert_eq!(batch, [10, 11, 12, 13, 14, 20, 21, 22, 23, 24, 25, 30, 31, 32, 33, 34]);
    // The next one only when all have arrived and the cursor moves.
    steward.access(A, block(30));
    assert_eq!(listed(&actions(&mut steward)), []);
    batch.iter().for_each(|&index| steward.fetched(block(index)));
    assert_eq!(listed(&actions(&mut steward)), []);
    steward.access(A, block(31));
    assert_eq!(listed(&actions(&mut steward)), (26..=29).chain(35..=40).collect::<Vec<_>>());
    let counted = steward.prefetched();
    assert_eq!((counted.prefetched, counted.used, counted.used_late), (26, 2, 1));
}

#[test]
fn p8_a_list_is_worth_what_came_true_of_it() {
    let mut steward = steward(400, Prefetching::default());
    steward.give_list(A, &[chunk(0, 399)]).expect("a good list");
    let mut batches = Vec::new();
    for index in 0..20 {
        let batch = listed(&actions(&mut steward));
        batch.iter().for_each(|&index| steward.fetched(block(index)));
        batches.extend((!batch.is_empty()).then_some(batch.len()));
        steward.access(A, block(index));
    }
    // One more than came true, and `B` at most.
    assert_eq!(batches, (1..=20).map(|count| count.min(16)).collect::<Vec<_>>());
}

#[test]
fn p8_a_list_that_was_never_right_replaces_nothing() {
    let mut steward = steward(8, Prefetching::default());
    steward.set_policy(A, 0, pantler_steward::PolicyName::Mru).expect("within bounds");
    for index in 0..8 {
        steward.observed(A, block(index));
    }
    // Were it believed, the first three would leave: they are used last.
    let backwards: Vec<Chunk> = (0..8).rev().map(|index| chunk(index, index)).collect();
    steward.give_list(A, &[&[chunk(50, 59)], &backwards[..]].concat()).expect("a good list");
    for index in 100..103 {
        assert_eq!(listed(&actions(&mut steward)), []);
        steward.observed(A, block(index));
    }
    actions(&mut steward);
    assert!((0..7).all(|index| steward.lookup(block(index)).is_some()), "MRU names victims");
}

#[test]
fn p2_skipped_steps_are_done_and_a_bogus_list_is_void() {
    let mut steward =
        steward(8, Prefetching { threshold: 1, batch: 3, trusting: true, ..Prefetching::default() });
    steward.give_list(A, &[chunk(0, 99)]).expect("a good list");
    assert_eq!(listed(&actions(&mut steward)), [0, 1, 2]);
    (0..3).for_each(|index| steward.fetched(block(index)));
    steward.access(A, block(1));
    let done = actions(&mut steward);
    assert!(matches!(done[0], Action::Drop { block, .. } if block.index == 0), "{done:?}");
    assert_eq!(steward.prefetched().wasted, 1);
    // An unforeseen reference is served first.
    steward.access(A, block(50));
    (3..6).for_each(|index| steward.fetched(block(index)));
    steward.access(A, block(2));
    assert_eq!(listed(&actions(&mut steward)), []);
    steward.fetched(block(50));
    steward.access(A, block(3));
    assert_ne!(listed(&actions(&mut steward)), []);
    let mut notices = Vec::new();
    for index in 0..40 {
        steward.observed(A, block(60 + index));
        notices.extend(actions(&mut steward).into_iter().filter(|it| matches!(it, Action::Notice { .. })));
    }
    assert_eq!(notices, [Action::Notice { owner: A, notice: Notice::ListDiscarded }]);
    assert_eq!(steward.list(A), None);
}

#[test]
fn p1_bounds_and_streams() {
    let limits = Limits { list_entries: 4, lists: 1, ..Limits::default() };
    let mut steward = Steward::new(Options { limits, ..Options::new(8) }).expect("options are in range");
    let five: Vec<Chunk> = (0..5).map(|index| chunk(10 * index, 10 * index)).collect();
    assert_eq!(steward.give_list(A, &five), Err(HintError::TooManyEntries(4)));
    assert_eq!(steward.list(A), None);
    assert_eq!(steward.owners().count(), 1, "a refused call leaves no trace");
    steward.give_list(A, &five[..4]).expect("within the bound");
    assert_eq!(steward.give_list(OwnerId(2), &five[..1]), Err(HintError::TooManyLists(1)));
    assert_eq!(steward.extend_list(A, &five[4..]), Err(HintError::TooManyEntries(4)));
    let mut low = 0;
    for index in 0..2 {
        steward.observed(A, block(10 * index));
        let told = actions(&mut steward);
        low += told.iter().filter(|it| matches!(it, Action::Notice { notice: Notice::ListLow, .. })).count();
    }
    assert_eq!(low, 1);
    steward.extend_list(A, &five[4..]).expect("there is room again");
    assert_eq!(steward.list(A).map(|list| (list.ranges, list.done, list.left)), Some((3, 2, 3)));
    // A file of any size costs no more than the horizon.
    steward.give_list(A, &[chunk(0, u64::MAX - 1)]).expect("a long file");
    assert_eq!(steward.list(A).map(|list| list.left), Some(u64::MAX));
}

#[test]
fn a_prefetch_that_fails_is_counted_and_forgotten() {
    let mut steward =
        steward(8, Prefetching { threshold: 1, batch: 2, trusting: true, ..Prefetching::default() });
    steward.give_list(A, &[chunk(0, 9)]).expect("a good list");
    assert_eq!(listed(&actions(&mut steward)), [0, 1]);
    steward.fetched(block(0));
    steward.failed(block(1));
    steward.access(A, block(0));
    assert_eq!(listed(&actions(&mut steward)), [2, 3]);
    assert_eq!(steward.prefetched().failed, 1);
    // The demand read asks for it again, and reports.
    assert!(matches!(steward.access(A, block(1)), Access::Miss(_)));
}

#[test]
fn what_somebody_else_keeps_in_memory_takes_no_frame_and_moves_the_cursor() {
    let prefetching = Prefetching { trusting: true, batch: 4, ..Prefetching::default() };
    let mut steward = steward(8, prefetching);
    steward.give_list(A, &[chunk(0, 19)]).expect("a good list");
    assert_eq!(listed(&actions(&mut steward)), [0, 1, 2, 3]);
    // Late for its own fetch.
    assert!(matches!(steward.observed(A, block(0)), Access::Arriving(_)));
    for index in 0..4 {
        assert!(steward.cancel_needless(block(index)), "{index} is on its way");
        assert!(!steward.cancel_needless(block(index)), "once");
    }
    assert_eq!((steward.used(), steward.prefetched().prefetched, steward.prefetched().failed), (0, 0, 0));
    assert_eq!(listed(&actions(&mut steward)), [], "what was found there is no hole");
    assert_eq!((steward.prefetched().used, steward.prefetched().used_late), (0, 0));
    for index in 1..4 {
        steward.passed(A, block(index));
    }
    assert_eq!(listed(&actions(&mut steward)), [4, 5, 6, 7], "the list goes on");
    assert_eq!(steward.list(A).expect("a list").done, 4);
    steward.fetched(block(4));
    assert!(!steward.cancel_needless(block(4)), "it has arrived");
    // A reference to what is cached here is as ever.
    assert!(matches!(steward.observed(A, block(4)), Access::Hit(_)));
    assert_eq!((steward.prefetched().used, steward.totals().references), (1, 2));
    steward.validate();
}

/// P2: what the cursor passes over while it is in flight leaves when it arrives, also when the list
/// is done by then; what the list needs again stays.
#[test]
fn p2_skipped_steps_are_flushed_when_they_arrive() {
    let prefetching = Prefetching { threshold: 1, batch: 4, trusting: true, ..Prefetching::default() };
    let mut steward = steward(8, prefetching);
    steward.give_list(A, &[chunk(0, 2), chunk(0, 0), chunk(5, 5)]).expect("a good list");
    assert_eq!(listed(&actions(&mut steward)), [0, 1, 2, 5]);
    let arrive = |steward: &mut Steward, index| {
        steward.fetched(block(index));
        actions(steward)
    };
    let dropped =
        |actions: &[Action], index| matches!(actions, [Action::Drop { block, .. }] if block.index == index);
    assert!(matches!(steward.access(A, block(1)), Access::Arriving(_)));
    assert_eq!(arrive(&mut steward, 0), [], "it is needed again");
    // Over 2 and 0, to the end of the list.
    steward.access(A, block(0));
    assert_eq!(steward.list(A).expect("a list").left, 1);
    steward.access(A, block(5));
    assert_eq!(steward.list(A), None);
    assert!(dropped(&arrive(&mut steward, 2), 2), "nobody will read it");
    assert_eq!((arrive(&mut steward, 1), arrive(&mut steward, 5)), (vec![], vec![]));
    let counted = steward.prefetched();
    assert_eq!((counted.used, counted.used_late, counted.wasted), (3, 2, 1));
}

/// A reference that finds every frame pinned changes nothing, whatever list and lookahead: retried,
/// and then with a frame, it does what it would have done at once. Once each retry was another
/// stranger to the list, and another miss to the rooms.
#[test]
fn a_full_cache_changes_nothing_and_a_retry_is_the_same_reference() {
    let mut refused = 0;
    for lookahead in Lookahead::ALL {
        let mut steward =
            Steward::new(Options { lookahead, ..Options::new(6) }).expect("options are in range");
        steward.give_list(A, &[chunk(0, 11), chunk(4, 9)]).expect("a good list");
        let mut draws = Draws::new(7);
        let mut random = |bound: u64| draws.below(bound) as usize;
        let mut coming: Vec<Block> = Vec::new();
        for time in 0..150 {
            let (owner, wanted) = (OwnerId(1 + random(2) as u64), block(random(14) as u64));
            let before = steward.clone();
            let mut access = steward.access(owner, wanted);
            if access == Access::Full {
                refused += 1;
                assert_eq!(steward.access(owner, wanted), Access::Full);
                assert!(format!("{steward:?}") == format!("{before:?}"), "{lookahead}: {wanted} at {time}");
                let mut at_once = before;
                while access == Access::Full {
                    let arrived = coming.remove(random(coming.len() as u64));
                    steward.fetched(arrived);
                    at_once.fetched(arrived);
                    access = steward.access(owner, wanted);
                }
                assert_eq!(access, at_once.access(owner, wanted));
                assert!(format!("{steward:?}") == format!("{at_once:?}"), "{lookahead}: {wanted} at {time}");
            }
            if random(3) == 0 && !coming.is_empty() {
                steward.fetched(coming.remove(random(coming.len() as u64)));
            }
            for action in actions(&mut steward) {
                match action {
                    Action::Fetch { block, .. } => coming.push(block),
                    Action::Drop { block, .. } => coming.retain(|other| *other != block),
                    _ => {}
                }
            }
            assert!(steward.used() <= 6, "{lookahead} at {time}");
        }
    }
    assert!(refused > 60, "{refused} references found no frame");
}

/// References come in any order in which none is more than `match_steps` ahead of a missing one:
/// the list ends, and nothing is fetched twice or in vain.
fn any_order_within_the_steps_ends_the_list(match_steps: u32, steps: u64, draws: &mut Draws) {
    let options = Prefetching { match_steps, any_order: true, trusting: true, ..Prefetching::default() };
    let mut steward = steward(16 + 2 * match_steps, options);
    steward.give_list(A, &[chunk(0, steps - 1)]).expect("a good list");
    let mut awaited: Vec<u64> = (0..steps).collect();
    let (mut fetched, mut coming) = (Vec::new(), Vec::new());
    while !awaited.is_empty() {
        for action in actions(&mut steward) {
            if let Action::Fetch { block, .. } = action {
                assert!(!fetched.contains(&block.index), "{} is fetched twice", block.index);
                fetched.push(block.index);
                coming.push(block.index);
            }
        }
        while !coming.is_empty() && draws.below(3) > 0 {
            steward.fetched(block(coming.swap_remove(draws.below(coming.len() as u64) as usize)));
        }
        let near = awaited.iter().filter(|&&step| step < awaited[0] + u64::from(match_steps)).count();
        let step = awaited.remove(draws.below(near as u64) as usize);
        steward.access(A, block(step));
        if let (Some(list), Some(&first)) = (steward.list(A), awaited.first()) {
            assert_eq!(list.done, first, "the cursor stands before the first step that is awaited");
        }
    }
    assert_eq!(steward.list(A), None, "nothing is left");
    let counted = steward.prefetched();
    assert_eq!((counted.used, counted.wasted), (counted.prefetched, 0));
}

#[test]
fn p9_references_in_any_order_within_the_steps_end_a_list() {
    let seed = std::env::var("PANTLER_TEST_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let mut draws = Draws::new(seed);
    for match_steps in [1, 2, 3, 8, 63, 64] {
        for steps in [1, 2, 9, 150] {
            for _ in 0..20 {
                any_order_within_the_steps_ends_the_list(match_steps, steps, &mut draws);
            }
        }
    }
}

/// Two windows of the kernel's readahead came in the other order, and the list lost its reader.
#[test]
fn p9_two_windows_in_the_other_order_are_no_strangers() {
    let left = |any_order| {
        let match_steps = if any_order { 8 } else { 2 };
        let mut steward =
            steward(40, Prefetching { match_steps, any_order, trusting: true, ..Prefetching::default() });
        steward.give_list(A, &[chunk(0, 19)]).expect("a good list");
        for index in [2, 3, 0, 1].into_iter().chain(4..20) {
            steward.observed(A, block(index));
            actions(&mut steward);
        }
        steward.list(A).map_or(0, |list| list.left)
    };
    assert_eq!((left(false), left(true)), (18, 0));
}

/// What is never referenced holds the cursor for `m` steps, and leaves then.
#[test]
fn p9_a_step_that_is_skipped_is_passed_over_in_the_end() {
    let options = Prefetching { match_steps: 4, any_order: true, trusting: true, ..Prefetching::default() };
    let mut steward = steward(40, options);
    steward.give_list(A, &[chunk(0, 9)]).expect("a good list");
    listed(&actions(&mut steward)).into_iter().for_each(|index| steward.fetched(block(index)));
    let mut done = Vec::new();
    for index in [1, 2, 3, 4, 4, 5, 9] {
        steward.observed(A, block(index));
        done.push(steward.list(A).expect("it goes on").done);
    }
    // 9 is 4 steps ahead of the last: 6 may still come.
    assert_eq!(done, [0, 0, 0, 5, 5, 6, 6]);
    assert_eq!(steward.prefetched().wasted, 1, "0 left");
    [6, 7, 8].into_iter().for_each(|index| _ = steward.observed(A, block(index)));
    assert_eq!((steward.list(A), steward.prefetched().wasted), (None, 1));
}
