//! Intervals hold what is true as often as they claim, and names are right, on the grid and off it.
//! `cargo run --release --example coverage` asks more caches.

use crate::caches::{CLAIM, Coverage, Trial, truths};
use pantler_dust::Options;
use pantler_dust::infer::random::Random;

/// Replays with another seed: change it here.
const SEED: u64 = 2026;

/// Of those that draw, and of those that do not: on the grid, and off it.
fn coverage(draws: bool, rounds: u32) -> Coverage {
    let (mut coverage, mut random) = (Coverage::default(), Random::new(SEED));
    for round in 0..rounds {
        for truth in truths(80, round % 2 == 0, &mut random) {
            let (seed, luck) = (random.word(), random.word() >> 40);
            if truth.family.draws != draws {
                continue;
            }
            let spec = truth.family.spec(&truth.values, luck).expect("a policy");
            let trial = Trial { spec, frames: truth.frames, noise: 0.02, interference: 0.0, seed };
            let missed = coverage.enter(&truth, &trial.ask(Options::default()).expect("it is online"));
            if !missed.is_empty() {
                println!("{trial:?}: {missed:?}");
            }
        }
    }
    println!("{coverage}");
    coverage
}

/// Two more than are expected may miss the truth, by chance.
fn holds(coverage: &Coverage) {
    for count in [coverage.capacity, coverage.measured] {
        let missed = f64::from(count.all - count.covered);
        assert!(missed <= (1.0 - CLAIM) * f64::from(count.all) + 2.0, "{coverage}");
    }
}

#[test]
fn intervals_hold_the_truth() {
    let coverage = coverage(false, 4);
    assert!(coverage.capacity.all > 100, "{coverage}");
    // Wide intervals would always do.
    assert!(coverage.capacity.width < 0.04 * f64::from(coverage.capacity.all), "{coverage}");
    holds(&coverage);
    assert!(coverage.others <= 2, "{coverage}");
}

#[test]
fn intervals_of_who_draws_hold_the_truth() {
    let coverage = coverage(true, 8);
    assert!(coverage.capacity.all > 20, "{coverage}");
    assert!(coverage.capacity.width < 0.25 * f64::from(coverage.capacity.all), "{coverage}");
    holds(&coverage);
}
