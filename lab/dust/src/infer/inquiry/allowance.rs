//! The allowance: how many accesses may still be made (Q1).

use super::super::budget;
use super::super::score::Scorer;
use super::{CAPACITY_MIN, Inquiry, VERIFICATION};

/// Part of `accesses_per_block` that is made use of: what is known of the capacity may be a little
/// high.
const USED: (usize, usize) = (9, 10);
/// The same of the ceiling, which is somewhat high, where no fit is good and there is nothing else.
const USED_UNKNOWN: (usize, usize) = (23, 30);

impl Inquiry {
    /// Accesses that may still be made if the best fit is right.
    pub(super) fn left(&self) -> usize {
        self.most(self.estimate(), USED).saturating_sub(self.evidence.len())
    }

    /// Accesses that a cache of this capacity may be asked in all.
    fn most(&self, capacity: u32, (part, parts): (usize, usize)) -> usize {
        capacity.max(CAPACITY_MIN) as usize * self.options.accesses_per_block as usize * part / parts
    }

    /// Accesses that may still be made, whatever the best fit says (Q1).
    fn firmly_left(&self) -> usize {
        let accesses = self.evidence.len();
        if self.budget.get().0 != accesses {
            let noise = self.calibration.noise;
            let scorer = Scorer::new(&self.evidence, self.calibration.sides);
            let believed = self.fits.first().map_or(self.estimate(), |best| budget::believed(best, &scorer));
            let ceiling = self.options.flushes.then(|| budget::ceiling(&self.evidence, noise));
            let known = !self.fits.is_empty() && self.is_good();
            let part = if known { USED } else { USED_UNKNOWN };
            let most =
                ceiling.map_or(usize::MAX, |blocks| self.most(blocks, part)).min(self.most(believed, USED));
            let least = self.most(budget::floor(&self.evidence, noise), (1, 1));
            self.budget.set((accesses, most.max(least)));
        }
        self.budget.get().1.saturating_sub(accesses)
    }

    /// `accesses`, or as many as may still be made.
    pub(super) fn affordable(&self, accesses: usize) -> usize {
        // Far from the end a close look is not needed: capacities are not that wrong.
        let all = self.evidence.len() + accesses;
        if all <= self.most(self.estimate(), USED) / 2 { accesses } else { accesses.min(self.firmly_left()) }
    }

    /// Accesses of the verification: as planned, or somewhat more than planned with if there would
    /// be none, or none.
    pub(super) fn verification_accesses(&self) -> u32 {
        let least = self.estimate() as usize;
        let planned = (least * VERIFICATION as usize).min(self.left());
        let (wanted, needed) = if planned == 0 { (least, least / 2) } else { (planned, planned.min(least)) };
        let affordable = self.affordable(wanted);
        if affordable < needed { 0 } else { affordable as u32 }
    }
}
