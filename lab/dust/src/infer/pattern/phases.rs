//! Phases: sets of blocks that are hot, cold, scanned or forgotten.

use super::super::random::Random;
use super::super::script::Script;
use super::part;

/// Three rounds over a set 1.05 to 1.4 times as large as the cache.
pub(super) fn cyclic(capacity: u32, random: &mut Random) -> Script {
    let mut script = Script::cold("loop");
    let set = part(capacity, 1.05 + 0.35 * random.unit()).max(capacity + 1);
    (0..3).for_each(|_| script.scan(0..set));
    script
}

/// A hot set touched twice or thrice, a scan of 1 to 2 capacities, and the hot set again.
pub(super) fn scan_resistance(capacity: u32, random: &mut Random) -> Script {
    let mut script = Script::cold("scan-resistance");
    let hot = part(capacity, 0.3 + 0.4 * random.unit());
    let scan = part(capacity, 1.0 + random.unit()).max(capacity);
    script.scan(0..hot);
    let rounds = 1 + random.below(3);
    (0..rounds).for_each(|_| script.scan(0..hot));
    script.scan(hot..hot + scan);
    script.probe_shuffled(0..hot, random);
    script
}

/// A working set of half the cache keeps being read among newcomers read once, which are probed at
/// several ages.
pub(super) fn quick_demotion(capacity: u32, random: &mut Random) -> Script {
    let mut script = Script::cold("quick-demotion");
    let working = part(capacity, 0.4 + 0.2 * random.unit());
    let ages = [0.05, 0.1, 0.2, 0.35, 0.5].map(|share| part(capacity, share));
    script.scan((0..working).chain(0..working));
    for wonder in 0..part(capacity, 1.5) {
        script.touch(working + wonder);
        script.touch(random.below(working));
        let age = ages[random.below(5) as usize];
        if wonder > age && random.chance(0.3) {
            script.probe(working + wonder - age);
        }
    }
    script
}

/// A set read some times, then another of the same size read thrice with newcomers between, then
/// both are probed.
pub(super) fn frequency_ageing(capacity: u32, times: u32, random: &mut Random) -> Script {
    let mut script = Script::cold("frequency-ageing");
    let set = part(capacity, 0.5);
    (0..times).for_each(|_| script.scan(0..set));
    let mut newcomer = 2 * set;
    for _ in 0..3 {
        script.scan(set..2 * set);
        let more = part(capacity, 0.1 + 0.2 * random.unit());
        script.scan(newcomer..newcomer + more);
        newcomer += more;
    }
    script.scan(newcomer..newcomer + part(capacity, 0.25));
    script.probe_shuffled(0..2 * set, random);
    script
}

/// A region with frequencies that fall along it, a region read once, newcomers, and then everything
/// backwards: policies that replace what they last got, used or counted leave different holes.
pub(super) fn eviction_order(capacity: u32, random: &mut Random) -> Script {
    let mut script = Script::cold("eviction-order");
    let counted = part(capacity, 0.6);
    let once = capacity.saturating_sub(counted) + 1;
    for block in 0..counted {
        (0..1 + 3 * (counted - block) / counted).for_each(|_| script.touch(block));
    }
    script.scan(counted..counted + once);
    let mut middle: Vec<u32> = (counted / 3..2 * counted / 3).collect();
    random.shuffle(&mut middle);
    script.scan(middle);
    let newcomers = counted + once;
    script.scan(newcomers..newcomers + part(capacity, 0.3));
    (0..newcomers).rev().step_by(2).for_each(|block| script.probe(block));
    script
}

/// A full cache with all bits set, newcomers that make the hand go round, a random half
/// touched, and newcomers: the order of the survivors tells where the hand stopped, and whether
/// kept blocks moved.
pub(super) fn clock_hand(capacity: u32, random: &mut Random) -> Script {
    let mut script = Script::cold("clock-hand");
    (0..2).for_each(|_| script.scan(0..capacity));
    let few = part(capacity, 0.1 + 0.3 * random.unit());
    script.scan(capacity..capacity + few);
    let mut half: Vec<u32> = (0..capacity + few).collect();
    random.shuffle(&mut half);
    half.truncate(half.len() / 2);
    script.scan(half);
    let more = part(capacity, 0.3);
    script.scan(capacity + few..capacity + few + more);
    script.probe_shuffled(0..capacity + few, random);
    script
}
