//! What the simulator decides is what happens.

use super::*;

/// Skewed: a few blocks often, many seldom; and a loop now and then.
pub fn references(count: usize, blocks: u64, seed: u64) -> Vec<u64> {
    let mut draws = Draws::new(seed);
    let mut at = 0;
    (0..count)
        .map(|_| match draws.below(3) {
            0 => {
                at = (at + 1) % blocks;
                at
            }
            1 => draws.below(blocks),
            _ => draws.below(blocks / 8),
        })
        .collect()
}

/// Hits of each tier, and what came into the lower ones from the tier above and from below.
#[derive(Debug, Default, PartialEq)]
struct Tallied {
    hits: [u64; 3],
    misses: u64,
    demotions: [u64; 2],
    placements: [u64; 2],
}

impl Tallied {
    /// What the simulator decides, with as many tiers.
    fn expected(protocol: &mut dyn Protocol, tiers: u8, references: &[(Client, u64)]) -> Self {
        let mut expected = Self::default();
        let mut steps = Vec::new();
        for &(client, block) in references {
            let retrieval = protocol.reference(client, block as u32, &mut steps);
            match retrieval.from {
                Distance(level) if level <= tiers => expected.hits[usize::from(level) - 1] += 1,
                _ => expected.misses += 1,
            }
            if let Distance(level @ 2..) = retrieval.keep
                && retrieval.keep < retrieval.from
                && level <= tiers
            {
                expected.placements[usize::from(level) - 2] += 1;
            }
        }
        for step in steps {
            match step {
                Step::Demote { from: Distance(level), .. } => expected.demotions[usize::from(level) - 1] += 1,
                Step::Place { into: Distance(level), .. } => expected.placements[usize::from(level) - 2] += 1,
                _ => {}
            }
        }
        protocol.validate();
        expected
    }

    /// What caches over lower tiers did.
    fn found(caches: &[Cached], origin: &Origin) -> Self {
        let mut found = Self { misses: origin.reads.load(Ordering::SeqCst), ..Self::default() };
        for cached in caches {
            found.hits[0] += cached.cache.with_steward(|steward| steward.totals()).hits;
            for (number, stat) in cached.cache.tier_stats().iter().enumerate() {
                found.hits[number + 1] += stat.hits;
                found.demotions[number] += stat.demotions;
                found.placements[number] += stat.placements;
                assert_eq!(stat.dropped + stat.damaged, 0);
            }
        }
        found
    }
}

/// Some read again at once, or soon.
fn with_repetitions(references: impl IntoIterator<Item = (Client, u64)>, seed: u64) -> Vec<(Client, u64)> {
    let mut draws = Draws::new(seed);
    let mut all: Vec<(Client, u64)> = Vec::new();
    for reference in references {
        all.push(reference);
        while draws.below(3) == 0 {
            let back = 1 + draws.below(24) as usize;
            let again = if draws.below(2) == 0 { 1 } else { back };
            all.push(all[all.len() - again.min(all.len())]);
        }
    }
    all
}

#[test]
fn hits_and_demotions_are_those_that_the_simulator_decides() {
    for (seed, blocks) in [(1, 60), (2, 100), (3, 300)] {
        for passing in [Some(1), Some(5), None] {
            const FRAMES: u32 = 40;
            let folder = tempfile::tempdir().unwrap();
            let tier = ssd(folder.path(), 40);
            let sizes = Sizes::new(&[FRAMES, tier.frames(BLOCK)]).unwrap();
            let cached = Cached::with_passing(FRAMES, passing, vec![tier]);
            cached.share(1, 1);
            let origin = Origin::new();
            let alone = references(2000, blocks, seed).into_iter().map(|block| (Client(0), block));
            let all = with_repetitions(alone, seed + 50);
            for (_, block) in &all {
                assert_eq!(cached.read(&origin, 1, *block), content(1, *block));
            }
            let mut twin = UlcAlone::with_passing(sizes, passing.map_or(Passing::Share, Passing::Frames));
            let expected = Tallied::expected(&mut twin, 2, &all);
            let found = Tallied::found(&[cached], &origin);
            assert_eq!(found, expected, "seed {seed}, {blocks} blocks, {passing:?} pass");
        }
    }
}

#[test]
fn blocks_go_down_from_tier_to_tier_as_the_simulator_decides() {
    for (seed, blocks) in [(1, 100), (2, 180), (3, 300)] {
        for passing in [Some(1), Some(4), None] {
            const FRAMES: u32 = 30;
            let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
            let [near, far] = [ssd(folders[0].path(), 40), ssd(folders[1].path(), 60)];
            let sizes = Sizes::new(&[FRAMES, near.frames(BLOCK), far.frames(BLOCK)]).unwrap();
            let cached = Cached::with_passing(FRAMES, passing, vec![near, far]);
            cached.share(1, 1);
            let origin = Origin::new();
            let alone = references(2000, blocks, seed).into_iter().map(|block| (Client(0), block));
            let all = with_repetitions(alone, seed + 50);
            for (_, block) in &all {
                assert_eq!(cached.read(&origin, 1, *block), content(1, *block));
            }
            let mut twin = UlcAlone::with_passing(sizes, passing.map_or(Passing::Share, Passing::Frames));
            let expected = Tallied::expected(&mut twin, 3, &all);
            let found = Tallied::found(&[cached], &origin);
            assert!(expected.hits[2] > 0 && expected.demotions[1] > 0, "{expected:?}");
            assert_eq!(found, expected, "seed {seed}, {blocks} blocks, {passing:?} pass");
        }
    }
}

#[test]
fn a_tier_of_this_machine_before_one_that_is_shared_does_as_in_the_simulator() {
    for (seed, blocks) in [(1, 100), (2, 180), (3, 300)] {
        const FRAMES: u32 = 30;
        let folder = tempfile::tempdir().unwrap();
        let (near, shared) = (ssd(folder.path(), 40), Shared::new(60));
        let sizes = Sizes::new(&[FRAMES, near.frames(BLOCK), 60]).unwrap();
        let cached = Cached::with_passing(FRAMES, None, vec![near, shared.client_that_knows("one", 60)]);
        cached.share(1, 1);
        let origin = Origin::new();
        let alone = references(2000, blocks, seed).into_iter().map(|block| (Client(0), block));
        let all = with_repetitions(alone, seed + 50);
        for (_, block) in &all {
            assert_eq!(cached.read(&origin, 1, *block), content(1, *block));
        }
        let mut twin = UlcAlone::with_passing(sizes, Passing::Share);
        let expected = Tallied::expected(&mut twin, 3, &all);
        let found = Tallied::found(&[cached], &origin);
        within_a_hundredth(&found, &expected, &format!("seed {seed}, {blocks} blocks"));
    }
}

#[test]
fn several_clients_on_one_tier_do_as_in_the_simulator() {
    const CLIENTS: usize = 3;
    const NEAR: u32 = 20;
    for (seed, blocks, frames) in [(1, 80, 40), (2, 150, 60), (3, 60, 100)] {
        for passing in [Some(1), Some(4), None] {
            let shared = Shared::new(frames);
            let caches: Vec<Cached> = (0..CLIENTS)
                .map(|client| {
                    Cached::with_passing(NEAR, passing, vec![shared.client(&format!("client-{client}"))])
                })
                .collect();
            caches.iter().for_each(|cached| cached.share(1, 1));
            let origin = Origin::new();
            let mut draws = Draws::new(seed);
            let mixed = references(3000, blocks, seed + 100).into_iter().map(|block| {
                let client = draws.below(CLIENTS as u64);
                // Half of the blocks are of one client each.
                (Client(client as u16), if block % 2 == 0 { block } else { block + 1000 * client })
            });
            let all = with_repetitions(mixed, seed + 50);
            for (client, block) in &all {
                assert_eq!(caches[usize::from(client.0)].read(&origin, 1, *block), content(1, *block));
            }
            let sizes = Sizes::new(&[NEAR, frames]).unwrap();
            let passes = passing.map_or(Passing::Share, Passing::Frames);
            let mut twin = UlcClients::with_passing(&sizes, CLIENTS as u16, Order::Access, passes);
            let expected = Tallied::expected(&mut twin, 2, &all);
            let found = Tallied::found(&caches, &origin);
            let what = format!("seed {seed}, {blocks} blocks, {frames} frames, {passing:?} pass");
            within_a_hundredth(&found, &expected, &what);
        }
    }
}

/// Several clients: what is demoted stands in the tier by its age, which is as exact as clocks and
/// threads are.
fn within_a_hundredth(found: &Tallied, expected: &Tallied, what: &str) {
    let requests = expected.hits.iter().sum::<u64>() + expected.misses;
    println!("{what}: {found:?}, expected {expected:?}");
    let close = |one: u64, other: u64| one.abs_diff(other) <= requests / 100;
    let all = found.hits.iter().zip(&expected.hits).all(|(one, other)| close(*one, *other));
    assert!(all && close(found.misses, expected.misses), "{what}: {found:?}, expected {expected:?}");
    let moved = |tallied: &Tallied| [tallied.demotions, tallied.placements].concat();
    let all = moved(found).into_iter().zip(moved(expected)).all(|(one, other)| close(one, other));
    assert!(all, "{what}: {found:?}, expected {expected:?}");
}
