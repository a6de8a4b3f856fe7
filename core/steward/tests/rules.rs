//! Each of the rules A, L and C (docs/RULES.md), on the smallest example that shows it.

use pantler_steward::{
    Access, Action, Allocation, Block, FileId, HintError, Limits, Lookahead, Notice, Options, OwnerId,
    PolicyName, Revocation, Room, Rule, Steward,
};

const A: OwnerId = OwnerId(1);
const B: OwnerId = OwnerId(2);
const C: OwnerId = OwnerId(3);
const FILE: FileId = FileId(9);

fn block(index: u64) -> Block {
    Block::new(FILE, index)
}

/// References a block, completes its fetch, and returns what was dropped.
fn touch(steward: &mut Steward, owner: OwnerId, block: Block) -> Vec<u64> {
    if let Access::Miss(_) = steward.access(owner, block) {
        steward.fetched(block);
    }
    steward.validate();
    dropped(steward)
}

fn dropped(steward: &mut Steward) -> Vec<u64> {
    let drops = std::iter::from_fn(|| steward.poll()).filter_map(|action| match action {
        Action::Drop { block, .. } => Some(block.index),
        _ => None,
    });
    drops.collect()
}

fn steward(capacity: u32) -> Steward {
    Steward::new(Options { log: 100, ..Options::new(capacity) }).expect("options are in range")
}

#[test]
fn without_control_it_is_lru() {
    let mut steward = steward(2);
    assert_eq!(touch(&mut steward, A, block(1)), []);
    assert_eq!(touch(&mut steward, B, block(2)), []);
    assert_eq!(touch(&mut steward, B, block(1)), []);
    assert_eq!(touch(&mut steward, A, block(3)), [2]);
    assert_eq!(
        steward.decisions().map(|decision| decision.rule).collect::<Vec<_>>(),
        [Rule::LeastRecentlyUsed]
    );
}

#[test]
fn l4_swap_and_l2_placeholder() {
    let mut steward = steward(3);
    steward.set_policy(A, 0, PolicyName::Mru).expect("first call");
    for index in 1..=3 {
        touch(&mut steward, A, block(index));
    }
    // The candidate is 1, the manager names 3; they swap, and 3's placeholder points to 1.
    assert_eq!(touch(&mut steward, A, block(4)), [3]);
    // G is now 2 1 4: the next candidate for B's miss is 2, and A's manager names 4.
    assert_eq!(touch(&mut steward, B, block(5)), [4]);
    // A misses on 3: the placeholder names 1, which counts as a mistake; A's manager names 2 (most
    // recent of 1, 2).
    assert_eq!(touch(&mut steward, A, block(3)), [2]);
    let counters = steward.owner_counters(A).expect("A is alive");
    assert_eq!((counters.overrules, counters.mistakes), (3, 1));
}

#[test]
fn c3_a_temporary_priority_ends_at_the_next_reference() {
    let mut steward = steward(3);
    for index in 1..=3 {
        touch(&mut steward, A, block(index));
    }
    assert_eq!(steward.set_temporary_priority(A, FILE, 2, 3, -1), Ok(2));
    steward.validate();
    touch(&mut steward, A, block(2));
    assert_eq!(steward.explain(block(2)).and_then(|it| it.priority), Some(0));
    assert_eq!(touch(&mut steward, A, block(4)), [3]);
    assert_eq!(touch(&mut steward, A, block(5)), [1]);
}

#[test]
fn c9_a_reader_that_is_done_with_its_blocks_takes_no_frame_of_others() {
    let mut steward = steward(4);
    for index in 101..=103 {
        touch(&mut steward, B, block(index));
    }
    steward.set_policy(A, -1, PolicyName::Mru).expect("first call");
    for index in 1..=20 {
        let left = touch(&mut steward, A, block(index));
        assert_eq!(left, if index == 1 { vec![] } else { vec![index - 1] });
        assert_eq!(steward.done_with(A, block(index), -1), Ok(true));
        assert_eq!(steward.done_with(A, block(101), -1), Ok(false), "it is B's");
        steward.validate();
    }
    assert!((101..=103).all(|index| steward.explain(block(index)).is_some()));
}

#[test]
fn c10_a_reader_that_advises_that_it_is_done_takes_no_frame_of_others_and_no_control() {
    let mut steward = steward(4);
    for index in 101..=103 {
        touch(&mut steward, B, block(index));
    }
    for index in 1..=20 {
        let left = touch(&mut steward, A, block(index));
        assert_eq!(left, if index == 1 { vec![] } else { vec![index - 1] });
        assert!(steward.retire(A, block(index)));
        assert!(!steward.retire(A, block(index)), "once");
        assert!(!steward.retire(A, block(101)), "it is B's");
        steward.validate();
    }
    assert!((101..=103).all(|index| steward.explain(block(index)).is_some()));
    assert_eq!((steward.managers(), steward.owner_counters(A).map(|it| it.blocks)), (0, Some(0)));
    touch(&mut steward, A, block(20));
    assert_eq!(steward.explain(block(20)).and_then(|it| it.owner), Some(A), "new, and its owner's");
    assert_eq!(touch(&mut steward, A, block(21)), [101], "the oldest");
}

#[test]
fn c11_what_was_asked_for_is_not_named_before_it_is_read() {
    let mut steward = steward(4);
    steward.set_policy(A, 0, PolicyName::Mru).expect("first call");
    for index in 1..=3 {
        touch(&mut steward, A, block(index));
    }
    steward.asked_for(A, block(9));
    steward.asked_for(A, block(9));
    assert_eq!(touch(&mut steward, A, block(4)), [3], "MRU of what was read");
    assert!(matches!(steward.observed(A, block(9)), Access::Hit(_)));
    let counters = steward.owner_counters(A).expect("A is alive");
    assert_eq!((counters.references, counters.ahead_used, counters.misses), (5, 1, 4));
    assert_eq!(touch(&mut steward, A, block(5)), [9], "MRU, now that it was read");
    steward.validate();
}

/// A policy that remembers what left hears of what was asked for when it is read: by 2Q a block
/// that comes back is hot, and a scan does not displace it.
#[test]
fn c11_what_was_asked_for_and_comes_back_is_no_newcomer() {
    for comes_back in [false, true] {
        let mut steward = steward(16);
        steward.set_policy(A, 0, PolicyName::TwoQ).expect("first call");
        let scan = |steward: &mut Steward, from: u64| {
            (from..from + 16).for_each(|index| drop(touch(steward, A, block(index))));
        };
        if comes_back {
            touch(&mut steward, A, block(900));
        }
        scan(&mut steward, 1);
        assert!(steward.lookup(block(900)).is_none());
        steward.asked_for(A, block(900));
        while steward.poll().is_some() {}
        touch(&mut steward, A, block(900));
        scan(&mut steward, 101);
        assert_eq!(steward.lookup(block(900)).is_some(), comes_back);
        steward.validate();
    }
}

/// A policy that was found is no hint.
#[test]
fn a_found_policy_says_nothing_until_a_hint_does() {
    let mut steward = steward(4);
    steward.find_policy(A);
    assert_eq!((steward.policy(A, 0), steward.has_hints(A)), (PolicyName::Auto, false));
    steward.set_priority(A, block(1).file, 1).expect("within bounds");
    assert!(steward.has_hints(A));
    steward.find_policy(A);
    assert!(steward.has_hints(A), "what was said holds");
    assert!(!steward.has_hints(B));
}

/// A block that is never read leaves when it is the oldest. Advice keeps nothing that as many
/// references would not.
#[test]
fn c11_what_was_asked_for_in_vain_leaves_by_age() {
    let mut steward = steward(4);
    for index in 101..=102 {
        touch(&mut steward, B, block(index));
    }
    for index in 1..=4 {
        steward.asked_for(A, block(index));
    }
    assert_eq!(dropped(&mut steward), [101, 102]);
    for (index, oldest) in (103..=106).zip(1..) {
        assert_eq!(touch(&mut steward, B, block(index)), [oldest]);
    }
    steward.validate();
}

#[test]
fn a1_a_block_that_two_owners_use_has_none() {
    let mut steward = steward(3);
    steward.set_priority(A, FILE, 1).expect("first call");
    touch(&mut steward, A, block(1));
    assert_eq!(steward.explain(block(1)).and_then(|it| it.owner), Some(A));
    touch(&mut steward, B, block(1));
    assert_eq!(steward.explain(block(1)).and_then(|it| it.owner), None);
    touch(&mut steward, A, block(1));
    assert_eq!(steward.explain(block(1)).and_then(|it| it.owner), None);
}

#[test]
fn w4_the_oldest_waiting_block_leaves() {
    let mut steward = Steward::new(Options { waiting: 1, ..Options::new(3) }).expect("options are in range");
    steward.looked_ahead(block(1));
    steward.looked_ahead(block(2));
    assert_eq!(dropped(&mut steward), [1]);
    assert_eq!(steward.explain(block(2)).map(|it| it.room), Some(Room::Waiting));
    assert!(matches!(steward.access(A, block(2)), Access::Hit(_)));
    assert_eq!(steward.explain(block(2)).map(|it| it.room), Some(Room::Weighing));
    steward.validate();
}

/// A steward with an owner A that chose MRU for ReadN, the paper's foolish program: three blocks
/// five times, then the next three. MRU keeps what never comes back, and without placeholders it
/// takes frames from the oblivious C, which rereads eight blocks. `between` comes after each three.
/// Returns what was said, too.
fn fooled(between: impl Fn(&mut Steward)) -> (Steward, Vec<Notice>) {
    let mut steward = harmful(Allocation::LruS);
    let mut notices = Vec::new();
    for group in 0..10 {
        between(&mut steward);
        read_n(&mut steward, group, &mut notices);
        rereads(&mut steward, C, &mut notices);
    }
    (steward, notices)
}

fn harmful(allocation: Allocation) -> Steward {
    let revocation = Revocation { needed: 0, share_percent: 10 };
    let options = Options { allocation, revocation, ..Options::new(16) };
    let mut steward = Steward::new(options).expect("options are in range");
    steward.set_policy(A, 0, PolicyName::Mru).expect("first call");
    steward
}

fn read_n(steward: &mut Steward, group: u64, notices: &mut Vec<Notice>) {
    for index in (0..3).cycle().take(15) {
        reference(steward, A, block(3 * group + index), notices);
    }
}

fn rereads(steward: &mut Steward, owner: OwnerId, notices: &mut Vec<Notice>) {
    for index in 0..8 {
        reference(steward, owner, Block::new(FileId(100 + owner.0), index), notices);
    }
}

fn reference(steward: &mut Steward, owner: OwnerId, block: Block, notices: &mut Vec<Notice>) {
    if let Access::Miss(_) = steward.access(owner, block) {
        steward.fetched(block);
    }
    steward.validate();
    while let Some(action) = steward.poll() {
        if let Action::Notice { owner, notice } = action {
            assert_eq!(owner, A);
            notices.push(notice);
        }
    }
}

/// Whether a hint of the owner has an effect: under MRU it gives up the last of its blocks, not the
/// first.
fn is_heard(steward: &mut Steward, owner: OwnerId) -> bool {
    steward.set_policy(owner, 0, PolicyName::Mru).expect("within bounds");
    let overrules = |steward: &Steward| steward.owner_counters(owner).map(|it| it.overrules);
    let before = overrules(steward);
    for index in 0..40 {
        touch(steward, owner, Block::new(FileId(1000 + owner.0), index));
    }
    overrules(steward) != before
}

#[test]
fn l7_an_owner_that_harms_others_is_told_and_asked_no_more() {
    let (mut steward, notices) = fooled(|_| ());
    // One more than there are frames.
    assert_eq!(notices, [Notice::Revoked { missed: 17, without: 0 }]);
    assert!(steward.is_revoked(A) && !is_heard(&mut steward, A));
    assert!(steward.grant(A));
    assert!(is_heard(&mut steward, A) && !steward.grant(A));
}

/// An owner that is alone never loses control, and neither does one that harms itself only.
#[test]
fn l7_harm_to_oneself_is_not_punished() {
    let mut notices = Vec::new();
    for allocation in Allocation::ALL {
        let mut alone = harmful(allocation);
        (0..400).for_each(|group| read_n(&mut alone, group % 50, &mut notices));
        assert_eq!(notices, [], "{allocation}");
    }
    // Placeholders protect C, and A pays for its mistakes itself.
    let mut protected = harmful(Allocation::LruSp);
    for group in 0..400 {
        read_n(&mut protected, group, &mut notices);
        rereads(&mut protected, C, &mut notices);
    }
    let counters = |owner| protected.owner_counters(owner).expect("it is alive");
    assert!(counters(A).mistakes * 2 > counters(A).overrules, "foolish all the same: {:?}", counters(A));
    assert_eq!((notices.len(), counters(C).misses), (0, 8));
}

/// A revoked owner is oblivious, so another one can harm it; one that ever overruled answers for
/// its own misses.
#[test]
fn l7_only_owners_without_control_are_harmed() {
    let (mut steward, mut notices) = (harmful(Allocation::LruS), Vec::new());
    steward.set_policy(C, 0, PolicyName::Mru).expect("first call");
    for group in 0..100 {
        read_n(&mut steward, group, &mut notices);
        rereads(&mut steward, C, &mut notices);
    }
    let overrules = steward.owner_counters(C).map(|counters| counters.overrules);
    assert!(overrules > Some(0) && notices.is_empty(), "{overrules:?} {notices:?}");
    steward.born_revoked(C);
    for group in 100..120 {
        read_n(&mut steward, group, &mut notices);
        rereads(&mut steward, C, &mut notices);
    }
    assert!(steward.is_revoked(A) && notices.len() == 1, "{notices:?}");
}

#[test]
fn l7_taking_all_wishes_back_gives_no_control_back() {
    let (mut steward, _) = fooled(|_| ());
    steward.release_control(A);
    assert!(steward.is_revoked(A) && !is_heard(&mut steward, A));
    steward.grant(A);
    assert!(is_heard(&mut steward, A));
    // Nor does it undo what was counted: else no owner would ever be revoked that takes them back
    // in time.
    let (patient, notices) = fooled(|steward| {
        steward.release_control(A);
        steward.set_policy(A, 0, PolicyName::Mru).expect("within bounds");
    });
    assert!(patient.is_revoked(A) && notices.len() == 1, "{notices:?}");
}

#[test]
fn l7_a_fork_resets_nothing() {
    let (mut steward, _) = fooled(|_| ());
    let (child, grandchild, late) = (OwnerId(7), OwnerId(8), OwnerId(9));
    steward.born(child, A);
    steward.born(grandchild, child);
    assert!(!is_heard(&mut steward, child) && !is_heard(&mut steward, grandchild));
    // Each is granted by itself, and control goes on to owners that are born then.
    steward.grant(child);
    steward.born(late, child);
    assert!(is_heard(&mut steward, child) && is_heard(&mut steward, late));
    assert!(!is_heard(&mut steward, A) && !is_heard(&mut steward, grandchild));
    // The parent may be gone by the time the child comes.
    steward.exit(A);
    let orphan = OwnerId(10);
    steward.born_revoked(orphan);
    assert!(!is_heard(&mut steward, orphan));
    assert_eq!(steward.owner_counters(orphan).map(|it| it.revocations), Some(0), "it did nothing");
}

#[test]
fn l7_past_the_bound_on_owners_the_common_owner_is_not_blamed() {
    let (mut steward, _) = fooled(|_| ());
    let limits = Limits { owners: 1, ..Limits::default() };
    let mut small = Steward::new(Options { limits, ..Options::new(4) }).expect("options are in range");
    touch(&mut small, A, block(1));
    small.born_revoked(B);
    assert!(!small.is_revoked(B) && small.owners().all(|owner| !owner.revoked));
    // An owner with an unknown parent is new in every way.
    steward.born(B, OwnerId(77));
    assert!(is_heard(&mut steward, B));
}

#[test]
fn c6_past_a_bound_nothing_changes() {
    let limits = Limits { files_per_owner: 1, priorities_per_owner: 2, ..Limits::default() };
    let mut steward = Steward::new(Options { limits, ..Options::new(4) }).expect("options are in range");
    steward.set_priority(A, FILE, 1).expect("within bounds");
    let refused = steward.set_priority(A, FileId(10), 1);
    assert_eq!(refused, Err(HintError::TooManyFiles(1)));
    assert_eq!(steward.set_policy(A, 7, PolicyName::Mru), Err(HintError::TooManyPriorities(2)));
    assert_eq!((steward.priority(A, FileId(10)), steward.policy(A, 7)), (0, PolicyName::Lru));
    steward.validate();
}

#[test]
fn pinned_blocks_stay_and_a_full_cache_says_so() {
    let mut steward = steward(2);
    assert!(matches!(steward.access(A, block(1)), Access::Miss(_)));
    assert!(matches!(steward.access(A, block(1)), Access::Arriving(_)));
    assert!(matches!(steward.access(A, block(2)), Access::Miss(_)));
    assert_eq!(steward.access(A, block(3)), Access::Full);
    // A body that learns afterwards cannot be refused.
    assert!(matches!(steward.observed(A, block(3)), Access::Miss(_)));
    assert_eq!(steward.used(), 3);
    steward.fetched(block(1));
    steward.failed(block(2));
    assert_eq!(touch(&mut steward, A, block(4)), [1]);
    steward.validate();
}

#[test]
fn a_refused_drop_comes_back_to_its_owner() {
    let mut steward = steward(2);
    steward.set_priority(A, FILE, 3).expect("first call");
    for index in 1..=3 {
        touch(&mut steward, A, block(index));
    }
    assert!(steward.explain(block(1)).is_none());
    steward.kept(block(1));
    steward.validate();
    let explained = steward.explain(block(1)).expect("it is back");
    assert_eq!((explained.owner, explained.priority, explained.pinned), (Some(A), Some(3), true));
    // One above the capacity; the next allocation shrinks first.
    assert_eq!(steward.used(), 3);
    assert_eq!(touch(&mut steward, A, block(4)), [2, 3]);
    assert_eq!(steward.used(), 2);
    steward.kept(block(2));
    steward.unpin(block(2));
    assert_eq!(steward.used(), 3);
    steward.shrink();
    assert_eq!((dropped(&mut steward), steward.used()), (vec![4], 2));
}

#[test]
fn ablations_go_by_name() {
    for allocation in Allocation::ALL {
        assert_eq!(allocation.to_string().parse(), Ok(allocation));
        let mut steward =
            Steward::new(Options { allocation, ..Options::new(3) }).expect("options are in range");
        steward.set_policy(A, 0, PolicyName::Mru).expect("accepted under every allocation");
        for index in (0..5).cycle().take(40) {
            touch(&mut steward, A, block(index));
        }
        let counters = steward.totals();
        assert_eq!(counters.references, 40);
        let cyclic_optimum = 5 + 7 * 3;
        if allocation == Allocation::GlobalLru {
            assert_eq!(counters.misses, 40);
        } else {
            assert!(counters.misses <= cyclic_optimum, "{allocation}: {counters:?}");
        }
    }
}

/// Each reference is one of three. Protects the ratio of hits: where nothing is read a second time
/// while it is cached it is 0, however well lookahead foresaw what is read.
#[test]
fn the_first_use_of_what_was_fetched_ahead_is_no_hit() {
    for lookahead in Lookahead::ALL {
        let mut steward = Steward::new(Options { lookahead, window: 2, ..Options::new(40) }).unwrap();
        let mut access = |index| {
            steward.access(A, block(index));
            while let Some(action) = steward.poll() {
                if let Action::Fetch { block, .. } = action {
                    steward.fetched(block);
                }
            }
            steward.totals()
        };
        let counters = (0..2).flat_map(|_| 0..160).map(&mut access).last().unwrap();
        assert_eq!(counters.hits, 0, "{lookahead}: {counters:?}");
        assert_eq!(counters.ahead_used + counters.misses, 320, "{lookahead}: {counters:?}");
        assert_eq!(counters.ahead_used > 0, lookahead != Lookahead::None, "{lookahead}: {counters:?}");
        let again = access(159);
        assert_eq!(again.hits, 1, "{lookahead}: {again:?}");
        assert_eq!(steward.looked().used, again.ahead_used, "{lookahead}");
        let file = steward.files().next().unwrap().traffic;
        assert_eq!((file.hits, file.ahead_used, file.misses), (1, again.ahead_used, again.misses));
    }
}
