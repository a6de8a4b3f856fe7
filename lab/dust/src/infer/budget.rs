//! The budget: how many accesses a cache may be asked, though its capacity is only about to be
//! found out.
//!
//! ```text
//!   floor     reads   7 3 9 4 | 3 8 9 3 4 ..    3, 9 and 4, hits since the bar, were there at it
//!   ceiling   reads   7 3 9 7 4 2 3 9 8 7 ..    3 and 7 are missing: full with 5 or 6 blocks
//!   believed  what the best fit says; if it draws, all around it, since its likelihood is rough
//! ```
//!
//! B1  Floor and ceiling hold whatever the policy is, so a fit that is wrong does not make the
//!     budget large.
//! B2  Blocks get into a cache only by being read, so whatever is a hit at its first read since
//!     some moment was there at that moment. From an empty cache nothing leaves before it is full.
//! B3  Misleading observations are taken out of the counts, and so is what they may do to them by
//!     chance.

use super::evidence::{Evidence, Visit, seen};
use super::hypothesis::Hypothesis;
use super::rank::TEMPER;
use super::refine::Fit;
use super::score::Scorer;

/// Moments of a visit that are tried for the floor.
const MOMENTS: usize = 64;
/// Standard deviations that chance may bring to it: many moments are tried.
const CHANCE: f64 = 3.0;
/// Share of references to known blocks that are missing once a cache is full, about; and the
/// natural logarithm of the odds from which on it counts as full.
const MISSING: f64 = 0.3;
const FULL: f64 = 12.0;
/// The likelihood of what draws nothing is steep in the capacity: where it fits, that is not too
/// high by more than this.
const STEEP: f64 = 1.08;
/// Capacities around the one that the search found, as shares of it, and draws for each.
const AROUND: (f64, f64, f64) = (0.72, 1.04, 0.025);
const DRAWS: u32 = 48;

/// Blocks that the cache holds at least.
pub fn floor(evidence: &Evidence, noise: f64) -> u32 {
    let at_once = |visit: &Visit| {
        let stride = visit.accesses.len().div_ceil(MOMENTS).max(1);
        let moments = (0..visit.accesses.len()).step_by(stride);
        moments.map(|moment| there(visit, moment, noise)).fold(0.0, f64::max)
    };
    evidence.visits().iter().map(at_once).fold(0.0, f64::max) as u32
}

/// Blocks that were there at a moment, at least.
fn there(visit: &Visit, moment: usize, noise: f64) -> f64 {
    // Blocks are numbered by first use, and what was never read before is a miss.
    let known = visit.accesses[..moment].iter().max().map_or(0, |&block| block as usize + 1);
    let mut read = vec![false; known];
    let (mut hits, mut reads, mut least) = (0.0, 0.0, 0.0f64);
    for (&block, &odds) in visit.accesses[moment..].iter().zip(&visit.odds[moment..]) {
        let Some(read) = read.get_mut(block as usize).filter(|read| !**read) else { continue };
        *read = true;
        reads += 1.0;
        hits += seen(odds);
        let chance = CHANCE * (reads * noise * (1.0 - noise)).sqrt();
        least = least.max((hits - noise * reads - chance) / (1.0 - 2.0 * noise));
    }
    least
}

/// Blocks that the cache holds at most, if every visit finds it empty: those that were read when it
/// was full for sure.
pub fn ceiling(evidence: &Evidence, noise: f64) -> u32 {
    evidence.visits().iter().filter_map(|visit| full(visit, noise)).min().unwrap_or(u32::MAX)
}

/// A sum of the evidence that known blocks are missing now, which starts again whenever there is
/// none.
fn full(visit: &Visit, noise: f64) -> Option<u32> {
    let missing = noise + (1.0 - 2.0 * noise) * MISSING;
    let (miss, hits) = ((missing / noise).ln(), ((1.0 - missing) / (1.0 - noise)).ln());
    let (mut blocks, mut sum) = (0, 0.0f64);
    for (&block, &odds) in visit.accesses.iter().zip(&visit.odds) {
        if block == blocks {
            blocks += 1;
            continue;
        }
        let hit = seen(odds);
        sum = (sum + (1.0 - hit) * miss + hit * hits).max(0.0);
        if sum > FULL {
            return Some(blocks);
        }
    }
    None
}

/// The capacity that a fit speaks for at most: about the mean of its tempered likelihood, if it
/// draws.
pub fn believed(fit: &Fit, scorer: &Scorer<'_>) -> u32 {
    let found = fit.hypothesis.frames;
    if !fit.hypothesis.draws() {
        return (f64::from(found) * STEEP) as u32;
    }
    let (from, to, step) = AROUND;
    let shares =
        std::iter::successors(Some(from), |share| Some(share + step)).take_while(|&share| share <= to);
    let mut frames: Vec<u32> =
        shares.map(|share| (f64::from(found) * share).round().max(1.0) as u32).collect();
    frames.dedup();
    let likelihoods: Vec<f64> = frames
        .iter()
        .map(|&frames| scorer.log_likelihood(&Hypothesis { frames, ..fit.hypothesis.clone() }, DRAWS))
        .collect();
    let most = likelihoods.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights = likelihoods.iter().map(|likelihood| (TEMPER * (likelihood - most)).exp());
    let (sum, weight) = frames
        .iter()
        .zip(weights)
        .fold((0.0, 0.0), |(sum, all), (&frames, weight)| (sum + weight * f64::from(frames), all + weight));
    ((sum / weight).round() as u32).min(found)
}
