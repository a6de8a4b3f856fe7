//! Ranking: all hypotheses against all observations, the most likely first.
//!
//! ```text
//!   all leaves x coarse grid of capacities  ->  best of each leaf  ->  refined  ->  with nuisances
//! ```

use super::family::Family;
use super::hypothesis::Hypothesis;
use super::refine::{Fit, MARGIN, MARGIN_PER_ACCESS, refine, with_nuisances, with_period};
use super::score::{Bars, Course, Scorer};

/// Factor between neighbours of the grid of capacities on which a first leader is found.
const CAPACITY_FACTOR_WIDEST: f64 = 1.1;
/// The same of the coarse grid.
const CAPACITY_FACTOR: f64 = 1.025;
/// The same of the fine grid: policies that adapt are steep in the capacity.
const CAPACITY_FACTOR_FINE: f64 = 1.006;
/// Number of its pass.
const FINE: usize = 3;
/// Standard deviations by which the leader may explain less than it would if it were true, for the
/// fine grid to be left out.
const SETTLED: f64 = 1.0;
/// Leaves that are refined, and how many of one family at most.
const REFINED: usize = 20;
const REFINED_PER_FAMILY: usize = 2;
/// Fits that are tried with nuisances when none explains enough without.
const WITH_NUISANCES: usize = 6;
/// Log likelihood behind the best at which a fit is not refined again, and the same for each
/// access.
const NEAR: f64 = 100.0;
const NEAR_PER_ACCESS: f64 = 0.01;
/// Log likelihood that a free parameter has to bring: as much as two observations that mislead.
pub(super) const PARAMETER_COST: f64 = 8.0;
/// Draws on the coarse grid.
const DRAWS_COARSE: u32 = 4;
/// Draws while searching, and for the last word.
pub const DRAWS_SEARCH: u32 = 12;
/// Draws for the last word.
pub const DRAWS_FINAL: u32 = 48;
/// Observations depend on each other once a prediction has gone astray, so differences of log
/// likelihoods are multiplied with this before they become probabilities.
pub const TEMPER: f64 = 0.2;

/// Scores every leaf of the families at capacities in the range, and refines the most likely.
///
/// The coarse grid comes first: what it finds ends most of the fine one early. So does `lead`, a
/// fit that is known already.
pub fn rank(
    families: &[&'static Family],
    range: (u32, u32),
    scorer: &Scorer<'_>,
    lead: Option<&Fit>,
) -> Vec<Fit> {
    let leaves =
        families.iter().flat_map(|family| family.leaves().into_iter().map(move |leaf| (*family, leaf)));
    let leaves: Vec<_> = leaves.collect();
    let mut found: Vec<Option<Fit>> = vec![None; leaves.len()];
    let mut hopeless = Hopeless::new(lead, scorer);
    let grid = |factor: f64| capacities(range, factor).collect::<Vec<u32>>();
    let [widest, coarse, fine] = [CAPACITY_FACTOR_WIDEST, CAPACITY_FACTOR, CAPACITY_FACTOR_FINE].map(grid);
    let between = |grid: &[u32], others: &[&[u32]]| -> Vec<u32> {
        let new = grid.iter().filter(|frames| others.iter().all(|other| !other.contains(frames)));
        new.copied().collect()
    };
    let passes = [
        (false, widest.clone()),
        (false, between(&coarse, &[&widest])),
        // A policy that draws is dear to simulate, and flat in its parameters: once the leader is
        // known, on the coarse grid alone.
        (true, coarse.clone()),
        (false, between(&fine, &[&widest, &coarse])),
    ];
    let middle = f64::from(range.0).midpoint(f64::from(range.1)) as u32;
    for (pass, (draws, mut grid)) in passes.into_iter().enumerate() {
        if pass == FINE {
            hopeless.refine_lead();
            if hopeless.is_explained() {
                break;
            }
        }
        for ((family, leaf), found) in leaves.iter().zip(&mut found) {
            if family.varies() != draws {
                continue;
            }
            // The likely ones first: what is found early ends the others early.
            let near = found.as_ref().or(hopeless.lead.as_ref()).map_or(middle, |fit| fit.hypothesis.frames);
            grid.sort_by_key(|frames| frames.abs_diff(near));
            let mut bars = hopeless.bars(found.as_ref());
            for &frames in &grid {
                let hypothesis = Hypothesis::new(family, leaf.clone(), frames);
                if let Some(fit) = Fit::above(&bars, hypothesis, scorer, DRAWS_COARSE) {
                    hopeless.learn(&fit);
                    bars = hopeless.bars(Some(&fit));
                    *found = Some(fit);
                }
            }
        }
    }
    let mut fits: Vec<Fit> = found.into_iter().flatten().collect();
    sort(&mut fits);
    let refined = |fit: Fit| {
        // Few draws explain less than many of the same.
        let fit = if fit.hypothesis.draws() { Fit::of(fit.hypothesis, scorer, DRAWS_SEARCH) } else { fit };
        refine(fit, scorer, DRAWS_SEARCH)
    };
    let mut fits: Vec<Fit> = most_likely(fits).into_iter().map(refined).collect();
    sort(&mut fits);
    fits
}

/// Ends what is far behind the best fit of all that is known so far.
struct Hopeless<'a> {
    lead: Option<Fit>,
    bars: Bars,
    scorer: &'a Scorer<'a>,
}

impl<'a> Hopeless<'a> {
    fn new(lead: Option<&Fit>, scorer: &'a Scorer<'a>) -> Self {
        let mut hopeless = Self { lead: None, bars: Bars::default(), scorer };
        lead.into_iter().for_each(|lead| hopeless.learn(lead));
        hopeless
    }

    fn learn(&mut self, fit: &Fit) {
        if self.lead.as_ref().is_none_or(|lead| lead.log_likelihood < fit.log_likelihood) {
            self.scorer.raise_behind(&mut self.bars, &fit.course, MARGIN, MARGIN_PER_ACCESS);
            self.lead = Some(fit.clone());
        }
    }

    /// The leader, unless it draws.
    fn certain_lead(&self) -> Option<&Fit> {
        self.lead.as_ref().filter(|lead| !lead.hypothesis.draws())
    }

    fn refine_lead(&mut self) {
        if let Some(lead) = self.certain_lead().cloned() {
            self.learn(&refine(lead, self.scorer, DRAWS_SEARCH));
        }
    }

    /// Whether the leader explains what was seen as well as if it were true. Then no policy is
    /// missed: one that is steep in the capacity is hardly explained by another that draws nothing.
    fn is_explained(&self) -> bool {
        let explains = |lead: &Fit| self.scorer.score(&lead.hypothesis, 1).excess < SETTLED;
        self.certain_lead().is_some_and(explains)
    }

    /// The log likelihood that lies behind the best by `margin`, and `per_access` more for each
    /// access.
    fn floor(&self, margin: f64, per_access: f64) -> f64 {
        let margin = margin + per_access * self.scorer.observations() as f64;
        self.lead.as_ref().map_or(0.0, |lead| lead.log_likelihood - margin)
    }

    /// Bars for a leaf, given its best so far.
    fn bars(&self, best: Option<&Fit>) -> Bars {
        let mut bars = best.map_or_else(Bars::default, |best| best.bars(self.scorer));
        bars.raise_over(&self.bars);
        bars
    }
}

/// The most likely of two lists of fits to the same observations.
pub fn merge(mut fits: Vec<Fit>, more: Vec<Fit>) -> Vec<Fit> {
    fits.extend(more);
    sort(&mut fits);
    most_likely(fits)
}

/// The fits, and all other leaves of the families with capacities up to `frames_max`: none is left
/// out because others were likelier once. For caches so small that this takes no time.
///
/// The first one stays the first: it was put to the test, and the later ones were not.
pub fn rank_everybody(
    fits: Vec<Fit>,
    families: &[&'static Family],
    frames_max: u32,
    scorer: &Scorer<'_>,
) -> Vec<Fit> {
    // They may have been scored by fewer observations, or been given up before the last.
    let again = |fit: Fit| Fit::of(fit.hypothesis, scorer, DRAWS_SEARCH);
    let mut fits: Vec<Fit> = fits.into_iter().map(again).collect();
    for family in families {
        for leaf in family.leaves() {
            let of = |frames| Fit::of(Hypothesis::new(family, leaf.clone(), frames), scorer, DRAWS_SEARCH);
            let best =
                (1..=frames_max).map(of).max_by(|one, two| one.log_likelihood.total_cmp(&two.log_likelihood));
            fits.extend(best);
        }
    }
    if let Some((_, others)) = fits.split_first_mut() {
        sort(others);
    }
    fits
}

/// Refines what is there after more was observed. What is hopeless by now stays last, as it is.
pub fn rank_again(fits: Vec<Fit>, scorer: &Scorer<'_>) -> Vec<Fit> {
    let mut hopeless = Hopeless::new(None, scorer);
    let mut again: Vec<Fit> = Vec::new();
    let mut last: Vec<Fit> = Vec::new();
    for fit in fits {
        match Fit::above(&hopeless.bars, fit.hypothesis.clone(), scorer, DRAWS_SEARCH) {
            Some(scored) => {
                hopeless.learn(&scored);
                // What was refined before and is far behind by now does not come back by another
                // step.
                let near = scored.log_likelihood > hopeless.floor(NEAR, NEAR_PER_ACCESS);
                let fit = if near { refine(scored, scorer, DRAWS_SEARCH) } else { scored };
                hopeless.learn(&fit);
                again.push(fit);
            }
            None => last.push(fit),
        }
    }
    sort(&mut again);
    // Far below everything that was scored, in the order that they had.
    let least =
        again.last().map_or(0.0, |fit| fit.log_likelihood).min(hopeless.floor(MARGIN, MARGIN_PER_ACCESS));
    for (at, mut fit) in last.into_iter().enumerate() {
        fit.log_likelihood = least - 1.0 - at as f64;
        fit.course = Course::default();
        again.push(fit);
    }
    again
}

/// Lets the most likely have nuisances, too; of those that draw only if `drawing`.
pub fn rank_with_nuisances(mut fits: Vec<Fit>, scorer: &Scorer<'_>, drawing: bool) -> Vec<Fit> {
    let mut bars = Bars::default();
    if let Some(lead) = fits.first() {
        scorer.raise_behind(&mut bars, &lead.course, MARGIN, MARGIN_PER_ACCESS);
    }
    let these = fits
        .iter_mut()
        .filter(|fit| !fit.hypothesis.family.hashes() && (drawing || !fit.hypothesis.family.draws));
    for fit in these.take(WITH_NUISANCES) {
        *fit = with_nuisances(fit, scorer, DRAWS_SEARCH, &bars);
    }
    sort(&mut fits);
    fits
}

/// Lets the most likely do now and then what it does always, if there is a family of the same name
/// that does. Not if it draws: with periods as well it would explain nearly anything.
pub fn rank_with_periods(mut fits: Vec<Fit>, families: &[&'static Family], scorer: &Scorer<'_>) -> Vec<Fit> {
    let Some(best) = fits.first().filter(|best| !best.hypothesis.draws()) else { return fits };
    let relatives = families.iter().filter(|family| family.name == best.hypothesis.family.name);
    let found = relatives.filter_map(|family| with_period(best, family, scorer, DRAWS_SEARCH));
    let found: Vec<Fit> =
        found.filter(|found| !fits.iter().any(|fit| fit.hypothesis == found.hypothesis)).collect();
    if found.is_empty() { fits } else { merge(std::mem::take(&mut fits), found) }
}

/// One fit for each name, in their order, with its weight: the tempered probability among all that
/// are left.
pub fn posterior(fits: &[Fit]) -> Vec<(f64, &Fit)> {
    let mut best: Vec<&Fit> = Vec::new();
    for fit in fits {
        if !best.iter().any(|other| other.hypothesis.name() == fit.hypothesis.name()) {
            best.push(fit);
        }
    }
    // Not always the first one's.
    let most = best.iter().map(|fit| merit(fit)).fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = best.iter().map(|fit| (TEMPER * (merit(fit) - most)).exp()).collect();
    let sum: f64 = weights.iter().sum();
    best.into_iter().zip(weights).map(|(fit, weight)| (weight / sum, fit)).collect()
}

/// Log likelihood less what free parameters and nuisances cost.
fn merit(fit: &Fit) -> f64 {
    let nuisances = usize::from(fit.hypothesis.nuisances != Default::default());
    fit.log_likelihood - PARAMETER_COST * (fit.hypothesis.values.len() + nuisances) as f64
}

/// The most likely first; of equals the one with the family that is listed first.
fn sort(fits: &mut [Fit]) {
    fits.sort_by(|one, two| merit(two).total_cmp(&merit(one)));
}

fn most_likely(fits: Vec<Fit>) -> Vec<Fit> {
    let mut chosen: Vec<Fit> = Vec::new();
    for fit in fits {
        let same =
            chosen.iter().filter(|other| other.hypothesis.family.name == fit.hypothesis.family.name).count();
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

#[cfg(test)]
mod tests {
    use super::super::calibrate::Noise;
    use super::super::evidence::{Evidence, Visit};
    use super::super::pattern::stack_distance;
    use super::super::random::Random;
    use super::*;

    fn family(name: &str) -> &'static Family {
        Family::all().iter().find(|family| family.name == name).expect("a family")
    }

    #[test]
    fn who_was_put_to_the_test_stays_the_first() {
        let [lru, fifo, mru] =
            ["lru", "fifo", "mru"].map(|name| Hypothesis::new(family(name), Vec::new(), 9));
        let script = stack_distance(9, 200, &mut Random::new(3));
        let hits = lru.hits(&Visit::imagined(&script), 1);
        let odds: Vec<f32> = hits.iter().map(|&hits| if hits > 0 { 12.0 } else { -12.0 }).collect();
        let mut evidence = Evidence::default();
        evidence.add(&script, &odds);
        let scorer = Scorer::new(&evidence, Noise::even(0.01));
        // Of fewer observations.
        let before =
            |hypothesis: Hypothesis| Fit { hypothesis, log_likelihood: -1.0, course: Course::default() };
        let families = [family("fifo"), family("lru"), family("mru")];
        let fits = rank_everybody(vec![before(fifo.clone()), before(mru)], &families, 32, &scorer);
        assert_eq!((&fits[0].hypothesis, fits[1].hypothesis.name().as_str()), (&fifo, "lru"));
        for fit in &fits {
            assert_eq!(fit.log_likelihood, scorer.log_likelihood(&fit.hypothesis, DRAWS_SEARCH));
        }
        let posterior = posterior(&fits);
        let weights: Vec<f64> = posterior.iter().map(|(weight, _)| *weight).collect();
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9 && weights[1] > weights[0], "{weights:?}");
    }
}
