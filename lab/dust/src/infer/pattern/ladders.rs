//! Ladders: the same treatment with one number growing from rung to rung, so that a threshold shows
//! as a step.

use super::super::random::Random;
use super::super::trace::Trace;
use super::part;

/// Blocks are read once, pushed out, read again at distances of 1.1 to 2.2 capacities, and probed
/// after further newcomers: a policy that remembers them keeps them.
pub(super) fn ghosts(capacity: u32, random: &mut Random) -> Trace {
    let mut trace = Trace::cold("ghost-ladder");
    let rung = part(capacity, 0.12);
    let rungs = 6;
    let mut newcomer = rung * rungs;
    // Rung 0 is read first and so returns from furthest away.
    for step in 0..rungs {
        trace.scan(step * rung..(step + 1) * rung);
        let between = part(capacity, 0.1);
        trace.scan(newcomer..newcomer + between);
        newcomer += between;
    }
    let push = part(capacity, 0.75 + 0.3 * random.unit());
    trace.scan(newcomer..newcomer + push);
    newcomer += push;
    let mut returning: Vec<u32> = (0..rung * rungs).collect();
    random.shuffle(&mut returning);
    trace.scan(returning);
    trace.scan(newcomer..newcomer + part(capacity, 0.7));
    trace.probe_shuffled(0..rung * rungs, random);
    trace
}

/// The cache is filled, blocks at ten depths are touched again once, and newcomers push out what
/// has no second chance.
pub(super) fn second_chance(capacity: u32, random: &mut Random) -> Trace {
    let mut trace = Trace::cold("second-chance-ladder");
    let filled = part(capacity, 0.95);
    trace.scan(0..filled);
    let kept = random.below(2);
    trace.scan((0..filled).filter(|block| block % 2 == kept));
    let push = part(capacity, 0.45 + 0.3 * random.unit());
    trace.scan(filled..filled + push);
    trace.scan((0..filled).filter(|block| block % 5 == 0));
    trace.scan(filled + push..filled + 2 * push);
    trace.probe_shuffled(0..filled, random);
    trace
}

/// A warm cache, and newcomers that are touched once, twice, up to eight times before others
/// arrive.
pub(super) fn admission(capacity: u32, random: &mut Random) -> Trace {
    let mut trace = Trace::cold("admission-ladder");
    let warm = part(capacity, 0.9);
    (0..2).for_each(|_| trace.scan(0..warm));
    let rung = part(capacity, 0.07);
    let mut rungs: Vec<u32> = (0..8).collect();
    random.shuffle(&mut rungs);
    for &touches in &rungs {
        let start = warm + touches * rung;
        for _ in 0..=touches {
            trace.scan(start..start + rung);
        }
    }
    let end = warm + 8 * rung;
    trace.scan(end..end + part(capacity, 0.5));
    trace.probe_shuffled(warm..end, random);
    trace.probe_shuffled((0..warm).filter(|block| block % 3 == 0), random);
    trace
}

/// A full cache with all bits set, newcomers that make the hand go round, a random half
/// touched, and newcomers: the order of the survivors tells where the hand stopped, and whether
/// kept blocks moved.
pub(super) fn clock_hand(capacity: u32, random: &mut Random) -> Trace {
    let mut trace = Trace::cold("clock-hand");
    (0..2).for_each(|_| trace.scan(0..capacity));
    let few = part(capacity, 0.1 + 0.3 * random.unit());
    trace.scan(capacity..capacity + few);
    let mut half: Vec<u32> = (0..capacity + few).collect();
    random.shuffle(&mut half);
    half.truncate(half.len() / 2);
    trace.scan(half);
    let more = part(capacity, 0.3);
    trace.scan(capacity + few..capacity + few + more);
    trace.probe_shuffled(0..capacity + few, random);
    trace
}
