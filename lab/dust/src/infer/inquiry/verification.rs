//! The verification: what the fits say of a fresh script that none of them has seen.

use super::super::calibrate::Calibration;
use super::super::evidence::{Evidence, Fresh};
use super::super::refine::Fit;

/// A fresh script, and the fits as they were before it.
#[derive(Debug)]
pub(super) struct Verification {
    fresh: Fresh,
    before: Vec<Fit>,
    confirmed: bool,
}

impl Verification {
    /// The last `observations` observations are fresh. `None` if there is nothing that they could
    /// verify.
    pub fn of(evidence: &Evidence, observations: usize, fits: &[Fit]) -> Option<Self> {
        let visit = evidence.visits().last().filter(|_| !fits.is_empty())?;
        let end = visit.accesses.len();
        let accesses = end.saturating_sub(observations)..end;
        let fresh = Fresh { visit: evidence.visits().len() - 1, accesses };
        Some(Self { fresh, before: fits.to_vec(), confirmed: false })
    }

    /// Confirms the best fit, if its name was among those before and the fresh script does not
    /// contradict it.
    pub fn confirm(&mut self, evidence: &Evidence, calibration: &Calibration, best: &Fit, slack: f64) {
        let name = best.hypothesis.name();
        let timed = calibration.modes.is_some();
        let tested = match self.before.iter().find(|fit| fit.hypothesis.name() == name) {
            // It is not put to the test, and explains nearly anything: the leader from before is
            // tested.
            Some(_) if timed && !best.hypothesis.repeats_itself() => self.before.first(),
            // Nor would a fit that drew then. It draws nothing now, so it is tested as it is.
            Some(before) if timed && !before.hypothesis.repeats_itself() => Some(best),
            before => before,
        };
        self.confirmed = tested.is_some_and(|fit| !self.fresh.contradicts(evidence, calibration, fit, slack));
    }

    /// Whether the fresh script says that the best fit is right.
    pub fn confirmed(&self) -> bool {
        self.confirmed
    }

    /// The fits that have not seen the fresh script.
    pub fn before(&self) -> &[Fit] {
        &self.before
    }

    /// See [`Fresh::waited`].
    pub fn waited(&self, evidence: &Evidence) -> f64 {
        self.fresh.waited(evidence)
    }

    /// Share of the fresh script that contradicts a fit.
    pub fn mismatch(&self, evidence: &Evidence, fit: &Fit) -> f64 {
        self.fresh.contradictions(evidence, fit) / self.fresh.accesses.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::calibrate::{Modes, Reading};
    use super::super::super::evidence::Visit;
    use super::super::super::family::Family;
    use super::super::super::hypothesis::Hypothesis;
    use super::super::super::pattern::stack_distance;
    use super::super::super::random::Random;
    use super::super::super::score::Course;
    use super::super::super::script::Script;
    use super::super::odds;
    use super::*;

    const FRAMES: u32 = 60;

    fn fit(name: &str, foreign: f64) -> Fit {
        let family = Family::all().iter().find(|family| family.name == name).expect("a family");
        let leaf = family.leaves().into_iter().next().expect("a leaf");
        let mut hypothesis = Hypothesis::new(family, leaf, FRAMES);
        hypothesis.nuisances.foreign = foreign;
        Fit { hypothesis, log_likelihood: 0.0, course: Course::default() }
    }

    fn timed(name: &str, script: &Script) -> Vec<u64> {
        let hits = fit(name, 0.0).hypothesis.hits(&Visit::imagined(script), 1);
        let took = |(at, hits): (u64, u16)| {
            let mode: u64 = if hits > 0 { 1000 } else { 90_000 };
            mode + at % 50
        };
        (0..).zip(hits).map(took).collect()
    }

    /// Whether a cache that was `shown` before, and `hidden` on the fresh script, is confirmed.
    fn confirmed(shown: &str, hidden: &str, before: &[Fit], best: &Fit) -> bool {
        let mut random = Random::new(5);
        let scripts = [shown, hidden].map(|name| (name, stack_distance(FRAMES, FRAMES * 6, &mut random)));
        let took: Vec<Vec<u64>> = scripts.iter().map(|(name, script)| timed(name, script)).collect();
        let modes = Modes::fit(&took.concat());
        let mut evidence = Evidence::default();
        for ((_, script), took) in scripts.iter().zip(&took) {
            let odds: Vec<f32> = took.iter().map(|&ns| odds(Reading::Took(ns), modes)).collect();
            evidence.add(script, &odds);
        }
        let calibration = Calibration::of(&evidence, modes);
        let fresh = took[1].len();
        let mut verification = Verification::of(&evidence, fresh, before).expect("there is something");
        verification.confirm(&evidence, &calibration, best, 0.0);
        verification.confirmed()
    }

    #[test]
    fn names_that_are_timed_are_confirmed_only_by_what_could_have_taken_them_back() {
        let [lru, drawing, random] =
            [("lru", 0.0), ("lru", 0.01), ("random", 0.0)].map(|(name, foreign)| fit(name, foreign));
        let (both, drew) = ([lru.clone(), random.clone()], [drawing]);
        assert!(confirmed("lru", "lru", &both, &lru));
        assert!(!confirmed("lru", "mru", &both, &lru));
        assert!(confirmed("lru", "lru", &both, &random));
        assert!(!confirmed("lru", "mru", &both, &random));
        // It was not among the fits before.
        assert!(!confirmed("lru", "lru", &both[..1], &random));
        // He drew before, and draws nothing any more.
        assert!(confirmed("lru", "lru", &drew, &lru));
        assert!(!confirmed("lru", "mru", &drew, &lru));
    }
}
