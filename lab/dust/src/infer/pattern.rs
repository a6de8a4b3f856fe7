//! Patterns: ways to treat a cache that make policies differ.
//!
//! A pattern is a function of the estimated capacity and of random numbers, so there are endlessly
//! many scripts of each. Random scripts ([`stack_distance`], [`zipf`]) separate most policies at
//! least cost; the others are for what they leave open. Some of the paper's are for its figures
//! alone.

mod ladders;
mod paper;
mod phases;
mod references;

use super::random::Random;
use super::script::Script;

pub use paper::{UseBits, history, main_queue, short_term};
pub use references::{stack_distance, zipf};

/// A way to treat a cache of about some blocks, from cold.
pub type Pattern = fn(u32, &mut Random) -> Script;

/// The patterns that tell policies apart, by name.
pub const ALL: [(&str, Pattern); 16] = [
    // The paper's short-term fingerprint, from a cold cache.
    ("short-term", |capacity, random| short_term(capacity, UseBits::Cold, random).0),
    ("short-term-all-bits", |capacity, random| short_term(capacity, UseBits::AllSet, random).0),
    ("short-term-half-bits", |capacity, random| short_term(capacity, UseBits::HalfSet, random).0),
    ("history", |capacity, random| history(capacity, UseBits::Cold, random).0),
    ("loop", phases::cyclic),
    ("scan-resistance", phases::scan_resistance),
    ("ghost-ladder", ladders::ghosts),
    ("second-chance-ladder", ladders::second_chance),
    ("admission-ladder", ladders::admission),
    ("quick-demotion", phases::quick_demotion),
    ("frequency-ageing", |capacity, random| phases::frequency_ageing(capacity, 5, random)),
    ("long-ageing", |capacity, random| phases::frequency_ageing(capacity, 20, random)),
    ("eviction-order", phases::eviction_order),
    ("clock-hand", phases::clock_hand),
    ("zipf", |capacity, random| zipf(capacity, capacity * 6, random)),
    ("stack-distance", |capacity, random| stack_distance(capacity, capacity * 6, random)),
];

/// One script of each pattern.
pub fn scripts(capacity: u32, random: &mut Random) -> impl Iterator<Item = Script> {
    ALL.iter().map(move |(name, pattern)| {
        let script = pattern(capacity.max(10), random);
        Script { pattern: (*name).into(), ..script }
    })
}

/// `share` of the capacity, at least 1.
fn part(capacity: u32, share: f64) -> u32 {
    ((f64::from(capacity) * share).round() as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_cold_dense_seeded_and_not_too_long() {
        for capacity in [10, 37, 100, 1000] {
            let again: Vec<Script> = scripts(capacity, &mut Random::new(5)).collect();
            for (script, again) in scripts(capacity, &mut Random::new(5)).zip(again) {
                let name = format!("{} at {capacity}", script.pattern);
                assert!(script.cold && script == again, "{name}");
                let (accesses, blocks) = (script.accesses.len() as u32, script.blocks());
                assert!(accesses <= 14 * capacity + 40, "{name}: {accesses}");
                // Anything smaller than the cache shows nothing, unless the estimate is too high.
                assert!(blocks > capacity, "{name}: {blocks} blocks");
                let mut seen = vec![false; blocks as usize];
                script.accesses.iter().for_each(|&block| seen[block as usize] = true);
                assert!(seen.iter().filter(|&&seen| !seen).count() as u32 <= capacity / 5, "{name}");
                assert!(script.probes.iter().all(|&at| at < script.accesses.len()));
            }
        }
    }
}
