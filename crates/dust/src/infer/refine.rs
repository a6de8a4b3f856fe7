//! Refinement: a local search for the capacity, the parameters and the nuisances of a candidate.
//!
//! One coordinate after the other, both directions, with steps that shrink when nothing gets better. Capacity comes first
//! and last: the likelihood is steep in it, and parameters are shares of it.

use super::candidate::Candidate;
use super::family::Scale;
use super::score::Ledger;
use super::simulate::Nuisances;

/// Steps of parameters, in quarters of their range.
const STEPS: [f64; 4] = [1.0, 0.4, 0.15, 0.05];
/// Steps of the capacity, as shares of it; always at least one block.
const CAPACITY_STEPS: [f64; 4] = [0.04, 0.015, 0.006, 0.0];
/// Rates of foreign insertions that are tried, per access.
const FOREIGN: [f64; 5] = [0.005, 0.01, 0.02, 0.035, 0.06];

/// A candidate and its log likelihood.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The candidate.
    pub candidate: Candidate,
    /// Natural logarithm of its likelihood.
    pub log_likelihood: f64,
}

impl Fit {
    /// Scores a candidate.
    pub fn of(candidate: Candidate, ledger: &Ledger<'_>, draws: u32) -> Self {
        let log_likelihood = ledger.log_likelihood(&candidate, draws);
        Self { candidate, log_likelihood }
    }

    /// Scores a candidate. `None` if it is below `floor`.
    pub fn above(floor: f64, candidate: Candidate, ledger: &Ledger<'_>, draws: u32) -> Option<Self> {
        let log_likelihood = ledger.log_likelihood_above(&candidate, draws, floor);
        (log_likelihood >= floor).then_some(Self { candidate, log_likelihood })
    }

    /// Takes the change if it explains more. Returns whether it does.
    fn improve(&mut self, ledger: &Ledger<'_>, draws: u32, change: impl FnOnce(&mut Candidate)) -> bool {
        let mut candidate = self.candidate.clone();
        change(&mut candidate);
        let same = candidate.frames == self.candidate.frames
            && candidate.values == self.candidate.values
            && candidate.nuisances == self.candidate.nuisances;
        if same || candidate.frames == 0 {
            return false;
        }
        let floor = self.log_likelihood + 1e-9;
        let log_likelihood = ledger.log_likelihood_above(&candidate, draws, floor);
        let other = Self { candidate, log_likelihood };
        let better = log_likelihood > floor;
        if better {
            *self = other;
        }
        better
    }
}

/// Climbs from `fit` to the nearest peak of the likelihood.
pub fn refine(mut fit: Fit, ledger: &Ledger<'_>, draws: u32) -> Fit {
    scan(&mut fit, ledger, draws);
    for (round, &step) in STEPS.iter().enumerate() {
        // Twice at each width: parameters and capacity depend on each other.
        for _ in 0..2 {
            let mut moved = capacity(&mut fit, ledger, draws, CAPACITY_STEPS[round]);
            moved |= parameters(&mut fit, ledger, draws, step);
            if !moved {
                break;
            }
        }
    }
    capacity(&mut fit, ledger, draws, 0.0);
    fit
}

/// Tries capacities all around: policies that adapt have many small peaks.
fn scan(fit: &mut Fit, ledger: &Ledger<'_>, draws: u32) {
    let centre = i64::from(fit.candidate.frames);
    let stride = (centre / 125).max(1);
    for step in -4..=4 {
        let frames = (centre + step * stride).max(1) as u32;
        fit.improve(ledger, draws, |candidate| candidate.frames = frames);
    }
}

fn capacity(fit: &mut Fit, ledger: &Ledger<'_>, draws: u32, share: f64) -> bool {
    let mut moved = false;
    for sign in [1i64, -1] {
        // Uphill for as long as it goes.
        for _ in 0..6 {
            let step = (f64::from(fit.candidate.frames) * share).round().max(1.0) as i64;
            let frames =
                (i64::from(fit.candidate.frames) + sign * step).clamp(1, i64::from(u32::MAX / 4)) as u32;
            if !fit.improve(ledger, draws, |candidate| candidate.frames = frames) {
                break;
            }
            moved = true;
        }
    }
    moved
}

fn parameters(fit: &mut Fit, ledger: &Ledger<'_>, draws: u32, step: f64) -> bool {
    let mut moved = false;
    for (at, axis) in fit.candidate.family.axes.iter().enumerate() {
        for sign in [1.0, -1.0] {
            for _ in 0..3 {
                let value = axis.moved(fit.candidate.values[at], sign * step);
                if !fit.improve(ledger, draws, |candidate| candidate.values[at] = value) {
                    break;
                }
                moved = true;
            }
        }
    }
    moved
}

/// Tries what a cache may do besides its policy, and keeps what explains more than it costs.
pub fn with_nuisances(fit: &Fit, ledger: &Ledger<'_>, draws: u32) -> Fit {
    /// Log likelihood that a nuisance has to bring.
    const WORTH: f64 = 6.0;
    let mut best = fit.clone();
    let batches = [2, 4, 8, 16, 32, 64].into_iter().filter(|&batch| batch * 4 <= fit.candidate.frames);
    let deviations = FOREIGN
        .into_iter()
        .map(|foreign| Nuisances { foreign, ..fit.candidate.nuisances })
        .chain(batches.clone().map(|batch| Nuisances { batch, ..fit.candidate.nuisances }))
        .chain(batches.map(|late| Nuisances { late, ..fit.candidate.nuisances }));
    for nuisances in deviations {
        let candidate = Candidate { nuisances, ..fit.candidate.clone() };
        let mut other = Fit::of(candidate, ledger, draws);
        capacity(&mut other, ledger, draws, 0.03);
        if other.log_likelihood > best.log_likelihood {
            best = other;
        }
    }
    if best.log_likelihood < fit.log_likelihood + WORTH { fit.clone() } else { best }
}

/// Capacities that explain nearly as much: the log likelihood drops by less than `drop`.
pub fn interval(fit: &Fit, ledger: &Ledger<'_>, draws: u32, drop: f64) -> (u32, u32) {
    let holds = |frames: u32| {
        let candidate = Candidate { frames, ..fit.candidate.clone() };
        let floor = fit.log_likelihood - drop;
        ledger.log_likelihood_above(&candidate, draws, floor) > floor
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
/// numbers one by one.
pub fn parameter_interval(fit: &Fit, at: usize, ledger: &Ledger<'_>, draws: u32, drop: f64) -> [f64; 2] {
    const STEP: f64 = 0.08;
    let axis = fit.candidate.family.axes[at];
    let holds = |value: f64| {
        let mut candidate = fit.candidate.clone();
        candidate.values[at] = value;
        let floor = fit.log_likelihood - drop;
        ledger.log_likelihood_above(&candidate, draws, floor) > floor
    };
    [-1.0, 1.0].map(|sign| {
        let mut inside = fit.candidate.values[at];
        for _ in 0..50 {
            let step = if axis.scale == Scale::Whole { f64::MIN_POSITIVE } else { STEP };
            let next = axis.moved(inside, sign * step);
            if next == inside || !holds(next) {
                break;
            }
            inside = next;
        }
        (inside * 1e4).round() / 1e4
    })
}
