//! Each pattern separates the policies that it is there for, and would not without the step that it
//! is named after.
//!
//! Likelihoods are counted here by hand: answers that agree with a policy, and those that do not. A
//! policy of unknown capacity gets the best of all that are near.

use std::collections::{HashMap, HashSet};

use pantler_dust::Script;
use pantler_dust::infer::evidence::Visit;
use pantler_dust::infer::pattern::ALL;
use pantler_dust::infer::random::Random;
use pantler_dust::infer::simulate::{self, Nuisances, begin};

const FRAMES: u32 = 100;
const NOISE: f64 = 0.02;
/// Runs of a pattern, each with scripts of its own, and how often all of that is tried.
const RUNS: u32 = 4;
const SEEDS: u64 = 8;
/// Natural logarithm of odds of a hundred thousand to one.
const CLEAR: f64 = 11.5;

/// What a policy says of each access.
fn hits(policy: &str, frames: u32, script: &Script) -> Vec<bool> {
    let spec = policy.parse().expect("a policy");
    let visit = Visit::imagined(script);
    let hits = simulate::hits(&visit, begin(spec, frames, Nuisances::default(), 1, &visit));
    hits.into_iter().map(|hits| hits > 0).collect()
}

/// Log likelihood of what was seen under a policy, with the best capacity within a tenth.
fn likelihood(policy: &str, script: &Script, seen: &[bool]) -> f64 {
    let of = |frames| {
        let agree = hits(policy, frames, script).iter().zip(seen).filter(|(one, other)| one == other).count();
        agree as f64 * (1.0 - NOISE).ln() + (seen.len() - agree) as f64 * NOISE.ln()
    };
    (FRAMES * 9 / 10..=FRAMES * 11 / 10).map(of).fold(f64::NEG_INFINITY, f64::max)
}

/// By how much the truth explains the answers of a cache better than another policy, some of which
/// are wrong.
fn margin(truth: &str, other: &str, script: &Script, random: &mut Random) -> f64 {
    let seen: Vec<bool> =
        hits(truth, FRAMES, script).into_iter().map(|hit| hit != random.chance(NOISE)).collect();
    likelihood(truth, script, &seen) - likelihood(other, script, &seen)
}

/// The same of several runs of a pattern, each without what `cut` takes away.
fn margin_of_runs(truth: &str, other: &str, pattern: &str, cut: Cut, seed: u64) -> f64 {
    let mut random = Random::new(seed);
    let (_, pattern) = ALL.iter().find(|(name, _)| *name == pattern).expect("a pattern");
    let mut run = || {
        let script = cut(&pattern(FRAMES, &mut random));
        margin(truth, other, &script, &mut random)
    };
    (0..RUNS).map(|_| run()).sum()
}

type Cut = fn(&Script) -> Script;

/// Those accesses that are kept, by place and block, and the probes among them.
fn keeping(script: &Script, mut keep: impl FnMut(usize, u32) -> bool) -> Script {
    let mut kept = Script::cold(&script.pattern);
    let probes: HashSet<usize> = script.probes.iter().copied().collect();
    for (at, &block) in script.accesses.iter().enumerate() {
        match (keep(at, block), probes.contains(&at)) {
            (true, true) => kept.probe(block),
            (true, false) => kept.touch(block),
            (false, _) => {}
        }
    }
    kept
}

/// Each block so often at most, before it is probed.
fn touched(script: &Script, times: u32) -> Script {
    let mut reads: HashMap<u32, u32> = HashMap::new();
    let probes = script.probes.first().copied().unwrap_or(usize::MAX);
    keeping(script, |at, block| {
        let count = reads.entry(block).or_default();
        *count += 1;
        at >= probes || *count <= times
    })
}

fn touched_once(script: &Script) -> Script {
    touched(script, 1)
}

/// Only what fits.
fn small(script: &Script) -> Script {
    keeping(script, |_, block| block < FRAMES * 9 / 10)
}

/// A pattern, two policies of which either may be the truth, and the pattern without its essential
/// step.
const PAIRS: &[(&str, &str, &str, &str, Cut)] = &[
    ("short-term", "lru", "fifo", "the pointers", touched_once),
    ("short-term", "lfu", "lru", "stripes read more often", |script| touched(script, 2)),
    // Warm-up: blocks of the region that fills the cache. Only its second half is read once more,
    // in places of their own.
    ("short-term-half-bits", "sieve", "clock-set", "bits of one half", |script| {
        let (full, few) = (2 * FRAMES as usize, 2);
        keeping(script, |at, _| !(full + few..full + few + FRAMES as usize / 2).contains(&at))
    }),
    ("history", "2q", "fifo", "hot was replaced before", |script| {
        keeping(script, |at, _| at >= FRAMES as usize / 2)
    }),
    ("loop", "mru", "lru", "more than fits", small),
    ("scan-resistance", "slru", "lru", "a hot set", touched_once),
    ("ghost-ladder", "2q", "fifo", "the return", touched_once),
    ("ghost-ladder", "2q:out=1", "2q", "the return", touched_once),
    ("second-chance-ladder", "clock", "fifo", "the second touch", touched_once),
    ("admission-ladder", "slru", "lfu", "more touches than one", touched_once),
    ("quick-demotion", "s3-fifo", "sieve", "one-hit wonders", |script| {
        keeping(script, |_, block| block < FRAMES * 2 / 5)
    }),
    ("frequency-ageing", "lfu-aged:every=1", "lfu", "a set that was hot", touched_once),
    ("long-ageing", "lfu-aged:every=1", "lfu", "a set that was hot", touched_once),
    ("eviction-order", "mfu", "mru", "newcomers", small),
    ("eviction-order", "mfu", "lifo", "newcomers", small),
    ("clock-hand", "clock", "sieve", "bits set again", touched_once),
    ("zipf", "lfu", "lru", "what is popular returns", touched_once_at_all),
    ("zipf", "w-tinylfu", "lru", "what is popular returns", touched_once_at_all),
    ("stack-distance", "lru", "fifo", "distances beyond the cache", small),
    ("stack-distance", "arc", "lru", "distances beyond the cache", small),
];

/// Also where nothing is called a probe.
fn touched_once_at_all(script: &Script) -> Script {
    let mut seen = HashSet::new();
    keeping(script, |_, block| seen.insert(block))
}

#[test]
fn each_pattern_separates_its_pair_and_not_without_its_step() {
    for &(pattern, one, other, step, cut) in PAIRS {
        let range = |cut: Cut| {
            let margins: Vec<f64> = (0..SEEDS)
                .flat_map(|seed| {
                    [(one, other, seed), (other, one, SEEDS + seed)]
                        .map(|(truth, other, seed)| margin_of_runs(truth, other, pattern, cut, seed))
                })
                .collect();
            let least = margins.iter().copied().fold(f64::MAX, f64::min);
            (least, margins.iter().copied().fold(f64::MIN, f64::max))
        };
        let (least, most) = (range(Script::clone).0, range(cut).1);
        println!("{:<21} {one} / {other}: {least:.0}; without {step}: {most:.0}", pattern);
        assert!(least > CLEAR, "{pattern} does not separate {one} from {other}: {least:.1}");
        assert!(most < CLEAR, "{pattern} separates {one} from {other} without {step}: {most:.1}");
    }
}

#[test]
fn use_bits_that_are_all_set_show_how_far_they_count() {
    // From cold the counters of GCLOCK are told from bits, too; after the warm-up twice as surely.
    let cold: Cut =
        |script| keeping(script, |_, block| !(FRAMES * 9 / 10..FRAMES * 19 / 10).contains(&block));
    for seed in 0..SEEDS {
        let margin = |cut| margin_of_runs("gclock:max=2", "clock", "short-term-all-bits", cut, seed);
        let (warm, cold) = (margin(Script::clone), margin(cold));
        assert!(warm > 1.3 * cold && warm > CLEAR, "{warm:.1} with the warm-up, {cold:.1} without");
    }
}

#[test]
fn every_pattern_is_tried() {
    for (name, _) in ALL {
        let tried = PAIRS.iter().any(|(pattern, ..)| *pattern == name) || name == "short-term-all-bits";
        assert!(tried, "{name} separates no policies");
    }
}
