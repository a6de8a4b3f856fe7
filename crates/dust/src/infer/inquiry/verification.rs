//! The verification: what the fits say of a fresh trace that none of them has seen.

use super::super::calibrate::Calibration;
use super::super::evidence::Evidence;
use super::super::fresh::Fresh;
use super::super::refine::Fit;

/// A fresh trace, and the fits as they were before it.
#[derive(Debug)]
pub(super) struct Verification {
    fresh: Fresh,
    before: Vec<Fit>,
    confirmed: bool,
}

impl Verification {
    /// The last so many observations are fresh. `None` if there is nothing that they could verify.
    pub fn of(evidence: &Evidence, observations: usize, fits: &[Fit]) -> Option<Self> {
        let visit = evidence.visits().last().filter(|_| !fits.is_empty())?;
        let end = visit.accesses.len();
        let accesses = end.saturating_sub(observations)..end;
        let fresh = Fresh { visit: evidence.visits().len() - 1, accesses };
        Some(Self { fresh, before: fits.to_vec(), confirmed: false })
    }

    /// Confirms the best fit, if it was among those before and the fresh trace does not contradict it.
    pub fn confirm(&mut self, evidence: &Evidence, calibration: &Calibration, best: &Fit, slack: f64) {
        let name = best.candidate.name();
        let before = if calibration.modes.is_some() && best.candidate.draws() {
            // He is not put to the test, and explains nearly anything: who led before has to stand it.
            self.before.first()
        } else {
            self.before.iter().find(|fit| fit.candidate.name() == name)
        };
        self.confirmed = before.is_some_and(|fit| !self.fresh.contradicts(evidence, calibration, fit, slack));
    }

    /// Whether the fresh trace says that the best fit is right.
    pub fn confirmed(&self) -> bool {
        self.confirmed
    }

    /// The fits that have not seen the fresh trace.
    pub fn before(&self) -> &[Fit] {
        &self.before
    }

    /// Share of the fresh trace that contradicts a fit.
    pub fn mismatch(&self, evidence: &Evidence, fit: &Fit) -> f64 {
        self.fresh.contradictions(evidence, fit) / self.fresh.accesses.len().max(1) as f64
    }
}
