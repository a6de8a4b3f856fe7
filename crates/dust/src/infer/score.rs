//! Scores: how well a candidate explains what was observed.
//!
//! The likelihood is a product over all accesses. With `q` the share of draws in which the access is a hit, `e` the
//! share of observations that mislead, and the observed odds `o`:
//!
//! ```text
//!   P(hit seen) = e + (1 - 2e) q         log P = ln( P(hit seen) s + (1 - P(hit seen)) (1 - s) ),   s = 1 / (1 + exp(-o))
//! ```
//!
//! Whether the best candidate explains enough is another question than which is best: [`Score::excess`] compares the
//! score with what the candidate itself would typically get.

use super::candidate::Candidate;
use super::evidence::Evidence;
use super::simulate::Judge;

/// Draws are few: between never and always there is room for so many more.
const SMOOTHING: f64 = 0.1;

/// Observations prepared for a given share of misleading ones.
#[derive(Debug)]
pub struct Ledger<'a> {
    evidence: &'a Evidence,
    noise: f64,
    /// Log probability of each observation if the access was a hit, and if it was a miss.
    logs: Vec<Vec<(f32, f32)>>,
}

/// How a candidate did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Natural logarithm of the likelihood.
    pub log_likelihood: f64,
    /// Share of observations that contradict the likelier prediction.
    pub mismatch: f64,
    /// How many standard deviations the score lies below what is typical for the candidate. Negative: better.
    pub excess: f64,
    /// The same in natural logarithms for each access.
    pub deficit: f64,
}

impl<'a> Ledger<'a> {
    /// Prepares the evidence.
    pub fn new(evidence: &'a Evidence, noise: f64) -> Self {
        let logs = evidence
            .visits()
            .iter()
            .map(|visit| visit.odds.iter().map(|&odds| logs(f64::from(odds), noise)).collect())
            .collect();
        Self { evidence, noise, logs }
    }

    /// The log likelihood of a candidate in so many draws.
    pub fn log_likelihood(&self, candidate: &Candidate, draws: u32) -> f64 {
        self.log_likelihood_above(candidate, draws, f64::NEG_INFINITY)
    }

    /// The same, but whatever turns out to be below `floor` may be given too high, though below `floor`, in less time.
    pub fn log_likelihood_above(&self, candidate: &Candidate, draws: u32, floor: f64) -> f64 {
        let mut total = 0.0;
        let once = !candidate.draws();
        // The last visits tell most.
        for (visit, logs) in self.evidence.visits().iter().zip(&self.logs).rev() {
            total = if once {
                let mut judge = Judge { logs, sum: total, floor };
                candidate.judged(visit, &mut judge);
                judge.sum
            } else {
                let hits = candidate.hits(visit, draws);
                total + hits.iter().zip(logs).map(|(&hits, log)| mixed(share(hits, draws), *log)).sum::<f64>()
            };
            if total < floor {
                break;
            }
        }
        total
    }

    /// Observations in all.
    pub fn len(&self) -> usize {
        self.evidence.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.evidence.is_empty()
    }

    /// Everything about a candidate.
    pub fn score(&self, candidate: &Candidate, draws: u32) -> Score {
        let draws = if candidate.draws() { draws } else { 1 };
        let (mut total, mut wrong, mut count) = (0.0, 0.0, 0usize);
        let (mut typical, mut variance) = (0.0, 0.0);
        let mut by_draw = vec![0.0; draws as usize];
        for (visit, logs) in self.evidence.visits().iter().zip(&self.logs) {
            let runs: Vec<Vec<u16>> = (0..draws)
                .map(|draw| {
                    let mut hits = vec![0; visit.accesses.len()];
                    candidate.draw(visit, draw, &mut hits);
                    hits
                })
                .collect();
            for at in 0..visit.accesses.len() {
                let hits: u16 = runs.iter().map(|run| run[at]).sum();
                let share = if draws == 1 { f64::from(hits) } else { share(hits, draws) };
                total += if draws == 1 {
                    f64::from(if hits == 0 { logs[at].1 } else { logs[at].0 })
                } else {
                    mixed(share, logs[at])
                };
                let seen = 1.0 / (1.0 + f64::from(-visit.odds[at]).exp());
                wrong += if share > 0.5 { 1.0 - seen } else { seen };
                // What a typical observation would give: right, or misleading.
                let hit = self.noise + (1.0 - 2.0 * self.noise) * share;
                let (if_hit, if_miss) = (hit.ln(), (1.0 - hit).ln());
                variance += self.noise * (1.0 - self.noise) * (if_hit - if_miss).powi(2);
                for (run, sum) in runs.iter().zip(&mut by_draw) {
                    // A draw is judged by the others, as the cache is: it would look too typical of itself.
                    let others = if draws == 1 { share } else { self::share(hits - run[at], draws - 1) };
                    let others = self.noise + (1.0 - 2.0 * self.noise) * others;
                    let truth = self.noise + (1.0 - 2.0 * self.noise) * f64::from(run[at]);
                    *sum += truth * others.ln() + (1.0 - truth) * (1.0 - others).ln();
                }
                count += 1;
            }
        }
        typical += by_draw.iter().sum::<f64>() / f64::from(draws);
        // Draws of a candidate differ among themselves by more than independent accesses would.
        let among =
            by_draw.iter().map(|sum| (sum - typical).powi(2)).sum::<f64>() / f64::from(draws.max(2) - 1);
        let excess = (typical - total) / (variance + among).max(1e-9).sqrt();
        let deficit = (typical - total) / count.max(1) as f64;
        Score { log_likelihood: total, mismatch: wrong / count.max(1) as f64, excess, deficit }
    }
}

/// Log probabilities of an observation, given a hit and given a miss.
fn logs(odds: f64, noise: f64) -> (f32, f32) {
    let seen = 1.0 / (1.0 + (-odds).exp());
    let hit = (1.0 - noise) * seen + noise * (1.0 - seen);
    (hit.ln() as f32, (1.0 - hit).ln() as f32)
}

fn share(hits: u16, draws: u32) -> f64 {
    (f64::from(hits) + SMOOTHING) / (f64::from(draws) + 2.0 * SMOOTHING)
}

fn mixed(share: f64, (hit, miss): (f32, f32)) -> f64 {
    (share * f64::from(hit).exp() + (1.0 - share) * f64::from(miss).exp()).ln()
}
