//! Patterns: ways to treat a cache that make policies differ.
//!
//! A pattern is a function of the estimated capacity and of random numbers, so there are endlessly
//! many scripts of each. Random scripts ([`Pattern::StackDistance`], [`Pattern::Zipf`]) separate
//! most policies at least cost. The others are for what they leave open, for estimating parameters,
//! and for plots that people understand.

mod ladders;
mod paper;
mod phases;
mod references;

use super::random::Random;
use super::script::Script;

pub use paper::{UseBits, history, main_queue, short_term, stripe_reads};
pub use references::{stack_distance, zipf};

/// The patterns, by what they show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// The paper's short-term fingerprint, from a cold cache.
    ShortTerm,
    /// The same after a warm-up that sets all use bits.
    ShortTermAllBits,
    /// The same after a warm-up that leaves half of the use bits set.
    ShortTermHalfBits,
    /// The paper's history fingerprint.
    History,
    /// Cyclic scans, a little or much larger than the cache.
    Loop,
    /// A hot set, a long scan, the hot set again.
    ScanResistance,
    /// Blocks that return after growing distances beyond the cache: which policies remember what
    /// they replaced, and how many.
    GhostLadder,
    /// Blocks touched again at growing depth inside the cache: which policies give a second chance,
    /// and when.
    SecondChanceLadder,
    /// Newcomers touched once, twice, up to eight times: what earns a place.
    AdmissionLadder,
    /// One-hit wonders among a working set: which policies drop them early.
    QuickDemotion,
    /// A set that was hot against a set that is hot now: which policies forget frequency.
    FrequencyAgeing,
    /// The same after enough references to the first set that every policy with ageing has aged its
    /// counts.
    LongAgeing,
    /// Which end of a region goes first: tells MRU, LIFO and MFU apart.
    EvictionOrder,
    /// Use bits set one by one, newcomers, survivors: where the hand is and what it leaves.
    ClockHand,
    /// Independent references of skewed popularity.
    Zipf,
    /// References at log-uniform stack distances.
    StackDistance,
    /// Touches with pauses between them: which policies read a clock.
    TimeGaps,
}

impl Pattern {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::ShortTerm,
        Self::ShortTermAllBits,
        Self::ShortTermHalfBits,
        Self::History,
        Self::Loop,
        Self::ScanResistance,
        Self::GhostLadder,
        Self::SecondChanceLadder,
        Self::AdmissionLadder,
        Self::QuickDemotion,
        Self::FrequencyAgeing,
        Self::LongAgeing,
        Self::EvictionOrder,
        Self::ClockHand,
        Self::Zipf,
        Self::StackDistance,
        Self::TimeGaps,
    ];

    /// The name, as in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::ShortTerm => "short-term",
            Self::ShortTermAllBits => "short-term-all-bits",
            Self::ShortTermHalfBits => "short-term-half-bits",
            Self::History => "history",
            Self::Loop => "loop",
            Self::ScanResistance => "scan-resistance",
            Self::GhostLadder => "ghost-ladder",
            Self::SecondChanceLadder => "second-chance-ladder",
            Self::AdmissionLadder => "admission-ladder",
            Self::QuickDemotion => "quick-demotion",
            Self::FrequencyAgeing => "frequency-ageing",
            Self::LongAgeing => "long-ageing",
            Self::EvictionOrder => "eviction-order",
            Self::ClockHand => "clock-hand",
            Self::Zipf => "zipf",
            Self::StackDistance => "stack-distance",
            Self::TimeGaps => "time-gaps",
        }
    }

    /// A script for a cache of about `capacity` blocks, from cold.
    pub fn script(self, capacity: u32, random: &mut Random) -> Script {
        let capacity = capacity.max(10);
        let mut script = match self {
            Self::ShortTerm => short_term(capacity, UseBits::Cold, random),
            Self::ShortTermAllBits => short_term(capacity, UseBits::AllSet, random),
            Self::ShortTermHalfBits => short_term(capacity, UseBits::HalfSet, random),
            Self::History => history(capacity, UseBits::Cold, random),
            Self::Loop => phases::cyclic(capacity, random),
            Self::ScanResistance => phases::scan_resistance(capacity, random),
            Self::GhostLadder => ladders::ghosts(capacity, random),
            Self::SecondChanceLadder => ladders::second_chance(capacity, random),
            Self::AdmissionLadder => ladders::admission(capacity, random),
            Self::QuickDemotion => phases::quick_demotion(capacity, random),
            Self::FrequencyAgeing => phases::frequency_ageing(capacity, 5, random),
            Self::LongAgeing => phases::frequency_ageing(capacity, 20, random),
            Self::EvictionOrder => phases::eviction_order(capacity, random),
            Self::ClockHand => ladders::clock_hand(capacity, random),
            Self::Zipf => zipf(capacity, capacity * 6, random),
            Self::StackDistance => stack_distance(capacity, capacity * 6, random),
            Self::TimeGaps => phases::time_gaps(capacity, random),
        };
        script.pattern = self.name().into();
        script
    }
}

/// `share` of the capacity, at least 1.
fn part(capacity: u32, share: f64) -> u32 {
    ((f64::from(capacity) * share).round() as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_cold_dense_seeded_and_not_too_long() {
        for pattern in Pattern::ALL {
            for capacity in [10, 37, 100, 1000] {
                let script = pattern.script(capacity, &mut Random::new(5));
                assert!(script.cold && script.pattern == pattern.name());
                assert_eq!(script, pattern.script(capacity, &mut Random::new(5)), "{pattern:?}");
                let (accesses, blocks) = (script.accesses.len() as u32, script.blocks());
                assert!(accesses <= 14 * capacity + 40, "{pattern:?} at {capacity}: {accesses}");
                // Anything smaller than the cache shows nothing, unless the estimate is too high.
                assert!(blocks > capacity, "{pattern:?} at {capacity}: {blocks} blocks");
                let mut seen = vec![false; blocks as usize];
                script.accesses.iter().for_each(|&block| seen[block as usize] = true);
                assert!(seen.iter().filter(|&&seen| !seen).count() as u32 <= capacity / 5, "{pattern:?}");
                assert!(script.probes.iter().all(|&at| at < script.accesses.len()));
            }
        }
    }
}
