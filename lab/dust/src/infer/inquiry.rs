//! The inquiry: which script comes next, and what follows from what was observed. No I/O, no clock:
//! a machine that is fed.
//!
//! ```text
//!   growing --> returning --> screening --> discriminating --> verifying --> done
//!   more and    all again,    random        what tells the     a fresh
//!   more blocks backwards     references    rest apart         script
//! ```
//!
//! Before that, whether the cache fetches ahead is asked where it may: see [`ahead`](super::ahead).
//!
//! Q1  The accesses of all scripts together stay below `accesses_per_block` times the capacity,
//!     also where the best fit has that wrong: see [`budget`](super::budget). A script that does
//!     not fit is made shorter or left out; an unverified family is unknown.
//! Q2  Equal options and readings give equal scripts and an equal verdict.
//!
//! Source: docs/RULES.md, D1 and D2.
//!
//! Why so: docs/decisions/0053-what-dust-forgives.md,
//! docs/decisions/0054-corners-belong-to-families.md.

mod allowance;
mod microbenchmark;
mod options;
mod verification;

use std::cell::Cell;

use super::ahead::{Ahead, question};
use super::calibrate::{Calibration, Modes, Reading, odds};
use super::check::Check;
use super::choose::{Costs, choose};
use super::evidence::{Evidence, Truth, seen};
use super::pattern::stack_distance;
use super::random::Random;
use super::rank::{
    DRAWS_SEARCH, merge, posterior, rank, rank_again, rank_everybody, rank_with_nuisances, rank_with_periods,
};
use super::refine::Fit;
use super::score::Scorer;
use super::script::Script;
use super::verdict::{Doubt, Terms, Verdict};
use microbenchmark::{Microbenchmark, is_unclear, probes_missing};
pub use options::Options;
use verification::Verification;

/// Names of the scripts of the stages.
const AHEAD_NAME: &str = "fetching-ahead";
const GROWTH_NAME: &str = "capacity-growth";
const RETURN_NAME: &str = "capacity-return";
const SCREENING_NAME: &str = "screening";
const REPETITION_NAME: &str = "repetition";
const VERIFICATION_NAME: &str = "verification";

/// Smaller caches are asked as if they held this number of blocks.
const CAPACITY_MIN: u32 = 8;
/// Caches of no more blocks are alike for many policies.
const FEW: u32 = 16;
/// Accesses of the screening and of the verification, as multiples of the capacity.
const SCREENING: u32 = 10;
const VERIFICATION: u32 = 4;
/// Latencies are believed when hits can be told from misses with this confidence.
const SEEN: f64 = 0.2;
/// Discrimination ends when all others together are less likely than this.
const DOUBT: f64 = 1e-4;
/// Part of the screening that is run again for hypotheses that draw, as a multiple of the capacity.
const REPETITION: u32 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    LookingAhead,
    Growing,
    Returning,
    Screening,
    Discriminating,
    Repeating,
    Verifying,
    Done,
}

/// A script and what the target said to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// What was done.
    pub script: Script,
    /// One reading for each access.
    pub readings: Vec<Reading>,
}

impl Observed {
    /// What was said before the first probe.
    fn before_probes(&self) -> &[Reading] {
        let first = self.script.probes.first().copied().unwrap_or(usize::MAX);
        &self.readings[..first.min(self.readings.len())]
    }
}

/// See the head of this file.
#[derive(Debug)]
pub struct Inquiry {
    options: Options,
    random: Random,
    stage: Stage,
    microbenchmark: Microbenchmark,
    record: Vec<Observed>,
    evidence: Evidence,
    calibration: Calibration,
    fits: Vec<Fit>,
    /// The fresh script, and what was to be verified by it.
    verification: Option<Verification>,
    ranked_again: bool,
    /// Accesses so far, and those that may be made in all, once that was needed.
    budget: Cell<(usize, usize)>,
    /// Without flushes: where the blocks of the present scripts begin, and where new ones would.
    base: u32,
    used: u32,
}

impl Inquiry {
    /// Nothing is known but the options.
    pub fn new(options: Options) -> Self {
        let evidence = Evidence::default();
        Self {
            random: Random::new(options.seed),
            stage: if options.may_fetch_ahead { Stage::LookingAhead } else { Stage::Growing },
            microbenchmark: Microbenchmark::new(&options),
            record: Vec::new(),
            calibration: Calibration::of(&evidence, None),
            evidence,
            fits: Vec::new(),
            verification: None,
            ranked_again: false,
            budget: Cell::new((0, 0)),
            base: 0,
            used: 0,
            options,
        }
    }

    /// The next script to run, or `None` when there is nothing more to ask.
    pub fn next_script(&mut self) -> Option<Script> {
        let script = self.planned()?;
        Some(self.placed(script))
    }

    /// A script that would start with a flush gets blocks that were never read before, where there
    /// is no flush.
    fn placed(&mut self, mut script: Script) -> Script {
        if self.options.flushes {
            return script;
        }
        if script.cold {
            self.base = self.used;
            script.cold = self.record.is_empty();
        }
        script.accesses.iter_mut().for_each(|block| *block += self.base);
        self.used = self.used.max(script.blocks());
        script
    }

    fn planned(&mut self) -> Option<Script> {
        match self.stage {
            Stage::LookingAhead => Some(question(AHEAD_NAME)),
            Stage::Growing => Some(self.microbenchmark.grow(&mut self.random)),
            Stage::Returning => Some(self.microbenchmark.come_back()),
            Stage::Screening => {
                let accesses = self.affordable((self.estimate() * SCREENING) as usize) as u32;
                let mut script = stack_distance(self.estimate(), accesses, &mut self.random);
                script.pattern = SCREENING_NAME.into();
                Some(script)
            }
            Stage::Discriminating => match self.discriminate() {
                Some(script) => Some(script),
                None => {
                    self.stage = if self.must_repeat() { Stage::Repeating } else { Stage::Verifying };
                    self.planned()
                }
            },
            Stage::Repeating => Some(self.repeat()),
            Stage::Verifying => {
                let accesses = self.verification_accesses();
                if accesses == 0 {
                    self.stage = Stage::Done;
                    return None;
                }
                let mut script = stack_distance(self.estimate(), accesses, &mut self.random);
                script.pattern = VERIFICATION_NAME.into();
                Some(script)
            }
            Stage::Done => None,
        }
    }

    /// What the target said to a script, one reading for each access.
    pub fn observe(&mut self, script: Script, readings: Vec<Reading>) {
        self.record.push(Observed { script, readings });
        self.look();
        match self.stage {
            Stage::LookingAhead => self.stage = Stage::Growing,
            Stage::Growing => self.look_for_an_end(),
            // Hits that waited for a processor looked like misses, and nothing is missing.
            Stage::Returning if !self.is_missing() => {
                self.stage = Stage::Growing;
            }
            Stage::Returning => {
                self.measure();
                // No policy explains hits of what was never read: nothing more is to be asked.
                let is_seen = self.ahead().is_some_and(|ahead| ahead.is_seen());
                self.stage = if is_seen { Stage::Done } else { Stage::Screening };
            }
            Stage::Screening if self.shows_nothing() => self.stage = Stage::Done,
            Stage::Screening => {
                self.screen();
                self.stage = Stage::Discriminating;
            }
            Stage::Discriminating => self.fit_again(),
            Stage::Repeating => {
                self.fit_again();
                self.confirm();
                self.stage = if self.verification.is_none() { Stage::Verifying } else { Stage::Done };
            }
            Stage::Verifying => {
                self.verify();
                self.stage = if self.must_repeat() { Stage::Repeating } else { Stage::Done };
            }
            Stage::Done => {}
        }
        if self.stage == Stage::Done {
            self.conclude();
        }
    }

    /// What follows from everything observed so far.
    pub fn verdict(&self) -> Verdict {
        let check = Check::of(&self.evidence, &self.calibration, &self.fits, self.repeated());
        let verdict = Verdict::of(
            &self.evidence,
            &self.calibration,
            &self.fits,
            check,
            self.terms(),
            self.mismatch_fresh(),
            self.doubt(),
        );
        if self.is_verified() { verdict } else { verdict.unverified() }
    }

    /// What is doubtful whatever fits best, or because of what contradicts the best fit.
    fn doubt(&self) -> Option<Doubt> {
        let fresh = self.mismatch_fresh().unwrap_or(0.0);
        let waited =
            self.verification.as_ref().map_or(0.0, |verification| verification.waited(&self.evidence));
        Doubt::of(&self.calibration, self.ahead())
            .or_else(|| Doubt::of_fresh(&self.calibration, fresh, waited))
            .or_else(|| {
                let frames = self.fits.first()?.hypothesis.frames;
                Doubt::of_capacity(&self.calibration, self.microbenchmark.range(), frames)
            })
    }

    /// What was found out about fetching ahead, if that was asked.
    pub fn ahead(&self) -> Option<Ahead> {
        let asked = self.record.iter().find(|observed| observed.script.pattern == AHEAD_NAME)?;
        let modes = self.calibration.modes;
        Some(Ahead::of(&asked.script, &asked.readings, modes)?.and(self.in_order(), modes))
    }

    /// First reads in order while the cache was filled, but for the first of all.
    fn in_order(&self) -> impl Iterator<Item = Reading> {
        let grown = |observed: &&Observed| observed.script.pattern == GROWTH_NAME && !observed.script.cold;
        self.record.iter().filter(grown).flat_map(Observed::before_probes).copied()
    }

    /// Accesses of which none was a hit, not even of a block that was read just before, if that is
    /// all that was found out.
    pub fn hitless(&self) -> Option<usize> {
        let ended = self.stage == Stage::Done && self.fits.is_empty();
        (ended && self.evidence_is_hitless()).then_some(self.evidence.len())
    }

    /// Blocks that were all there, and how many of them were kept a moment later: of a cache that
    /// removes late, which is not found out.
    pub fn collapse(&self) -> Option<(u32, u32)> {
        self.microbenchmark.collapse()
    }

    /// What the capacity microbenchmark says, if it was run: blocks that were still there, and
    /// between which bounds the capacity lies.
    pub fn measured(&self) -> Option<(u32, (u32, u32))> {
        let there = self.microbenchmark.there();
        (there > 0 && !self.shows_nothing()).then(|| (there, self.microbenchmark.range()))
    }

    /// Blocks among which nothing was missing, if the end of the cache was not found.
    pub fn boundless(&self) -> Option<u32> {
        let ended = self.stage == Stage::Done && self.fits.is_empty();
        let is_open = self.microbenchmark.there() == 0 && !self.is_blind() && !self.shows_nothing();
        (ended && is_open).then_some(self.microbenchmark.filled())
    }

    /// Everything observed so far.
    pub fn observed(&self) -> &[Observed] {
        &self.record
    }

    /// What is known of the observations.
    pub fn calibration(&self) -> &Calibration {
        &self.calibration
    }

    /// All observations as odds.
    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// The fits, the most likely first; of caches of a few blocks the tested one, and then the most
    /// likely first.
    pub fn fits(&self) -> &[Fit] {
        &self.fits
    }

    /// What the readings mean, all of them in the light of all.
    fn look(&mut self) {
        let took = |reading: &Reading| match reading {
            Reading::Took(ns) => Some(*ns),
            Reading::Said { .. } => None,
        };
        let latencies: Vec<u64> =
            self.record.iter().flat_map(|observed| &observed.readings).filter_map(took).collect();
        let modes = Modes::fit(&latencies);
        self.evidence = Evidence::default();
        for Observed { script, readings } in &self.record {
            let odds: Vec<f32> = readings.iter().map(|reading| odds(*reading, modes)).collect();
            self.evidence.add(script, &odds);
        }
        self.calibration = Calibration::of(&self.evidence, modes);
    }

    fn look_for_an_end(&mut self) {
        if self.is_missing() {
            self.stage = Stage::Returning;
        } else if self.microbenchmark.is_at_the_end(&self.options) || self.is_blind() {
            self.stage = Stage::Done;
        }
    }

    /// Whether blocks are missing that were read before.
    fn is_missing(&self) -> bool {
        probes_missing(self.record.last(), &self.calibration) > 0.0
    }

    fn is_blind(&self) -> bool {
        self.microbenchmark.is_blind(self.record.last(), &self.calibration)
    }

    /// Whether hits cannot be told from misses, or there are none.
    fn shows_nothing(&self) -> bool {
        is_unclear(&self.calibration) || self.evidence_is_hitless()
    }

    fn evidence_is_hitless(&self) -> bool {
        let is_miss = |(odds, _): (f32, Truth)| odds < 0.0;
        !self.evidence.is_empty()
            && self.calibration.modes.is_none()
            && self.evidence.observations().all(is_miss)
    }

    fn measure(&mut self) {
        let Some(last) = self.record.last() else { return };
        self.microbenchmark.measure(last, &self.calibration, &self.options);
    }

    /// Capacity for which scripts are made.
    fn estimate(&self) -> u32 {
        self.fits.first().map_or(self.microbenchmark.there(), |fit| fit.hypothesis.frames).max(CAPACITY_MIN)
    }

    fn screen(&mut self) {
        let scorer = Scorer::new(&self.evidence, self.calibration.sides);
        let fits = rank(&self.options.families, self.microbenchmark.range(), &scorer, None);
        self.fits = rank_with_periods(fits, &self.options.families, &scorer);
        self.consider_nuisances();
    }

    fn fit_again(&mut self) {
        let scorer = Scorer::new(&self.evidence, self.calibration.sides);
        self.fits = rank_again(std::mem::take(&mut self.fits), &scorer);
        // A fit that was left out may explain more by now. One that draws can explain nearly
        // anything, so that is no answer.
        let dubious =
            self.fits.first().is_none_or(|best| !best.hypothesis.repeats_itself()) || !self.is_good();
        // Once after the first script that discriminates, and once at the end.
        if dubious && (self.stage == Stage::Verifying || !self.ranked_again) {
            self.ranked_again = true;
            let others =
                rank(&self.options.families, self.microbenchmark.range(), &scorer, self.fits.first());
            self.fits = merge(std::mem::take(&mut self.fits), others);
        }
        if self.stage == Stage::Verifying {
            self.fits = rank_with_periods(std::mem::take(&mut self.fits), &self.options.families, &scorer);
        }
        self.consider_nuisances();
    }

    /// What the best fit has to stand up to.
    fn terms(&self) -> Terms {
        let Options { slack, corners, exact, shared, .. } = self.options;
        let best = self.fits.first().map_or("", |best| best.hypothesis.family.name);
        match corners.iter().find(|(name, _)| *name == best) {
            Some(&(_, slack)) => Terms { slack, exact: false, shared: true },
            None => Terms { slack, exact, shared },
        }
    }

    /// Whether the best fit, which draws nothing, is good enough.
    fn is_good(&self) -> bool {
        let check = Check::of(&self.evidence, &self.calibration, &self.fits, None);
        let draws = self.fits.first().is_some_and(|best| best.hypothesis.family.hashes());
        check.is_none_or(|check| check.passes(draws, self.terms().slack))
    }

    fn consider_nuisances(&mut self) {
        let scorer = Scorer::new(&self.evidence, self.calibration.sides);
        let Some(best) = self.fits.first() else { return };
        // A policy that draws explains the nuisances of others, too, so that is no answer.
        let drawing = best.hypothesis.family.draws;
        if drawing || (!best.hypothesis.draws() && !self.is_good()) {
            self.fits = rank_with_nuisances(std::mem::take(&mut self.fits), &scorer, !drawing);
        }
    }

    fn discriminate(&mut self) -> Option<Script> {
        let repetition = if self.must_repeat() { REPETITION } else { 0 };
        let reserve = (self.estimate() * (VERIFICATION + repetition)) as usize;
        let most = self.left().saturating_sub(reserve);
        let posterior = posterior(&self.fits);
        if posterior.iter().skip(1).map(|(weight, _)| weight).sum::<f64>() < DOUBT {
            return None;
        }
        let survivors: Vec<_> = posterior
            .iter()
            .filter(|(weight, _)| *weight > DOUBT / 10.0)
            .map(|(weight, fit)| (*weight, &fit.hypothesis))
            .collect();
        let random = self.random.clone();
        let costs = self.costs();
        let script = choose(&survivors, most, costs, &mut self.random, DRAWS_SEARCH)?;
        let with_reserve = script.accesses.len() + reserve;
        let affordable = self.affordable(with_reserve);
        if affordable == with_reserve {
            return Some(script);
        }
        // The same scripts again, those among them that are short enough.
        let (mut random, most) = (random, affordable.saturating_sub(reserve));
        choose(&survivors, most, costs, &mut random, DRAWS_SEARCH)
    }

    fn costs(&self) -> Costs {
        let seen = self.calibration.modes.filter(|_| self.calibration.confidence > SEEN);
        self.options.costs.or(seen.map(Costs::of)).unwrap_or_default()
    }

    /// Whether the best fit draws, and has not yet been asked to be as unpredictable as it says.
    fn must_repeat(&self) -> bool {
        let draws = self.fits.first().is_some_and(|best| !best.hypothesis.repeats_itself());
        let least = self.estimate() as usize;
        let possible = draws && self.options.flushes && self.repeated().is_none() && self.left() >= least;
        possible && self.affordable(least) == least
    }

    /// The beginning of the screening once more.
    fn repeat(&mut self) -> Script {
        let mut script = Script::cold(REPETITION_NAME);
        if let Some(screening) = self.record.iter().find(|observed| observed.script.pattern == SCREENING_NAME)
        {
            let verified = self.verification.is_some();
            let reserve = if verified { 0 } else { (self.estimate() * VERIFICATION) as usize };
            let most = (self.estimate() * REPETITION) as usize;
            let accesses = most.min(self.left().saturating_sub(reserve)).min(screening.script.accesses.len());
            let accesses = self.affordable(accesses + reserve).saturating_sub(reserve).min(accesses);
            script.scan(screening.script.accesses[..accesses].iter().copied());
        }
        script
    }

    /// The visits that had the same accesses.
    fn repeated(&self) -> Option<(usize, usize)> {
        let visit = |name: &str| {
            // A repetition for which nothing was left says nothing.
            let is_it =
                |observed: &Observed| observed.script.pattern == name && !observed.readings.is_empty();
            let at = self.record.iter().position(is_it)?;
            Some(self.record[..=at].iter().filter(|observed| observed.script.cold).count().saturating_sub(1))
        };
        Some((visit(SCREENING_NAME)?, visit(REPETITION_NAME)?))
    }

    /// Lets the fits learn from a script that they have not seen, once it is known whether it
    /// contradicts them.
    fn verify(&mut self) {
        let fresh = self.record.last().map_or(0, |observed| observed.readings.len());
        self.verification = Verification::of(&self.evidence, fresh, &self.fits);
        self.fit_again();
        self.confirm();
    }

    fn confirm(&mut self) {
        let slack = self.terms().slack;
        let (Some(best), Some(verification)) = (self.fits.first(), &mut self.verification) else { return };
        verification.confirm(&self.evidence, &self.calibration, best, slack);
    }

    /// The contradicted fit stays the nearest, also if another comes closer to all observations
    /// together.
    fn conclude(&mut self) {
        if let Some(verification) = self.verification.as_ref().filter(|_| !self.is_verified()) {
            self.fits = verification.before().to_vec();
        }
        // In a few blocks many policies do the same: all of them are named, not only those that
        // were still considered.
        if self.fits.first().is_some_and(|best| best.hypothesis.frames <= FEW) {
            let scorer = Scorer::new(&self.evidence, self.calibration.sides);
            let fits = std::mem::take(&mut self.fits);
            self.fits = rank_everybody(fits, &self.options.families, 2 * FEW, &scorer);
        }
    }

    /// Whether a fresh script says that the best fit is right.
    fn is_verified(&self) -> bool {
        self.verification.as_ref().is_some_and(Verification::confirmed)
    }

    /// Share of the fresh script that contradicts the best fit: the one that is reported, though it
    /// may not be the one that was best before.
    fn mismatch_fresh(&self) -> Option<f64> {
        Some(self.verification.as_ref()?.mismatch(&self.evidence, self.fits.first()?))
    }
}

fn missed(reading: Reading, modes: Option<Modes>) -> f64 {
    1.0 - seen(odds(reading, modes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_those_that_were_seen() {
        let mut inquiry = Inquiry::new(Options::default());
        assert_eq!(inquiry.costs(), Costs::default());
        let mut script = inquiry.next_script().unwrap();
        script.accesses = (0..200).flat_map(|block| [block, block]).collect();
        script.probes.clear();
        let took = |at: u64| Reading::Took(if at.is_multiple_of(2) { 80_000 + at } else { 1000 + at });
        let readings = (0..400).map(took).collect();
        inquiry.observe(script, readings);
        let costs = inquiry.costs();
        assert!((costs.hit_s - 1.2e-6).abs() < 2e-7 && (costs.miss_s - 8.02e-5).abs() < 2e-6, "{costs:?}");
        let paced = Costs::paced(40, 0.5);
        assert_eq!(Inquiry::new(Options { costs: Some(paced), ..Options::default() }).costs(), paced);
    }

    #[test]
    fn what_only_waits_now_and_then_does_not_grow_for_ever() {
        let mut inquiry = Inquiry::new(Options { flushes: false, ..Options::default() });
        let mut random = Random::new(3);
        while let Some(script) = inquiry.next_script() {
            // All are misses, and a few had to wait for a processor.
            let took = |_| {
                let waited = if random.chance(0.02) { 4_000_000 } else { 0 };
                Reading::Took(90_000 + u64::from(random.below(9000)) + waited)
            };
            let readings = script.accesses.iter().map(took).collect();
            inquiry.observe(script, readings);
        }
        assert!(inquiry.evidence().len() < 120_000, "{}", inquiry.evidence().len());
        assert_eq!(inquiry.verdict().family, "");
    }
}
