//! Owners with hints over two tiers: what the simulator says, to the last block.

use pantler_sim::tiers::Mounted;
use pantler_steward::{Action, Block, PolicyName, Rule, Steward};

use super::*;

const OWNERS: u64 = 3;
const FILES: u64 = 4;
const FRAMES: u32 = 30;

/// References of each owner and tier, `out` as the last.
type Counts = [[u64; 4]; OWNERS as usize];

/// A hint, drawn from a seed, for whichever steward.
fn hint(draws: &mut Draws) -> impl Fn(&mut Steward) + use<> {
    let owner = OwnerId(1 + draws.below(OWNERS));
    let (kind, file, priority) = (draws.below(3), FileId(draws.below(FILES)), draws.below(3) as i32 - 1);
    let policy = [PolicyName::Mru, PolicyName::Lru, PolicyName::Fifo][draws.below(3) as usize];
    move |steward| match kind {
        0 => steward.set_policy(owner, priority, policy).unwrap(),
        _ => steward.set_priority(owner, file, priority).unwrap(),
    }
}

/// Loops and favourites of each owner, over files that they share in part.
fn reference(draws: &mut Draws, at: &mut [u64], blocks: u64) -> (OwnerId, Block) {
    let owner = draws.below(OWNERS);
    let file = if draws.below(4) == 0 { 0 } else { 1 + owner % (FILES - 1) };
    let index = match draws.below(3) {
        0 => {
            let next = &mut at[owner as usize];
            *next = (*next + 1) % blocks;
            *next
        }
        1 => draws.below(blocks),
        _ => draws.below(blocks / 8),
    };
    (OwnerId(1 + owner), Block::new(FileId(file), index))
}

/// What moved into each lower tier: from above, and from the origin or where it passed.
fn moved(done: &[Action]) -> [[u64; 2]; 2] {
    let mut moved = [[0; 2]; 2];
    for action in done {
        match action {
            Action::Drop { to: Some(to), .. } => moved[to.tier.index() - 1][0] += 1,
            Action::Put { to, .. } => moved[to.tier.index() - 1][1] += 1,
            Action::Pass { from: Distance(2), .. } => moved[1][0] += 1,
            _ => {}
        }
    }
    moved
}

fn compare(seed: u64, blocks: u64, passing: Option<u32>) {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [near, far] = [ssd(folders[0].path(), 40), ssd(folders[1].path(), 60)];
    let sizes = Sizes::new(&[FRAMES, near.frames(BLOCK), far.frames(BLOCK)]).unwrap();
    let cached = Cached::with_passing(FRAMES, passing, vec![near, far]);
    (0..FILES).for_each(|file| cached.share(file, file));
    let origin = Origin::new();
    let passes = passing.map_or(Passing::Share, Passing::Frames);
    let mut mounted = Mounted::new(pantler_steward::Options::new(FRAMES), &sizes, passes).unwrap();

    let counters = || {
        let stats = cached.cache.tier_stats();
        let hits = cached.cache.with_steward(|steward| steward.totals()).hits;
        [hits, stats[0].hits, stats[1].hits, origin.reads.load(Ordering::SeqCst)]
    };
    let (mut found, mut expected): (Counts, Counts) = Default::default();
    let (mut draws, mut at, mut done) = (Draws::new(seed), [0; OWNERS as usize], Vec::new());
    let mut before = counters();
    for number in 0..1500 {
        if draws.below(60) == 0 {
            let hint = hint(&mut draws);
            cached.cache.with_steward(&hint);
            mounted.advise(&hint, &mut done);
        }
        let (owner, block) = reference(&mut draws, &mut at, blocks);
        let served = mounted.reference(owner, block, &mut done);
        expected[owner.0 as usize - 1][served.index()] += 1;

        let (offset, size) = (block.index * BLOCK as u64, 1 << 40);
        let source: Arc<dyn Source> = Arc::clone(&origin) as _;
        let request =
            Request { owner, file: block.file, offset, length: BLOCK, size, source: &source, kernel: None };
        let right = cached.cache.read(&request, |bytes| bytes[..16] == content(1, block.index)).unwrap();
        assert!(right, "{block}");
        assert!(cached.cache.drain_tiers(PATIENCE));
        let after = counters();
        let tier = (0..4).find(|&tier| after[tier] > before[tier]).expect("some tier served it");
        found[owner.0 as usize - 1][tier] += 1;
        before = after;
        assert_eq!(Distance::at(tier), served, "seed {seed}: reference {number}, of {owner:?} to {block}");
    }
    mounted.validate();
    assert_eq!(found, expected, "seed {seed}");
    let stats = cached.cache.tier_stats();
    let moves = [0, 1].map(|number| [stats[number].demotions, stats[number].placements]);
    assert_eq!(moves, moved(&done), "seed {seed}");
    assert!(stats.iter().all(|stat| stat.dropped + stat.damaged == 0), "{stats:?}");
    assert!(expected.iter().all(|owner| owner.iter().all(|&count| count > 0)), "{expected:?}");
    println!("seed {seed}: {expected:?}, moved {moves:?}");
}

#[test]
fn owners_with_hints_are_served_from_the_tiers_that_the_simulator_says() {
    for seed in 1..=6 {
        for (blocks, passing) in [(60, Some(1)), (90, None), (150, Some(5))] {
            compare(seed, blocks, passing);
        }
    }
}

#[test]
fn the_log_says_where_each_block_went_and_by_which_rule() {
    let shared = Shared::new(40);
    let cached = Cached::choosing(11, Some(1), vec![shared.client("one")], |options| options.log = 1000);
    (1..=2).for_each(|file| cached.share(file, file));
    cached.cache.with_steward(|steward| steward.set_priority(OwnerId(1), FileId(2), -1)).unwrap();
    let origin = Origin::new();
    let said = |file: u64, index: u64| {
        let about = Block::new(FileId(file), index);
        cached.cache.with_steward(|steward| {
            let decisions = steward.decisions().filter(|decision| decision.victim == about);
            let placed = decisions.filter(|decision| decision.rule != Rule::LeastRecentlyUsed);
            placed.map(|decision| (decision.rule, decision.to)).collect::<Vec<_>>()
        })
    };
    let read = |file, index| drop(cached.read(&origin, file, index));
    // Tier 1 is full of wanted blocks but for one.
    read(2, 0);
    (0..9).for_each(|index| read(1, index));
    assert!(said(1, 0).is_empty());
    read(1, 20);
    assert_eq!(said(1, 20), [(Rule::Passes, Some(Distance(2)))]);
    // It comes nearer when it is read again: the unwanted one leaves for that, then a wanted one.
    read(1, 21);
    read(1, 20);
    assert_eq!(said(2, 0), [(Rule::Unwanted, None)]);
    read(1, 21);
    assert!(said(1, 0).contains(&(Rule::Demoted, Some(Distance(2)))), "{:?}", said(1, 0));
    let keep = |index| cached.cache.with_steward(|steward| steward.explain(Block::new(FileId(1), index)));
    assert_eq!(keep(21).and_then(|block| block.keep), Some(Distance(1)));
}
