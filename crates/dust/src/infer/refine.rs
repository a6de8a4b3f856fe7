//! Refinement: a local search for the capacity, the parameters and the nuisances of a candidate.
//!
//! One coordinate after the other, both directions, with steps that shrink when nothing gets better. Capacity comes first
//! and last: the likelihood is steep in it, and parameters are shares of it.

use super::candidate::Candidate;
use super::family::{Axis, Family, Scale};
use super::score::{Bars, Course, Ledger};
use super::simulate::Nuisances;

/// Steps of parameters, in quarters of their range.
const STEPS: [f64; 4] = [1.0, 0.4, 0.15, 0.05];
/// Steps of the capacity, as shares of it; always at least one block.
const CAPACITY_STEPS: [f64; 4] = [0.04, 0.015, 0.006, 0.0];
/// Factor between periods that are tried, and how many of the best are climbed from.
const PERIOD_FACTOR: f64 = 1.05;
const PERIODS_CLIMBED: usize = 3;
/// Rates of foreign insertions that are tried, per access.
const FOREIGN: [f64; 5] = [0.005, 0.01, 0.02, 0.035, 0.06];

/// Log likelihood behind the best at which a candidate is given up together with all its neighbours, and so much more for
/// each access.
pub(super) const MARGIN: f64 = 250.0;
pub(super) const MARGIN_PER_ACCESS: f64 = 0.02;
/// Log likelihood by which a step of a climb may lie behind where it started, and so much more for each access, before it is ended.
const BEHIND: f64 = 80.0;
const BEHIND_PER_ACCESS: f64 = 0.01;

/// A candidate and its log likelihood.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The candidate.
    pub candidate: Candidate,
    /// Natural logarithm of its likelihood.
    pub log_likelihood: f64,
    /// How it came about.
    pub course: Course,
}

impl Fit {
    /// Scores a candidate.
    pub fn of(candidate: Candidate, ledger: &Ledger<'_>, draws: u32) -> Self {
        let course = ledger.course(&candidate, draws, &Bars::default()).unwrap_or_default();
        Self { candidate, log_likelihood: course.total(), course }
    }

    /// Scores a candidate. `None` if it falls below a bar, or is [another one](Candidate::is_all_but_steady) in fact.
    pub fn above(bars: &Bars, candidate: Candidate, ledger: &Ledger<'_>, draws: u32) -> Option<Self> {
        if candidate.is_all_but_steady() {
            return None;
        }
        let course = ledger.course(&candidate, draws, bars)?;
        Some(Self { candidate, log_likelihood: course.total(), course })
    }

    /// Bars for what shall be better than this fit.
    pub fn bars(&self, ledger: &Ledger<'_>) -> Bars {
        let mut bars = Bars::default();
        ledger.raise_to(&mut bars, self.log_likelihood);
        ledger.raise_behind(&mut bars, &self.course, BEHIND, BEHIND_PER_ACCESS);
        bars
    }
}

/// A local search from one fit, which never tries the same candidate twice.
struct Climb<'a> {
    fit: Fit,
    bars: Bars,
    ledger: &'a Ledger<'a>,
    draws: u32,
    tried: Vec<Candidate>,
}

impl<'a> Climb<'a> {
    fn new(fit: Fit, ledger: &'a Ledger<'a>, draws: u32) -> Self {
        let bars = fit.bars(ledger);
        Self { tried: vec![fit.candidate.clone()], fit, bars, ledger, draws }
    }

    /// Takes the change if it explains more. Returns whether it does.
    fn improve(&mut self, change: impl FnOnce(&mut Candidate)) -> bool {
        let mut candidate = self.fit.candidate.clone();
        change(&mut candidate);
        if candidate.frames == 0 || self.tried.contains(&candidate) {
            return false;
        }
        self.tried.push(candidate.clone());
        let found = Fit::above(&self.bars, candidate, self.ledger, self.draws);
        let better = found.filter(|found| found.log_likelihood > self.fit.log_likelihood + 1e-9);
        let Some(better) = better else { return false };
        self.fit = better;
        self.bars = self.fit.bars(self.ledger);
        true
    }

    /// Tries capacities all around: policies that adapt have many small peaks.
    fn scan(&mut self) {
        let centre = i64::from(self.fit.candidate.frames);
        let stride = (centre / 125).max(1);
        for step in -4..=4 {
            let frames = (centre + step * stride).max(1) as u32;
            self.improve(|candidate| candidate.frames = frames);
        }
    }

    fn capacity(&mut self, share: f64) -> bool {
        let mut moved = false;
        for sign in [1i64, -1] {
            // Uphill for as long as it goes.
            for _ in 0..6 {
                let now = self.fit.candidate.frames;
                let step = (f64::from(now) * share).round().max(1.0) as i64;
                let frames = (i64::from(now) + sign * step).clamp(1, i64::from(u32::MAX / 4)) as u32;
                if !self.improve(|candidate| candidate.frames = frames) {
                    break;
                }
                moved = true;
            }
        }
        moved
    }

    /// Tries periods up to the neighbours that were tried before, and then one by one.
    fn periods(&mut self, at: usize, axis: &Axis) {
        let centre = self.fit.candidate.values[at];
        for step in -8..=8 {
            let period = (centre * PERIOD_FACTOR.powf(f64::from(step) / 8.0)).round();
            self.improve(|candidate| candidate.values[at] = period.clamp(axis.low, axis.high));
        }
        let centre = self.fit.candidate.values[at];
        for step in -4..=4 {
            let period = centre + f64::from(step);
            self.improve(|candidate| candidate.values[at] = period.clamp(axis.low, axis.high));
        }
    }

    fn parameters(&mut self, step: f64) -> bool {
        let mut moved = false;
        for (at, axis) in self.fit.candidate.family.axes.iter().enumerate() {
            for sign in [1.0, -1.0] {
                for _ in 0..3 {
                    let value = axis.moved(self.fit.candidate.values[at], sign * step);
                    if !self.improve(|candidate| candidate.values[at] = value) {
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
pub fn refine(fit: Fit, ledger: &Ledger<'_>, draws: u32) -> Fit {
    // Whoever draws is not steep in anything, and every step of it costs many simulations.
    let rounds = match (fit.candidate.family.draws, fit.candidate.draws()) {
        (true, _) => 2,
        (false, true) => 3,
        (false, false) => STEPS.len(),
    };
    let mut climb = Climb::new(fit, ledger, draws);
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

/// Tries what a cache may do besides its policy, and keeps what explains more than it costs. What falls below `bars` is
/// given up.
pub fn with_nuisances(fit: &Fit, ledger: &Ledger<'_>, draws: u32, bars: &Bars) -> Fit {
    /// Log likelihood that a nuisance has to bring.
    const WORTH: f64 = 6.0;
    let mut best = fit.clone();
    let batches = [2, 4, 8, 16, 32, 64].into_iter().filter(|&batch| batch * 4 <= fit.candidate.frames);
    let deviations = FOREIGN
        .into_iter()
        .map(|foreign| Nuisances { foreign, ..fit.candidate.nuisances })
        .chain(batches.clone().map(|batch| Nuisances { batch, ..fit.candidate.nuisances }))
        .chain(batches.map(|late| Nuisances { late, ..fit.candidate.nuisances }));
    let mut bars = bars.clone();
    ledger.raise_behind(&mut bars, &fit.course, MARGIN, MARGIN_PER_ACCESS);
    for nuisances in deviations {
        let candidate = Candidate { nuisances, ..fit.candidate.clone() };
        let Some(other) = Fit::above(&bars, candidate, ledger, draws) else { continue };
        let mut climb = Climb::new(other, ledger, draws);
        climb.capacity(0.03);
        let other = climb.fit;
        if other.log_likelihood > best.log_likelihood {
            best = other;
        }
    }
    if best.log_likelihood < fit.log_likelihood + WORTH { fit.clone() } else { best }
}

/// Tries all periods of a family that does now and then what the fit does always: the likelihood has a peak of its own at
/// the true one, so that no climb finds it from afar. `None` for families without a period.
pub fn with_period(fit: &Fit, family: &'static Family, ledger: &Ledger<'_>, draws: u32) -> Option<Fit> {
    let at = family.axes.iter().position(|axis| axis.scale == Scale::WholeLogarithmic)?;
    let axis = &family.axes[at];
    let own = |axis: &Axis| fit.candidate.family.axes.iter().position(|other| other.key == axis.key);
    let value = |axis: &Axis| own(axis).map_or(axis.grid[0], |own| fit.candidate.values[own]);
    // What else was fitted may be wrong where the period is.
    let mut bases = vec![family.axes.iter().map(value).collect(), family.leaves().swap_remove(0)];
    bases.dedup_by(|one, two| (0..one.len()).all(|other| other == at || one[other] == two[other]));
    let mut found: Vec<Fit> = Vec::new();
    for values in bases {
        let mut base = Candidate { family, values, ..fit.candidate.clone() };
        for period in periods(axis, ledger) {
            base.values[at] = period;
            let bars = found.last().unwrap_or(fit).bars(ledger);
            found.extend(Fit::above(&bars, base.clone(), ledger, draws));
            found.sort_by(|one, two| two.log_likelihood.total_cmp(&one.log_likelihood));
            found.truncate(PERIODS_CLIMBED);
        }
    }
    let climbed = found.into_iter().map(|found| {
        let mut climb = Climb::new(found, ledger, draws);
        climb.capacity(0.0);
        climb.periods(at, axis);
        climb.capacity(0.0);
        climb.fit
    });
    climbed.max_by(|one, two| one.log_likelihood.total_cmp(&two.log_likelihood))
}

/// Periods that may differ: those that are longer than all visits are the same.
fn periods(axis: &Axis, ledger: &Ledger<'_>) -> impl Iterator<Item = f64> {
    let (low, most) = (axis.low, axis.high.min(ledger.longest() as f64 + 1.0));
    std::iter::successors(Some(low), move |&period| {
        let next = (period * PERIOD_FACTOR).round().max(period + 1.0).min(most);
        (next > period).then_some(next)
    })
}

/// Capacities that explain nearly as much: the log likelihood drops by less than `drop`.
pub fn interval(fit: &Fit, ledger: &Ledger<'_>, draws: u32, drop: f64) -> (u32, u32) {
    let holds = |frames: u32| {
        let candidate = Candidate { frames, ..fit.candidate.clone() };
        ledger.is_above(fit.log_likelihood - drop, &candidate, draws)
    };
    let centre = fit.candidate.frames;
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
        at(inside)
    };
    (edge(-1), edge(1))
}

/// Values of one parameter that explain nearly as much, all else being as it is: in steps of a fiftieth of its range, whole
/// numbers one by one, periods wherever there is a peak.
pub fn parameter_interval(fit: &Fit, at: usize, ledger: &Ledger<'_>, draws: u32, drop: f64) -> [f64; 2] {
    const STEP: f64 = 0.08;
    let axis = fit.candidate.family.axes[at];
    let holds = |value: f64| {
        let mut candidate = fit.candidate.clone();
        candidate.values[at] = value;
        ledger.is_above(fit.log_likelihood - drop, &candidate, draws)
    };
    let [low, high] = [-1.0, 1.0].map(|sign| {
        let mut inside = fit.candidate.values[at];
        for _ in 0..50 {
            let step = if axis.scale.is_whole() { f64::MIN_POSITIVE } else { STEP };
            let next = axis.moved(inside, sign * step);
            if next == inside || !holds(next) {
                break;
            }
            inside = next;
        }
        (inside * 1e4).round() / 1e4
    });
    if axis.scale != Scale::WholeLogarithmic {
        return [low, high];
    }
    // Peak after peak, and whatever lies between them.
    let (mut low, mut high) = (low, high);
    for period in periods(&axis, ledger).filter(|&period| holds(period)) {
        let all = period > ledger.longest() as f64;
        (low, high) = (low.min(period), high.max(if all { axis.high } else { period }));
    }
    [low, high]
}
