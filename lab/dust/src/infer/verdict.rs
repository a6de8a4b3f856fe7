//! The verdict: what the cache does, how sure that is, and an honest "unknown".
//!
//! A fit is *known* if it is not only the best but good enough: see [`check`](super::check).

use serde::Serialize;

use super::ahead::Ahead;
use super::calibrate::Calibration;
use super::check::Check;
use super::evidence::Evidence;
use super::rank::{DRAWS_FINAL, DRAWS_SEARCH, posterior};
use super::refine::{Fit, interval};
use super::score::Scorer;
use super::simulate::Nuisances;

/// Families with a tempered probability of at least this share of the best one's were not told
/// apart from it.
const EQUIVALENT: f64 = 0.02;
/// Log likelihood of one observation that misleads. A family that is no farther behind the best is
/// named with it, whatever its parameters are charged: of three the charge alone is more.
const ONE_READING: f64 = super::rank::PARAMETER_COST / 2.0;
/// No verdict is more certain than this: of 4,080 simulated caches with up to 2 % noise none was
/// given a wrong name, and of those with more noise or with foreign blocks up to 0.6 % were (`make
/// dust-full`, seed 1).
const CERTAINTY_MAX: f64 = 0.999;
const CERTAINTY_MAX_HARD: f64 = 0.994;
/// Noise that is measured as more than this is more than 2 %.
const NOISE_HARD: f64 = 0.03;
/// Least confidence that hits are told from misses for anything to be certain: a tenth of the
/// readings misleads at 0.8.
pub const CONFIDENCE_MIN: f64 = 0.75;
/// Share of the observations that may contradict what is certain, beside what a target is known to
/// say wrongly of itself.
pub const CONTRADICTED_MAX: f64 = 0.1;
/// A fit of more than this many times the capacity that was measured, or of less than that part of
/// it, is of another cache.
const ANOTHER: u32 = 2;
/// Log likelihood within which capacities are in the interval: three standard deviations of a
/// tempered normal.
const INTERVAL_DROP: f64 = 4.5 / super::rank::TEMPER;

/// Whether the best fit is good enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Known {
    /// It explains what was seen.
    Known,
    /// It is the nearest, and does not.
    #[default]
    Unknown,
}

/// Why nothing can be certain, whatever fits best.
///
/// Why so: docs/decisions/0075-no-certainty-without-sight.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doubt {
    /// The cache fetches what was not asked for.
    FetchesAhead,
    /// Hits are not told from misses.
    Unclear,
    /// Too many observations contradict the best fit.
    Contradicted,
    /// The best fit holds quite another number of blocks than was measured.
    Capacity,
}

impl Doubt {
    /// Before any hypothesis is asked.
    pub(super) fn of(calibration: &Calibration, ahead: Option<Ahead>) -> Option<Self> {
        if ahead.is_some_and(|ahead| ahead.is_seen()) {
            return Some(Self::FetchesAhead);
        }
        (calibration.confidence < CONFIDENCE_MIN).then_some(Self::Unclear)
    }

    /// A best fit of `frames` blocks, of a cache that was measured to hold at least and at most so
    /// many. Only where time is measured: hits that waited for a processor look like misses.
    pub(super) fn of_capacity(
        calibration: &Calibration,
        (least, most): (u32, u32),
        frames: u32,
    ) -> Option<Self> {
        let is_another = frames > ANOTHER * most || ANOTHER * frames < least;
        (calibration.modes.is_some() && is_another).then_some(Self::Capacity)
    }

    /// A share of all observations contradicts the best fit.
    fn of_all(calibration: &Calibration, mismatch: f64) -> Option<Self> {
        // What says itself what it did, and is wrong now and then, is so here, too.
        let misled = if calibration.modes.is_some() { 0.0 } else { calibration.noise };
        (mismatch > CONTRADICTED_MAX + misled).then_some(Self::Contradicted)
    }

    /// A share of the fresh script does, in which a share of what are hits whatever the policy
    /// looks like misses: where time is measured, a machine that got busy meanwhile.
    pub(super) fn of_fresh(calibration: &Calibration, mismatch: f64, waited: f64) -> Option<Self> {
        let waited = if calibration.modes.is_some() { waited } else { 0.0 };
        Self::of_all(calibration, mismatch - waited)
    }
}

/// What the best fit has to stand up to: see [`Options`](super::inquiry::Options).
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub slack: f64,
    pub exact: bool,
    pub shared: bool,
}

/// What follows from the observations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// The most likely family, or the nearest one when unknown. Empty if nothing could be told.
    pub family: String,
    /// Its policy with parameters, as the simulator takes it.
    pub policy: String,
    /// Parameters by name.
    pub parameters: Vec<(String, f64)>,
    /// Capacity in blocks.
    pub capacity: u32,
    /// Least and greatest capacity that explain nearly as much.
    pub interval: (u32, u32),
    /// Probability of the family and its equivalents among all hypotheses, at most 0.999 (0.994
    /// with much noise); 0 when unknown.
    pub certainty: f64,
    /// Whether it is good enough.
    pub verdict: Known,
    /// Why it is unknown, where that says more than that no hypothesis is good enough.
    pub doubt: Option<Doubt>,
    /// Accesses made.
    pub accesses: usize,
    /// Families that the observations do not tell apart from the best.
    pub equivalent: Vec<String>,
    /// Probability of each name and its log likelihood: the family's, and then the most likely
    /// first.
    pub likelihoods: Vec<(String, f64, f64)>,
    /// Share of observations that contradict the best fit.
    pub mismatch: f64,
    /// The same on the fresh script alone, which the fit had not seen unless it changed for its
    /// sake.
    pub mismatch_fresh: Option<f64>,
    /// Whether the best fit is good enough, in numbers.
    pub check: Option<Check>,
    /// What is known of the observations.
    pub calibration: Calibration,
}

impl Verdict {
    pub(super) fn of(
        evidence: &Evidence,
        calibration: &Calibration,
        fits: &[Fit],
        check: Option<Check>,
        terms: Terms,
        mismatch_fresh: Option<f64>,
        doubt: Option<Doubt>,
    ) -> Self {
        let mut verdict = Self {
            doubt,
            accesses: evidence.len(),
            mismatch: 1.0,
            mismatch_fresh,
            check,
            calibration: *calibration,
            ..Self::default()
        };
        let posterior = posterior(fits);
        let Some((most, best)) = posterior.first().copied() else { return verdict };
        let hypothesis = &best.hypothesis;
        verdict.family = hypothesis.name();
        verdict.policy = hypothesis.policy();
        verdict.parameters = parameters(best);
        verdict.capacity = hypothesis.frames;
        let scorer = Scorer::new(evidence, calibration.sides);
        verdict.interval = interval(best, &scorer, DRAWS_SEARCH, INTERVAL_DROP);
        verdict.mismatch = scorer.score(hypothesis, DRAWS_FINAL).mismatch;
        verdict.doubt = verdict.doubt.or_else(|| Doubt::of_all(calibration, verdict.mismatch));
        let good = check.is_some_and(|check| check.passes(hypothesis.draws(), terms.slack));
        let explained = best.log_likelihood - ONE_READING;
        let rivals = posterior.iter().skip(1);
        let rivals =
            rivals.filter(|(weight, fit)| *weight > EQUIVALENT * most || fit.log_likelihood > explained);
        verdict.equivalent = rivals.clone().map(|(_, fit)| fit.hypothesis.name()).collect();
        verdict.likelihoods = posterior
            .iter()
            .map(|(weight, fit)| (fit.hypothesis.name(), *weight, fit.log_likelihood))
            .collect();
        let contradicts = terms.exact && !hypothesis.draws() && verdict.mismatch > terms.slack;
        let alone = terms.shared || hypothesis.nuisances.foreign == 0.0;
        // A cache that was never full replaced nothing.
        let full = evidence.visits().iter().any(|visit| visit.blocks > hypothesis.frames);
        if good && alone && full && !contradicts && verdict.doubt.is_none() {
            verdict.verdict = Known::Known;
            let certainty = most + rivals.map(|(weight, _)| weight).sum::<f64>();
            let nuisances = Nuisances { refuses: false, ..hypothesis.nuisances } != Nuisances::default();
            let hard = calibration.noise > NOISE_HARD || nuisances;
            verdict.certainty = certainty.min(if hard { CERTAINTY_MAX_HARD } else { CERTAINTY_MAX });
        }
        verdict
    }

    /// The same, of which no fresh script says that it is so.
    pub(super) fn unverified(self) -> Self {
        Self { verdict: Known::Unknown, certainty: 0.0, ..self }
    }
}

fn parameters(fit: &Fit) -> Vec<(String, f64)> {
    let hypothesis = &fit.hypothesis;
    let own = hypothesis.family.axes.iter().zip(&hypothesis.values).map(|(axis, value)| (axis.key, *value));
    let nuisances = [
        ("foreign", hypothesis.nuisances.foreign, 0.0),
        ("batch", f64::from(hypothesis.nuisances.batch), 1.0),
        ("late", f64::from(hypothesis.nuisances.late), 0.0),
    ];
    let nuisances = nuisances.into_iter().filter(|(_, value, none)| value != none);
    own.chain(nuisances.map(|(key, value, _)| (key, value)))
        .map(|(key, value)| (key.into(), (value * 1e4).round() / 1e4))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::calibrate::Modes;
    use super::super::family::Family;
    use super::super::hypothesis::Hypothesis;
    use super::super::script::Script;
    use super::*;

    /// A cache of 256 blocks was measured to hold at most 26 on a busy machine, and took another's
    /// name with 57.
    #[test]
    fn a_capacity_that_was_measured_otherwise_leaves_nothing_certain() {
        let latencies: Vec<u64> = (0..400).map(|at| 90_000 * (at % 2) + 5000 + at).collect();
        let timed = Calibration { modes: Modes::fit(&latencies), ..Calibration::default() };
        let doubt = |range, frames| Doubt::of_capacity(&timed, range, frames);
        assert_eq!(
            [((1, 26), 57), ((100, 300), 49)].map(|(range, frames)| doubt(range, frames)),
            [Some(Doubt::Capacity); 2]
        );
        assert_eq!([((1, 26), 52), ((100, 300), 50)].map(|(range, frames)| doubt(range, frames)), [None; 2]);
        assert_eq!(Doubt::of_capacity(&Calibration::default(), (1, 26), 57), None);
    }

    /// However often it is read.
    #[test]
    fn what_was_never_full_is_unknown() {
        let mut script = Script::cold("");
        script.scan((0..2000).map(|at| at % 20));
        let odds: Vec<f32> = (0..2000).map(|at| if at < 20 { -12.0 } else { 12.0 }).collect();
        let mut evidence = Evidence::default();
        evidence.add(&script, &odds);
        let calibration = Calibration::of(&evidence, None);
        let lru = Family::all().iter().find(|family| family.name == "lru").expect("a family");
        let scorer = Scorer::new(&evidence, calibration.sides);
        let fits = [Fit::of(Hypothesis::new(lru, Vec::new(), 20), &scorer, 1)];
        let check = Check::of(&evidence, &calibration, &fits, None);
        assert!(check.is_some_and(|check| check.passes(false, 0.0)), "{check:?}");
        let terms = Terms { slack: 0.0, exact: true, shared: false };
        let verdict = Verdict::of(&evidence, &calibration, &fits, check, terms, None, None);
        assert_eq!((verdict.verdict, verdict.certainty), (Known::Unknown, 0.0), "{verdict:?}");
    }
}
