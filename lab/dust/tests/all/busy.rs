//! A cache on a busy machine, asked by timing alone: what else runs there takes the processor from
//! hits and misses alike, so that hits look like misses and never the other way round.

use pantler_dust::infer::random::Random;
use pantler_dust::targets::SimulatedTarget;
use pantler_dust::{Inquiry, Known, Options, Reading, Script, Target, TargetError, Verdict, investigate};

const FRAMES: u32 = 100;
const POLICIES: [&str; 8] = ["lru", "mru", "fifo", "lfu", "clock", "2q", "arc", "sieve"];
const SEEDS: u64 = 2;

/// Takes as long as a mount on a disk, and some accesses wait.
struct Busy {
    cache: SimulatedTarget,
    /// Share of accesses that wait about as long as a miss takes, and share of those that wait much
    /// longer.
    waits: (f64, f64),
    random: Random,
}

impl Busy {
    fn takes(&mut self, hit: bool) -> u64 {
        let mut between = |least: u32, most: u32| u64::from(least + self.random.below(most - least));
        let took = if hit { between(5_000, 9_000) } else { between(80_000, 160_000) };
        let (waited, waited_long) = (between(25_000, 200_000), between(1_000_000, 8_000_000));
        let wait = if self.random.chance(self.waits.0) { waited } else { 0 };
        took + wait + if self.random.chance(self.waits.1) { waited_long } else { 0 }
    }
}

impl Target for Busy {
    fn run(&mut self, script: &Script) -> Result<Vec<Reading>, TargetError> {
        let said = self.cache.run(script)?;
        Ok(said
            .into_iter()
            .map(|reading| Reading::Took(self.takes(reading == Reading::Said { hit: true })))
            .collect())
    }
}

fn ask(policy: &str, waits: (f64, f64), seed: u64) -> Verdict {
    let cache = SimulatedTarget::new(policy.parse().expect("a policy"), FRAMES, 0.0, seed).expect("online");
    let mut target = Busy { cache, waits, random: Random::new(seed) };
    let inquiry = investigate(Inquiry::new(Options { seed, ..Options::default() }), &mut target);
    inquiry.expect("it answers").verdict()
}

/// How many are named, none of them wrongly.
fn named(waits: (f64, f64)) -> usize {
    let mut named = 0;
    for seed in 0..SEEDS {
        for policy in POLICIES {
            let verdict = ask(policy, waits, seed);
            let known = verdict.verdict == Known::Known;
            let right = verdict.family == policy || verdict.equivalent.iter().any(|name| name == policy);
            println!("{policy}, seed {seed}, {waits:?}: {} {known} {:.4}", verdict.policy, verdict.mismatch);
            assert!(right || !known, "{policy}, seed {seed}, {waits:?}: {verdict:?}");
            named += usize::from(known);
        }
    }
    named
}

#[test]
fn nobody_is_called_something_else_because_hits_waited() {
    assert_eq!(named((0.03, 0.01)), 16);
    assert!(named((0.10, 0.03)) >= 15);
}
