//! Caches that do nearly what is known, asked with what is expected of real targets: they must not
//! be taken for it.

use crate::caches::{Choice, NEARLY_LRU, STRANGERS, Stranger};
use pantler_dust::infer::family::Family;
use pantler_dust::infer::random::Random;
use pantler_dust::targets::expectations;
use pantler_dust::{Inquiry, Known, Options, Verdict, investigate};

/// Policies that might be taken for one of them; all of them would take minutes.
const RIVALS: [&str; 14] = [
    "lru",
    "sfifo",
    "slru",
    "lrfu",
    "2q",
    "fifo",
    "clock",
    "mru",
    "linux",
    "memcached",
    "redis-lru",
    "redis-lfu",
    "random",
    "lru-k",
];

fn ask(target: &str, frames: u32, seed: u64, choice: Choice) -> Verdict {
    let mut options = Options { seed, ..expectations(target) };
    options.families.retain(|family: &&Family| RIVALS.contains(&family.name));
    let mut stranger = Stranger::new(choice, frames, 0.0, Random::new(seed)).restless();
    investigate(Inquiry::new(options), &mut stranger).expect("it always answers").verdict()
}

/// None may be known, but LRU itself.
fn nobody_is_known(target: &str, frames: u32, strangers: &[(&str, Choice)]) {
    let mut known = Vec::new();
    for &(name, choice) in strangers {
        let verdict = ask(target, frames, 1, choice);
        if verdict.verdict == Known::Known {
            println!("{target} {name}: {verdict:?}");
            known.push((name, verdict.policy));
        }
    }
    assert!(known.is_empty(), "{target}: {known:?}");
    let verdict = ask(target, frames, 1, |_, _| 0);
    assert_eq!((verdict.verdict, verdict.family.as_str()), (Known::Known, "lru"), "{target}: {verdict:?}");
    assert!((verdict.interval.0..=verdict.interval.1).contains(&frames), "{target}: {verdict:?}");
}

/// Those that are not within the noise of readings that are timed.
fn timed() -> Vec<(&'static str, Choice)> {
    let often = |name: &str| name.starts_with("each 5th") || name.starts_with("each 10th");
    NEARLY_LRU.into_iter().filter(|(name, _)| often(name)).collect()
}

/// All but one that looks random, which is dear to tell with seventy keys.
fn said() -> Vec<(&'static str, Choice)> {
    NEARLY_LRU.into_iter().chain(STRANGERS.into_iter().take(3)).collect()
}

#[test]
fn behind_redis() {
    nobody_is_known("redis://x", 70, &said());
}

#[test]
fn behind_memcached() {
    nobody_is_known("memcached://x", 120, &said());
}

#[test]
fn behind_a_proxy() {
    nobody_is_known("http://x", 120, &said());
}

#[test]
fn behind_a_mount() {
    nobody_is_known("mount x", 256, &timed());
}

#[test]
fn behind_a_page_cache() {
    nobody_is_known("pagecache", 800, &timed());
}
