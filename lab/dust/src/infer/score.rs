//! Scores: how well a hypothesis explains what was observed.
//!
//! The likelihood is a product over all accesses. With `q` the share of draws in which the access
//! is a hit, `h` and `m` the shares of hits and of misses with a misleading observation, and the
//! observed odds `o`:
//!
//! ```text
//!   p = m + (1 - h - m) q      log P = ln( p s + (1 - p) (1 - s) ),   s = 1 / (1 + exp(-o))
//! ```
//!
//! Whether the best hypothesis explains enough is another question than which is best:
//! [`Score::excess`] compares the score with what the hypothesis itself would typically get.

mod course;

use std::ops::Range;

use super::calibrate::Noise;
use super::evidence::{Evidence, Fresh, seen, tells};
use super::hypothesis::Hypothesis;

pub use course::{Bars, Course};

/// Accesses between two looks at the course of a hypothesis.
const LOOK: usize = 128;
/// Accesses after which it is seen whether the next look will find anything.
const GLANCE: usize = 32;

/// Draws are few: this is added to hits and to misses, so that never and always stay possible.
const SMOOTHING: f64 = 0.1;

/// Scores hypotheses: observations, prepared for given shares of misleading ones.
#[derive(Debug)]
pub struct Scorer<'a> {
    evidence: &'a Evidence,
    noise: Noise,
    /// What each observation of each visit says.
    told: Vec<Vec<Told>>,
    /// At each look, the last visit first: accesses so far, and the highest log likelihood that the
    /// rest can have.
    looks: Vec<(usize, f64)>,
}

/// The probability of an observation if the access was a hit, and if it was a miss.
#[derive(Clone, Copy, Debug)]
struct Told {
    logs: (f32, f32),
    /// The powers of these logarithms.
    chances: (f64, f64),
}

/// How a hypothesis did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Natural logarithm of the likelihood.
    pub log_likelihood: f64,
    /// Share of observations that contradict the likelier prediction.
    pub mismatch: f64,
    /// How many standard deviations the score lies below what is typical for the hypothesis.
    /// Negative: better.
    pub excess: f64,
    /// The same in natural logarithms for each access.
    pub deficit: f64,
}

impl<'a> Scorer<'a> {
    /// Prepares the evidence.
    pub fn new(evidence: &'a Evidence, noise: Noise) -> Self {
        let told: Vec<Vec<Told>> = evidence
            .visits()
            .iter()
            .map(|visit| visit.odds.iter().map(|&odds| Told::new(odds, noise)).collect())
            .collect();
        let looks = looks(evidence, &told);
        Self { evidence, noise, told, looks }
    }

    /// The log likelihood of a hypothesis in `draws` draws.
    pub fn log_likelihood(&self, hypothesis: &Hypothesis, draws: u32) -> f64 {
        self.course(hypothesis, draws, &Bars::default()).map_or(f64::NEG_INFINITY, |course| course.total())
    }

    /// Whether the log likelihood of a hypothesis is above `floor`.
    pub fn is_above(&self, floor: f64, hypothesis: &Hypothesis, draws: u32) -> bool {
        let mut bars = Bars::default();
        self.raise_to(&mut bars, floor);
        self.course(hypothesis, draws, &bars).is_some_and(|course| course.total() > floor)
    }

    /// Ends whatever cannot reach `floor` any more.
    pub fn raise_to(&self, bars: &mut Bars, floor: f64) {
        bars.raise(self.looks.iter().map(|(_, rest)| floor - rest));
    }

    /// Ends courses that lie behind this one by `margin`, and `per_access` more for each access so
    /// far.
    pub fn raise_behind(&self, bars: &mut Bars, course: &Course, margin: f64, per_access: f64) {
        let behind =
            |(sum, (accesses, _)): (&f64, &(usize, f64))| sum - margin - per_access * *accesses as f64;
        bars.raise(course.sums.iter().zip(&self.looks).map(behind));
    }

    /// The course of a hypothesis in `draws` draws. `None` if it falls below a bar.
    pub fn course(&self, hypothesis: &Hypothesis, draws: u32, bars: &Bars) -> Option<Course> {
        let draws = hypothesis.needed(draws);
        let (mut sum, mut sums) = (0.0, Vec::with_capacity(self.looks.len()));
        let mut hits = [0; LOOK];
        // The last visits tell most.
        for (visit, told) in self.evidence.visits().iter().zip(&self.told).rev() {
            let mut running: Vec<_> = hypothesis.begin_all(visit, draws).collect();
            for (accesses, told) in visit.accesses.chunks(LOOK).zip(told.chunks(LOOK)) {
                let hits = &mut hits[..accesses.len()];
                hits.fill(0);
                let mut chunk = 0.0;
                // Sums only fall, so what is below the bar of the next look already need not get
                // there.
                for glance in (0..accesses.len()).step_by(GLANCE) {
                    let these = glance..(glance + GLANCE).min(accesses.len());
                    let (accesses, hits) = (&accesses[these.clone()], &mut hits[these.clone()]);
                    running.iter_mut().for_each(|simulation| simulation.go_on(accesses, hits));
                    chunk += explained(hits, &told[these], draws);
                    if !bars.admit(sums.len(), sum + chunk) {
                        return None;
                    }
                }
                sum += chunk;
                sums.push(sum);
            }
        }
        Some(Course { sums })
    }

    /// How many observations there are.
    pub fn observations(&self) -> usize {
        self.evidence.len()
    }

    /// Observations of the longest visit.
    pub fn longest(&self) -> usize {
        self.told.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Everything about a hypothesis.
    pub fn score(&self, hypothesis: &Hypothesis, draws: u32) -> Score {
        let visits = self.evidence.visits().iter().enumerate();
        self.score_places(hypothesis, draws, visits.map(|(at, visit)| (at, 0..visit.accesses.len())))
    }

    /// The same of the fresh accesses alone.
    pub fn score_of(&self, hypothesis: &Hypothesis, draws: u32, fresh: &Fresh) -> Score {
        self.score_places(hypothesis, draws, [(fresh.visit, fresh.accesses.clone())])
    }

    fn score_places(
        &self,
        hypothesis: &Hypothesis,
        draws: u32,
        places: impl IntoIterator<Item = (usize, Range<usize>)>,
    ) -> Score {
        let draws = hypothesis.needed(draws);
        let (mut total, mut wrong, mut count) = (0.0, 0.0, 0usize);
        let (mut typical, mut variance) = (0.0, 0.0);
        let mut by_draw = vec![0.0; draws as usize];
        for (visit, places) in places {
            let (visit, told) = (&self.evidence.visits()[visit], &self.told[visit]);
            let runs: Vec<Vec<u16>> = (0..draws).map(|draw| hypothesis.draw(visit, draw)).collect();
            for at in places {
                let hits: u16 = runs.iter().map(|run| run[at]).sum();
                let share = if draws == 1 { f64::from(hits) } else { share(hits, draws) };
                let explained = if draws == 1 { told[at].log(hits > 0) } else { told[at].chance(share).ln() };
                total += explained;
                if !tells(visit.odds[at]) {
                    // As typical as anything (E3).
                    by_draw.iter_mut().for_each(|sum| *sum += explained);
                    continue;
                }
                let seen = seen(visit.odds[at]);
                wrong += if share > 0.5 { 1.0 - seen } else { seen };
                // What a typical observation would give: right, or misleading.
                let hit = self.noise.seen(share);
                let (if_hit, if_miss) = (hit.ln(), (1.0 - hit).ln());
                let noise = if share > 0.5 { self.noise.hits } else { self.noise.misses };
                variance += noise * (1.0 - noise) * (if_hit - if_miss).powi(2);
                for (run, sum) in runs.iter().zip(&mut by_draw) {
                    // A draw is judged by the others, as the cache is: it would look too typical of
                    // itself.
                    let others = if draws == 1 { share } else { self::share(hits - run[at], draws - 1) };
                    let others = self.noise.seen(others);
                    let truth = self.noise.seen(f64::from(run[at]));
                    *sum += truth * others.ln() + (1.0 - truth) * (1.0 - others).ln();
                }
                count += 1;
            }
        }
        typical += by_draw.iter().sum::<f64>() / f64::from(draws);
        // Draws of a hypothesis differ among themselves by more than independent accesses would.
        let among =
            by_draw.iter().map(|sum| (sum - typical).powi(2)).sum::<f64>() / f64::from(draws.max(2) - 1);
        let excess = (typical - total) / (variance + among).max(1e-9).sqrt();
        let deficit = (typical - total) / count.max(1) as f64;
        Score { log_likelihood: total, mismatch: wrong / count.max(1) as f64, excess, deficit }
    }
}

/// See [`Scorer::looks`].
fn looks(evidence: &Evidence, told: &[Vec<Told>]) -> Vec<(usize, f64)> {
    let (mut accesses, mut most) = (0, 0.0);
    let mut looks = Vec::new();
    for (visit, told) in evidence.visits().iter().zip(told).rev() {
        let mut blocks = 0;
        for (chunk, told) in visit.accesses.chunks(LOOK).zip(told.chunks(LOOK)) {
            for (&block, &Told { logs: (hit, miss), .. }) in chunk.iter().zip(told) {
                // No policy predicts a hit of a block that was never read.
                let first = block == blocks;
                blocks += u32::from(first);
                most += f64::from(if first { miss } else { hit.max(miss) });
            }
            accesses += chunk.len();
            looks.push((accesses, most));
        }
    }
    let all = most;
    looks.into_iter().map(|(accesses, most)| (accesses, all - most)).collect()
}

/// The log probability of observations, given in how many draws each access was a hit.
fn explained(hits: &[u16], told: &[Told], draws: u32) -> f64 {
    /// As many probabilities are multiplied: they do not come near the least number there is.
    const AT_ONCE: usize = 8;
    if draws == 1 {
        return hits.iter().zip(told).map(|(&hits, told)| told.log(hits > 0)).sum();
    }
    let chance = |(&hits, told): (&u16, &Told)| told.chance(share(hits, draws));
    let product = |hits: &[u16], told: &[Told]| hits.iter().zip(told).map(chance).product::<f64>();
    hits.chunks(AT_ONCE).zip(told.chunks(AT_ONCE)).map(|(hits, told)| product(hits, told).ln()).sum()
}

impl Told {
    fn new(odds: f32, noise: Noise) -> Self {
        let seen = seen(odds);
        let hit = (1.0 - noise.hits) * seen + noise.hits * (1.0 - seen);
        let not_miss = (1.0 - noise.misses) * seen + noise.misses * (1.0 - seen);
        let logs = (hit.ln() as f32, (1.0 - not_miss).ln() as f32);
        Self { logs, chances: (f64::from(logs.0).exp(), f64::from(logs.1).exp()) }
    }

    /// The log probability if the access was a hit, or was none.
    fn log(&self, hit: bool) -> f64 {
        f64::from(if hit { self.logs.0 } else { self.logs.1 })
    }

    /// The probability if this share of draws is a hit.
    fn chance(&self, share: f64) -> f64 {
        share * self.chances.0 + (1.0 - share) * self.chances.1
    }
}

fn share(hits: u16, draws: u32) -> f64 {
    (f64::from(hits) + SMOOTHING) / (f64::from(draws) + 2.0 * SMOOTHING)
}
