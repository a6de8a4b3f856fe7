//! The fresh script: accesses that the search has not seen, on which the fit that it chose is put
//! to the test.
//!
//! ```text
//!   seen before   2,000 accesses, 41 contradict the fit   ->  their share is Beta(41.5, 1959.5)
//!   fresh           400 accesses, 25 contradict it        ->  P(25 or more) = 0.00002: refuted
//! ```
//!
//! The share that contradicts the fit is itself only known from what was seen, so the number among
//! the fresh accesses has a beta-binomial distribution. Hypotheses that draw are expected to be
//! contradicted wherever they draw otherwise: theirs is the log likelihood, compared with that of
//! their own draws.
//!
//! Where time is measured, what a busy machine does comes in bursts and has no such distribution:
//! true names would be taken back. So both sides are tested apart there, among the observations
//! that tell something of what is not known anyway:
//!
//! ```text
//!   the fit says miss, it looked like a hit   no burst does that     ->  as above
//!   the fit says hit, it looked like a miss   a burst does just that ->  and blocks read just
//!                                             before, hits under any policy, must look right
//!                                             more often
//! ```
//!
//! Why so: docs/decisions/0056-a-fresh-trace-takes-a-name-back.md,
//! docs/decisions/0058-names-that-are-timed-are-taken-back.md.

use super::calibrate::Calibration;
use super::evidence::{Evidence, Fresh, Truth, Visit, seen, tells};
use super::rank::DRAWS_SEARCH;
use super::refine::Fit;
use super::score::Scorer;

/// How often a fit that is true is contradicted.
const FALSE_ALARM: f64 = 1e-4;
/// The same in standard deviations of a normal distribution.
const FALSE_ALARM_DEVIATIONS: f64 = 3.72;
/// Log likelihood that is lost by what never happens, about.
const NEVER: f64 = 4.0;

impl Fresh {
    /// Fresh observations that contradict a fit.
    pub fn contradictions(&self, evidence: &Evidence, fit: &Fit) -> f64 {
        let Some(visit) = evidence.visits().get(self.visit) else { return 0.0 };
        let fresh = contradictions(visit, fit).enumerate().filter(|(place, _)| self.accesses.contains(place));
        fresh.map(|(_, wrong)| wrong).sum()
    }

    /// Share of the fresh reads that are hits whatever the policy and look like misses: what a busy
    /// machine did to the others, too.
    pub fn waited(&self, evidence: &Evidence) -> f64 {
        let Some(visit) = evidence.visits().get(self.visit) else { return 0.0 };
        let mut again = Tally::default();
        let fresh = visit.observations().enumerate().filter(|(place, _)| self.accesses.contains(place));
        for (_, (odds, _)) in fresh.filter(|(_, (odds, truth))| *truth == Truth::Again && tells(*odds)) {
            again.add(1.0 - seen(odds));
        }
        again.wrong / again.count.max(1.0)
    }

    /// All other observations that contradict it.
    fn contradictions_before(&self, evidence: &Evidence, fit: &Fit) -> f64 {
        let others = evidence.visits().iter().enumerate().flat_map(|(at, visit)| {
            let is_fresh = move |place: &usize| at == self.visit && self.accesses.contains(place);
            contradictions(visit, fit).enumerate().filter(move |(place, _)| !is_fresh(place))
        });
        others.map(|(_, wrong)| wrong).sum()
    }

    /// Whether the fresh accesses contradict a fit that was found without them, beyond `slack` of
    /// them.
    pub fn contradicts(&self, evidence: &Evidence, calibration: &Calibration, fit: &Fit, slack: f64) -> bool {
        if calibration.modes.is_some() {
            return self.contradicts_timed(evidence, calibration, fit, slack);
        }
        let count = self.accesses.len();
        if fit.hypothesis.draws() {
            let scorer = Scorer::new(evidence, calibration.sides);
            let score = scorer.score_of(&fit.hypothesis, 2 * DRAWS_SEARCH, self);
            return score.deficit > slack * NEVER && score.excess > FALSE_ALARM_DEVIATIONS;
        }
        let all = |wrong, count: usize| Tally { count: count as f64, wrong };
        let fresh = all(self.contradictions(evidence, fit), count);
        let before = all(self.contradictions_before(evidence, fit), evidence.len() - count);
        before.no_less_than(calibration.noise).is_surprised_by(fresh, slack * count as f64, FALSE_ALARM)
    }

    /// The same where time is measured. Of a hypothesis that draws nothing is taken back: two runs
    /// of one script tell more of it.
    fn contradicts_timed(
        &self,
        evidence: &Evidence,
        calibration: &Calibration,
        fit: &Fit,
        slack: f64,
    ) -> bool {
        if !fit.hypothesis.repeats_itself() {
            return false;
        }
        let [mut before, mut fresh] = [Sides::default(); 2];
        for (at, visit) in evidence.visits().iter().enumerate() {
            let shares = fit.hypothesis.shares(visit, DRAWS_SEARCH);
            for (place, ((odds, truth), share)) in visit.observations().zip(shares).enumerate() {
                let is_fresh = at == self.visit && self.accesses.contains(&place);
                let sides = if is_fresh { &mut fresh } else { &mut before };
                sides.count(odds, truth, share > 0.5);
            }
        }
        // Each side may raise the alarm.
        let (slack, alarm) = (slack * self.accesses.len() as f64, FALSE_ALARM / 2.0);
        let misses = before.misses.no_less_than(calibration.sides.misses);
        let hits = before.hits.no_less_than(calibration.sides.hits);
        misses.is_surprised_by(fresh.misses, slack, alarm)
            || (hits.is_surprised_by(fresh.hits, slack, alarm)
                && fresh.again.is_surprised_by(fresh.hits, slack, alarm))
    }
}

/// Observations, and how many of them contradict a fit.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    count: f64,
    wrong: f64,
}

impl Tally {
    fn add(&mut self, wrong: f64) {
        self.count += 1.0;
        self.wrong += wrong;
    }

    /// The same, where no smaller share than this is believed.
    fn no_less_than(self, share: f64) -> Self {
        Self { wrong: self.wrong.max(share * self.count).min(self.count), ..self }
    }

    /// Whether the wrong ones of `fresh`, but for `slack` of them, are as improbable as a false
    /// `alarm` where these are known.
    fn is_surprised_by(self, fresh: Self, slack: f64, alarm: f64) -> bool {
        let beyond = (fresh.wrong - slack).round().max(0.0);
        let right = self.count - self.wrong;
        at_least(beyond as usize, fresh.count as usize, self.wrong + 0.5, right + 0.5) < alarm
    }
}

/// Observations that were timed and tell something, by what a fit says of them.
#[derive(Clone, Copy, Debug, Default)]
struct Sides {
    /// It says miss, of blocks that were read before.
    misses: Tally,
    /// It says hit, of blocks that were not read just before.
    hits: Tally,
    /// Blocks that were read just before.
    again: Tally,
}

impl Sides {
    fn count(&mut self, odds: f32, truth: Truth, is_hit: bool) {
        if !tells(odds) {
            return;
        }
        let seen = seen(odds);
        match truth {
            Truth::First => {}
            Truth::Again => self.again.add(1.0 - seen),
            Truth::Open if is_hit => self.hits.add(1.0 - seen),
            Truth::Open => self.misses.add(seen),
        }
    }
}

/// How much each observation of a visit contradicts a fit, 0 to 1.
fn contradictions(visit: &Visit, fit: &Fit) -> impl Iterator<Item = f64> {
    let shares = fit.hypothesis.shares(visit, DRAWS_SEARCH);
    shares.into_iter().zip(&visit.odds).map(|(share, &odds)| {
        let seen = seen(odds);
        if share > 0.5 { 1.0 - seen } else { seen }
    })
}

/// Probability of `least` or more of `count`; their share has a beta distribution.
fn at_least(least: usize, count: usize, alpha: f64, beta: f64) -> f64 {
    let all = count as f64;
    // From none on, each from the one before.
    let mut log: f64 = (0..count).map(|at| ((beta + at as f64) / (alpha + beta + at as f64)).ln()).sum();
    let mut below = 0.0;
    for at in 0..least.min(count) {
        below += log.exp();
        let at = at as f64;
        log += ((all - at) * (alpha + at) / ((at + 1.0) * (beta + all - at - 1.0))).ln();
    }
    (1.0 - below).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_is_that_of_shares_which_are_known_only_roughly() {
        // All shares alike: every number is as likely as any other.
        for least in 0..=10 {
            let expected = (11 - least) as f64 / 11.0;
            assert!((at_least(least, 10, 1.0, 1.0) - expected).abs() < 1e-12, "{least}");
        }
        // A share that is known well: the binomial distribution, P(4 or more of 20) at 5 % is
        // 0.0159.
        assert!((at_least(4, 20, 5e7, 95e7) - 0.015_902).abs() < 1e-5);
        // One that is known from a hundred is no surprise where it would be if it were known.
        assert!(at_least(7, 20, 5.0, 95.0) > 5.0 * at_least(7, 20, 5e7, 95e7));
    }
}
