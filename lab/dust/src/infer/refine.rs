//! Refinement: a local search for the capacity, the parameters and the nuisances of a hypothesis.
//!
//! One coordinate after the other, both directions, with steps that shrink when nothing gets
//! better. Capacity comes first and last: the likelihood is steep in it, and parameters are shares
//! of it.

use super::family::{Axis, Family, Scale};
use super::hypothesis::Hypothesis;
use super::score::{Bars, Course, Scorer};
use super::simulate::Nuisances;

/// Steps of parameters, in quarters of their range.
const STEPS: [f64; 4] = [1.0, 0.4, 0.15, 0.05];
/// Steps of the capacity, as shares of it; always at least one block.
const CAPACITY_STEPS: [f64; 4] = [0.04, 0.015, 0.006, 0.0];
/// Factor between periods that are tried, and how many of the best are climbed from.
const PERIOD_FACTOR: f64 = 1.05;
const PERIODS_CLIMBED: usize = 3;
/// Capacities around the best that are tried one by one: this part of it, and the bounds of that.
const NEAR_PART: u32 = 40;
const NEAR_MIN: u32 = 2;
const NEAR_MAX: u32 = 12;
/// Draws for the capacities that a hypothesis speaks for which draws, and into how many steps its
/// own is divided for them.
const ROUGH_DRAWS: u32 = 48;
const ROUGH_STEPS: u32 = 100;
/// Rates of foreign insertions that are tried, per access.
const FOREIGN: [f64; 5] = [0.005, 0.01, 0.02, 0.035, 0.06];

/// Log likelihood behind the best at which a hypothesis is given up together with all its
/// neighbours, and the same for each access.
pub(super) const MARGIN: f64 = 250.0;
pub(super) const MARGIN_PER_ACCESS: f64 = 0.02;
/// Log likelihood by which a step of a climb may lie behind where it started before it is ended,
/// and the same for each access.
const BEHIND: f64 = 80.0;
const BEHIND_PER_ACCESS: f64 = 0.01;

/// A hypothesis and its log likelihood.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The hypothesis.
    pub hypothesis: Hypothesis,
    /// Natural logarithm of its likelihood.
    pub log_likelihood: f64,
    /// How it came about.
    pub course: Course,
}

impl Fit {
    /// Scores a hypothesis.
    pub fn of(hypothesis: Hypothesis, scorer: &Scorer<'_>, draws: u32) -> Self {
        let course = scorer.course(&hypothesis, draws, &Bars::default()).unwrap_or_default();
        Self { hypothesis, log_likelihood: course.total(), course }
    }

    /// Scores a hypothesis. `None` if it falls below a bar, or is [another
    /// one](Hypothesis::is_all_but_steady) in fact.
    pub fn above(bars: &Bars, hypothesis: Hypothesis, scorer: &Scorer<'_>, draws: u32) -> Option<Self> {
        if hypothesis.is_all_but_steady() {
            return None;
        }
        let course = scorer.course(&hypothesis, draws, bars)?;
        Some(Self { hypothesis, log_likelihood: course.total(), course })
    }

    /// Bars for what shall be better than this fit.
    pub fn bars(&self, scorer: &Scorer<'_>) -> Bars {
        let mut bars = Bars::default();
        scorer.raise_to(&mut bars, self.log_likelihood);
        scorer.raise_behind(&mut bars, &self.course, BEHIND, BEHIND_PER_ACCESS);
        bars
    }
}

/// A local search from one fit, which never tries the same hypothesis twice.
struct Climb<'a> {
    fit: Fit,
    bars: Bars,
    scorer: &'a Scorer<'a>,
    draws: u32,
    tried: Vec<Hypothesis>,
}

impl<'a> Climb<'a> {
    fn new(fit: Fit, scorer: &'a Scorer<'a>, draws: u32) -> Self {
        let bars = fit.bars(scorer);
        Self { tried: vec![fit.hypothesis.clone()], fit, bars, scorer, draws }
    }

    /// Takes the change if it explains more. Returns whether it does.
    fn improve(&mut self, change: impl FnOnce(&mut Hypothesis)) -> bool {
        let mut hypothesis = self.fit.hypothesis.clone();
        change(&mut hypothesis);
        if hypothesis.frames == 0 || self.tried.contains(&hypothesis) {
            return false;
        }
        self.tried.push(hypothesis.clone());
        let found = Fit::above(&self.bars, hypothesis, self.scorer, self.draws);
        let better = found.filter(|found| found.log_likelihood > self.fit.log_likelihood + 1e-9);
        let Some(better) = better else { return false };
        self.fit = better;
        self.bars = self.fit.bars(self.scorer);
        true
    }

    /// Tries capacities all around: policies that adapt have many small peaks.
    fn scan(&mut self) {
        let centre = i64::from(self.fit.hypothesis.frames);
        let stride = (centre / 125).max(1);
        for step in -4..=4 {
            let frames = (centre + step * stride).max(1) as u32;
            self.improve(|hypothesis| hypothesis.frames = frames);
        }
    }

    fn capacity(&mut self, share: f64) -> bool {
        let mut moved = false;
        for sign in [1i64, -1] {
            // Uphill for as long as it goes.
            for _ in 0..6 {
                let now = self.fit.hypothesis.frames;
                let step = (f64::from(now) * share).round().max(1.0) as i64;
                let frames = (i64::from(now) + sign * step).clamp(1, i64::from(u32::MAX / 4)) as u32;
                if !self.improve(|hypothesis| hypothesis.frames = frames) {
                    break;
                }
                moved = true;
            }
        }
        moved
    }

    /// Tries periods up to the neighbours that were tried before, and then one by one.
    fn periods(&mut self, at: usize, axis: &Axis) {
        let centre = self.fit.hypothesis.values[at];
        for step in -8..=8 {
            let period = (centre * PERIOD_FACTOR.powf(f64::from(step) / 8.0)).round();
            self.improve(|hypothesis| hypothesis.values[at] = period.clamp(axis.low, axis.high));
        }
        let centre = self.fit.hypothesis.values[at];
        for step in -4..=4 {
            let period = centre + f64::from(step);
            self.improve(|hypothesis| hypothesis.values[at] = period.clamp(axis.low, axis.high));
        }
    }

    fn parameters(&mut self, step: f64) -> bool {
        let mut moved = false;
        for (at, axis) in self.fit.hypothesis.family.axes.iter().enumerate() {
            for sign in [1.0, -1.0] {
                for _ in 0..3 {
                    let value = axis.moved(self.fit.hypothesis.values[at], sign * step);
                    if !self.improve(|hypothesis| hypothesis.values[at] = value) {
                        break;
                    }
                    moved = true;
                }
            }
        }
        moved
    }
}

/// Climbs from `fit` to the nearest peak of the likelihood.
pub fn refine(fit: Fit, scorer: &Scorer<'_>, draws: u32) -> Fit {
    // A policy that draws is flat in its parameters, and every step of it costs many simulations.
    let rounds = match (fit.hypothesis.family.draws, fit.hypothesis.draws()) {
        (true, _) => 2,
        (false, true) => 3,
        (false, false) => STEPS.len(),
    };
    let mut climb = Climb::new(fit, scorer, draws);
    if rounds == STEPS.len() {
        climb.scan();
    }
    for (round, &step) in STEPS.iter().enumerate().take(rounds) {
        // Twice at each width: parameters and capacity depend on each other.
        for _ in 0..2 {
            let mut moved = climb.capacity(CAPACITY_STEPS[round]);
            moved |= climb.parameters(step);
            if !moved {
                break;
            }
        }
    }
    if rounds == STEPS.len() {
        climb.capacity(0.0);
    }
    climb.fit
}

/// Tries what a cache may do besides its policy, and keeps what explains more than it costs. What
/// falls below `bars` is given up.
pub fn with_nuisances(fit: &Fit, scorer: &Scorer<'_>, draws: u32, bars: &Bars) -> Fit {
    /// Log likelihood that a nuisance has to bring.
    const WORTH: f64 = 6.0;
    let mut best = fit.clone();
    let batches = [2, 4, 8, 16, 32, 64].into_iter().filter(|&batch| batch * 4 <= fit.hypothesis.frames);
    let deviations = FOREIGN
        .into_iter()
        .map(|foreign| Nuisances { foreign, ..fit.hypothesis.nuisances })
        .chain(batches.clone().map(|batch| Nuisances { batch, ..fit.hypothesis.nuisances }))
        .chain(batches.map(|late| Nuisances { late, ..fit.hypothesis.nuisances }));
    let mut bars = bars.clone();
    scorer.raise_behind(&mut bars, &fit.course, MARGIN, MARGIN_PER_ACCESS);
    for nuisances in deviations {
        let hypothesis = Hypothesis { nuisances, ..fit.hypothesis.clone() };
        let Some(other) = Fit::above(&bars, hypothesis, scorer, draws) else { continue };
        let mut climb = Climb::new(other, scorer, draws);
        climb.capacity(0.03);
        let other = climb.fit;
        if other.log_likelihood > best.log_likelihood {
            best = other;
        }
    }
    if best.log_likelihood < fit.log_likelihood + WORTH { fit.clone() } else { best }
}

/// Tries all periods of a family that does now and then what the fit does always: the likelihood
/// has a peak of its own at the true one, so that no climb finds it from afar. `None` for families
/// without a period.
pub fn with_period(fit: &Fit, family: &'static Family, scorer: &Scorer<'_>, draws: u32) -> Option<Fit> {
    let at = family.axes.iter().position(|axis| axis.scale == Scale::WholeLogarithmic)?;
    let axis = &family.axes[at];
    let own = |axis: &Axis| fit.hypothesis.family.axes.iter().position(|other| other.key == axis.key);
    let value = |axis: &Axis| own(axis).map_or(axis.grid[0], |own| fit.hypothesis.values[own]);
    // The other parameters may be wrong where the period is.
    let mut bases = vec![family.axes.iter().map(value).collect(), family.leaves().swap_remove(0)];
    bases.dedup_by(|one, two| (0..one.len()).all(|other| other == at || one[other] == two[other]));
    let mut found: Vec<Fit> = Vec::new();
    for values in bases {
        let mut base = Hypothesis { family, values, ..fit.hypothesis.clone() };
        for period in periods(axis, scorer) {
            base.values[at] = period;
            let bars = found.last().unwrap_or(fit).bars(scorer);
            found.extend(Fit::above(&bars, base.clone(), scorer, draws));
            found.sort_by(|one, two| two.log_likelihood.total_cmp(&one.log_likelihood));
            found.truncate(PERIODS_CLIMBED);
        }
    }
    let climbed = found.into_iter().map(|found| {
        let mut climb = Climb::new(found, scorer, draws);
        climb.capacity(0.0);
        climb.periods(at, axis);
        climb.capacity(0.0);
        climb.fit
    });
    climbed.max_by(|one, two| one.log_likelihood.total_cmp(&two.log_likelihood))
}

/// Periods that may differ: those that are longer than all visits are the same.
fn periods(axis: &Axis, scorer: &Scorer<'_>) -> impl Iterator<Item = f64> + use<> {
    let (low, most) = (axis.low, axis.high.min(scorer.longest() as f64 + 1.0));
    std::iter::successors(Some(low), move |&period| {
        let next = (period * PERIOD_FACTOR).round().max(period + 1.0).min(most);
        (next > period).then_some(next)
    })
}

/// Capacities that explain nearly as much: the log likelihood falls by less than `drop`.
pub fn interval(fit: &Fit, scorer: &Scorer<'_>, draws: u32, drop: f64) -> (u32, u32) {
    if fit.hypothesis.draws() {
        return rough_interval(fit, scorer, drop);
    }
    let holds = |frames: u32| {
        let hypothesis = Hypothesis { frames, ..fit.hypothesis.clone() };
        let enough = |hypothesis: &Hypothesis| scorer.is_above(fit.log_likelihood - drop, hypothesis, draws);
        let other = as_many_blocks(fit, frames);
        let near = |hypothesis: &Hypothesis| beside(hypothesis).iter().any(enough);
        enough(&hypothesis)
            || other.as_ref().is_some_and(enough)
            || near(&hypothesis)
            || other.as_ref().is_some_and(near)
    };
    let centre = fit.hypothesis.frames;
    let most = centre / 4 + 2;
    let edge = |sign: i64| {
        // Doubling steps out, then halving steps back.
        let at = |distance: u32| (i64::from(centre) + sign * i64::from(distance)).max(1) as u32;
        let mut inside = 0;
        let mut step = 1;
        while inside + step <= most && holds(at(inside + step)) {
            inside += step;
            step *= 2;
        }
        while step > 1 {
            step /= 2;
            if inside + step <= most && holds(at(inside + step)) {
                inside += step;
            }
        }
        // Policies that adapt are rugged: what is near is tried one by one, also beyond what
        // explains less.
        let near = (centre / NEAR_PART).clamp(NEAR_MIN, NEAR_MAX).min(most);
        (inside + 1..=near).rev().find(|&distance| holds(at(distance))).map_or(at(inside), at)
    };
    (edge(-1), edge(1))
}

/// The hypothesis with each of its parameters a step to either side, in all combinations: shares by
/// a block. A hypothesis that is nearly as likely with another capacity is so with other
/// parameters, too.
fn beside(hypothesis: &Hypothesis) -> Vec<Hypothesis> {
    /// The step of what is neither a share nor a whole number.
    const FACTOR: f64 = 1.03;
    let mut all = vec![hypothesis.clone()];
    for (at, axis) in hypothesis.family.axes.iter().enumerate().filter(|(_, axis)| axis.low < axis.high) {
        let value = hypothesis.values[at];
        let block = 1.0 / f64::from(hypothesis.frames.max(1));
        let sides = match axis.scale {
            Scale::Linear => [value - block, value + block],
            Scale::Whole => [value - 1.0, value + 1.0],
            Scale::WholeLogarithmic => [(value / FACTOR).floor(), (value * FACTOR).ceil()],
            Scale::Logarithmic => [value / FACTOR, value * FACTOR],
        };
        for known in 0..all.len() {
            for side in
                sides.map(|side| side.clamp(axis.low, axis.high)).into_iter().filter(|&side| side != value)
            {
                let mut other = all[known].clone();
                other.values[at] = side;
                all.push(other);
            }
        }
    }
    all.swap_remove(0);
    all
}

/// The same of a hypothesis that draws. Its likelihood is rough, and what the search found is the
/// luckiest of many, so the best is sought again among all around, with more draws, and whatever
/// lies between two that are good enough is, too.
fn rough_interval(fit: &Fit, scorer: &Scorer<'_>, drop: f64) -> (u32, u32) {
    let centre = fit.hypothesis.frames;
    let stride = centre.div_ceil(ROUGH_STEPS).max(1);
    let around = (centre - centre / 4).max(1)..=centre + centre / 4 + 1;
    let mut frames: Vec<u32> = around.step_by(stride as usize).chain([centre]).collect();
    // The likely ones first, which end the others early.
    frames.sort_by_key(|frames| frames.abs_diff(centre));
    let with = |frames: u32| Hypothesis { frames, ..fit.hypothesis.clone() };
    // Parameters that go with a capacity nearby: see `beside`.
    let near = centre.saturating_sub(NEAR_MIN).max(1)..=centre + NEAR_MIN;
    let near = near.flat_map(|frames| as_many_blocks(fit, frames).into_iter().chain([with(frames)]));
    let near = near.flat_map(|hypothesis| beside(&hypothesis));
    let (mut best, mut found) = (f64::NEG_INFINITY, Vec::new());
    for hypothesis in frames.into_iter().map(with).chain(near) {
        let mut bars = Bars::default();
        scorer.raise_to(&mut bars, best - drop);
        let Some(course) = scorer.course(&hypothesis, ROUGH_DRAWS, &bars) else { continue };
        best = best.max(course.total());
        found.push((hypothesis.frames, course.total()));
    }
    let good = found.into_iter().filter(|(_, log_likelihood)| *log_likelihood >= best - drop);
    good.fold((centre, centre), |(low, high), (frames, _)| (low.min(frames), high.max(frames)))
}

/// The fit with another capacity, of which its parameters are shares or multiples that come to as
/// many blocks as before: what is nearly as likely lies along there. `None` if none of them is.
fn as_many_blocks(fit: &Fit, frames: u32) -> Option<Hypothesis> {
    let mut other = Hypothesis { frames, ..fit.hypothesis.clone() };
    let axes = other.family.axes;
    let shares = || axes.iter().enumerate().filter(|(_, axis)| !axis.scale.is_whole());
    for (at, axis) in shares() {
        let blocks = other.values[at] * f64::from(fit.hypothesis.frames);
        other.values[at] = (blocks / f64::from(frames)).clamp(axis.low, axis.high);
    }
    shares().next().is_some().then_some(other)
}
