//! Ladders: the same treatment with one number growing from rung to rung, so that a threshold shows
//! as a step.

use super::super::random::Random;
use super::super::script::Script;
use super::part;

/// Blocks are read once, pushed out, read again at distances of 1.1 to 2.2 capacities, and probed
/// after further newcomers: a policy that remembers them keeps them.
pub(super) fn ghosts(capacity: u32, random: &mut Random) -> Script {
    let mut script = Script::cold("ghost-ladder");
    let rung = part(capacity, 0.12);
    let rungs = 6;
    let mut newcomer = rung * rungs;
    // Rung 0 is read first and so returns from furthest away.
    for step in 0..rungs {
        script.scan(step * rung..(step + 1) * rung);
        let between = part(capacity, 0.1);
        script.scan(newcomer..newcomer + between);
        newcomer += between;
    }
    let push = part(capacity, 0.75 + 0.3 * random.unit());
    script.scan(newcomer..newcomer + push);
    newcomer += push;
    let mut returning: Vec<u32> = (0..rung * rungs).collect();
    random.shuffle(&mut returning);
    script.scan(returning);
    script.scan(newcomer..newcomer + part(capacity, 0.7));
    script.probe_shuffled(0..rung * rungs, random);
    script
}

/// The cache is filled, blocks at ten depths are touched again once, and newcomers push out what
/// has no second chance.
pub(super) fn second_chance(capacity: u32, random: &mut Random) -> Script {
    let mut script = Script::cold("second-chance-ladder");
    let filled = part(capacity, 0.95);
    script.scan(0..filled);
    let kept = random.below(2);
    script.scan((0..filled).filter(|block| block % 2 == kept));
    let push = part(capacity, 0.45 + 0.3 * random.unit());
    script.scan(filled..filled + push);
    script.scan((0..filled).filter(|block| block % 5 == 0));
    script.scan(filled + push..filled + 2 * push);
    script.probe_shuffled(0..filled, random);
    script
}

/// A warm cache, and newcomers that are touched once, twice, up to eight times before others
/// arrive.
pub(super) fn admission(capacity: u32, random: &mut Random) -> Script {
    let mut script = Script::cold("admission-ladder");
    let warm = part(capacity, 0.9);
    (0..2).for_each(|_| script.scan(0..warm));
    let rung = part(capacity, 0.07);
    let mut rungs: Vec<u32> = (0..8).collect();
    random.shuffle(&mut rungs);
    for &touches in &rungs {
        let start = warm + touches * rung;
        for _ in 0..=touches {
            script.scan(start..start + rung);
        }
    }
    let end = warm + 8 * rung;
    script.scan(end..end + part(capacity, 0.5));
    script.probe_shuffled(warm..end, random);
    script.probe_shuffled((0..warm).filter(|block| block % 3 == 0), random);
    script
}
