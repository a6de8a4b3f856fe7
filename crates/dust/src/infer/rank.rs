//! Ranking: all candidates against all observations, the most likely first.
//!
//! ```text
//!   all leaves x a coarse grid of capacities  ->  best of each leaf  ->  the most likely, refined  ->  with nuisances
//! ```

use super::candidate::Candidate;
use super::family::Family;
use super::refine::{Fit, refine, with_nuisances};
use super::score::Ledger;

/// Factor between neighbours of the coarse grid of capacities.
const CAPACITY_FACTOR: f64 = 1.025;
/// The same of the fine grid: policies that adapt are steep in the capacity.
const CAPACITY_FACTOR_FINE: f64 = 1.006;
/// Leaves that are refined, and how many of one family at most.
const REFINED: usize = 20;
const REFINED_PER_FAMILY: usize = 2;
/// Fits that are tried with nuisances when none explains enough without.
const WITH_NUISANCES: usize = 6;
/// Log likelihood below the best at which a leaf is given up, and so much more for each access.
const MARGIN: f64 = 250.0;
const MARGIN_PER_ACCESS: f64 = 0.05;
/// Log likelihood that a free parameter has to bring: as much as two observations that mislead.
const PARAMETER_COST: f64 = 8.0;
/// Draws on the coarse grid.
const DRAWS_COARSE: u32 = 4;
/// Draws while searching, and for the last word.
pub const DRAWS_SEARCH: u32 = 12;
/// Draws for the last word.
pub const DRAWS_FINAL: u32 = 48;
/// Observations depend on each other once a prediction has gone astray, so differences of log likelihoods are multiplied
/// with this before they become probabilities.
pub const TEMPER: f64 = 0.2;

/// Scores every leaf of the families at capacities in the range, and refines the most likely.
///
/// The coarse grid comes first: what it finds ends most of the fine one early.
pub fn rank(families: &[&'static Family], range: (u32, u32), ledger: &Ledger<'_>) -> Vec<Fit> {
    let leaves =
        families.iter().flat_map(|family| family.leaves().into_iter().map(move |leaf| (*family, leaf)));
    let leaves: Vec<_> = leaves.collect();
    let mut found: Vec<Option<Fit>> = vec![None; leaves.len()];
    let margin = MARGIN + MARGIN_PER_ACCESS * ledger.len() as f64;
    let mut most = f64::NEG_INFINITY;
    let coarse: Vec<u32> = capacities(range, CAPACITY_FACTOR).collect();
    let between: Vec<u32> =
        capacities(range, CAPACITY_FACTOR_FINE).filter(|frames| !coarse.contains(frames)).collect();
    for (grid, fine) in [(coarse, false), (between, true)] {
        for ((family, leaf), found) in leaves.iter().zip(&mut found) {
            // Whoever draws is not steep in anything.
            if family.draws && fine {
                continue;
            }
            for &frames in &grid {
                let candidate = Candidate::new(family, leaf.clone(), frames);
                let floor =
                    found.as_ref().map_or(f64::NEG_INFINITY, |fit| fit.log_likelihood).max(most - margin);
                if let Some(fit) = Fit::above(floor, candidate, ledger, DRAWS_COARSE) {
                    most = most.max(fit.log_likelihood);
                    *found = Some(fit);
                }
            }
        }
    }
    let mut fits: Vec<Fit> = found.into_iter().flatten().collect();
    sort(&mut fits);
    let mut fits: Vec<Fit> =
        most_likely(fits).into_iter().map(|fit| refine(fit, ledger, DRAWS_SEARCH)).collect();
    sort(&mut fits);
    fits
}

/// The most likely of two lists of fits to the same observations.
pub fn merge(mut fits: Vec<Fit>, more: Vec<Fit>) -> Vec<Fit> {
    fits.extend(more);
    sort(&mut fits);
    most_likely(fits)
}

/// Refines what is there after more was observed.
pub fn rank_again(fits: Vec<Fit>, ledger: &Ledger<'_>) -> Vec<Fit> {
    let again = |fit: Fit| refine(Fit::of(fit.candidate, ledger, DRAWS_SEARCH), ledger, DRAWS_SEARCH);
    let mut fits: Vec<Fit> = fits.into_iter().map(again).collect();
    sort(&mut fits);
    fits
}

/// Lets the most likely have nuisances, too.
pub fn rank_with_nuisances(mut fits: Vec<Fit>, ledger: &Ledger<'_>) -> Vec<Fit> {
    for fit in fits.iter_mut().take(WITH_NUISANCES) {
        *fit = with_nuisances(fit, ledger, DRAWS_SEARCH);
    }
    sort(&mut fits);
    fits
}

/// One fit for each name, with its weight: the tempered probability among all that are left.
pub fn posterior(fits: &[Fit]) -> Vec<(f64, &Fit)> {
    let mut best: Vec<&Fit> = Vec::new();
    for fit in fits {
        if !best.iter().any(|other| other.candidate.name() == fit.candidate.name()) {
            best.push(fit);
        }
    }
    let Some(most) = best.first().map(|fit| merit(fit)) else { return Vec::new() };
    let weights: Vec<f64> = best.iter().map(|fit| (TEMPER * (merit(fit) - most)).exp()).collect();
    let sum: f64 = weights.iter().sum();
    best.into_iter().zip(weights).map(|(fit, weight)| (weight / sum, fit)).collect()
}

/// Log likelihood less what free parameters and nuisances cost.
fn merit(fit: &Fit) -> f64 {
    let nuisances = usize::from(fit.candidate.nuisances != Default::default());
    fit.log_likelihood - PARAMETER_COST * (fit.candidate.values.len() + nuisances) as f64
}

/// The most likely first; of equals the one whose family is listed first.
fn sort(fits: &mut [Fit]) {
    fits.sort_by(|one, two| merit(two).total_cmp(&merit(one)));
}

fn most_likely(fits: Vec<Fit>) -> Vec<Fit> {
    let mut chosen: Vec<Fit> = Vec::new();
    for fit in fits {
        let same =
            chosen.iter().filter(|other| other.candidate.family.name == fit.candidate.family.name).count();
        if chosen.len() < REFINED && same < REFINED_PER_FAMILY {
            chosen.push(fit);
        }
    }
    chosen
}

fn capacities((low, high): (u32, u32), factor: f64) -> impl Iterator<Item = u32> {
    let low = low.max(1);
    std::iter::successors(Some(low), move |&frames| {
        let next = ((f64::from(frames) * factor) as u32).max(frames + 1);
        (next <= high).then_some(next)
    })
}
