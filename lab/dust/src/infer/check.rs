//! Whether the best fit is good enough: likelihoods alone would always name a policy.
//!
//! ```text
//!   accesses   all fits agree on what happens     ->  consensus: how often observations mislead
//!              they differ                        ->  contested: the best fit is wrong as seldom
//! ```
//!
//! A policy that is not on the list is wrong where it matters, among the contested accesses, while
//! easy accesses (first touches, blocks touched again at once) are predicted by every policy.
//!
//! Hypotheses that draw random numbers can explain nearly anything by chance. They have to be as
//! unpredictable as they say: the same script is run twice, and a cache that does the same both
//! times is not theirs.

use super::calibrate::{Calibration, Noise};
use super::evidence::{Evidence, seen, tells};
use super::hypothesis::Hypothesis;
use super::rank::DRAWS_SEARCH;
use super::refine::Fit;
use super::score::Scorer;

/// Fits that have a say in what is contested.
const VOICES: usize = 8;
/// Share of draws from which on a prediction is unanimous.
const UNANIMOUS: f32 = 0.02;
/// Standard deviations that are no surprise.
pub const SURPRISE: f64 = 3.0;
/// Log likelihood that is lost by what never happens, about.
const NEVER: f64 = 4.0;
/// Draws for how often a hypothesis repeats itself.
const REPETITION_DRAWS: u32 = 32;

/// What the check gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    /// Accesses about which the fits agree.
    pub consensus: u32,
    /// Accesses about which they do not.
    pub contested: u32,
    /// How many more of the contested accesses contradict it than the consensus makes expect.
    pub surplus: f64,
    /// Standard deviations by which the best fit is worse than it should be.
    pub excess: f64,
    /// For a hypothesis that draws: log likelihood that is missing for each access.
    pub deficit: f64,
    /// Standard deviations by which the consensus is wrong more often than first accesses, which
    /// have a known truth.
    pub misled: f64,
    /// Whether a script has to be run twice: equal runs of the best fit may end differently.
    pub must_repeat: bool,
    /// Whether a script was run twice.
    pub repeated: bool,
    /// Standard deviations by which the two runs were more alike than the best fit says; 0 if it
    /// draws nothing.
    pub too_alike: f64,
}

/// Accesses of which the best fit says the same.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    agreed: u32,
    agreed_wrong: f64,
    contested: u32,
    wrong: f64,
}

impl Tally {
    fn count(&mut self, agreed: bool, contradiction: f64) {
        if agreed {
            self.agreed += 1;
            self.agreed_wrong += contradiction;
        } else {
            self.contested += 1;
            self.wrong += contradiction;
        }
    }

    fn with(&self, other: &Self) -> Self {
        Self {
            agreed: self.agreed + other.agreed,
            agreed_wrong: self.agreed_wrong + other.agreed_wrong,
            contested: self.contested + other.contested,
            wrong: self.wrong + other.wrong,
        }
    }

    fn agreed_count(&self) -> f64 {
        f64::from(self.agreed) + 20.0
    }

    /// Share of observations that mislead, by consensus.
    fn noise(&self) -> f64 {
        ((self.agreed_wrong + 0.3) / self.agreed_count()).clamp(0.001, 0.4)
    }

    /// Standard deviations by which the consensus is wrong more often than a share that is known
    /// with this error.
    fn misled(&self, share: f64, error: f64) -> f64 {
        let noise = self.noise();
        (noise - share) / (noise * (1.0 - noise) / self.agreed_count() + error.powi(2)).sqrt()
    }

    /// Contested accesses that contradict the best fit, beyond what the consensus makes expect.
    fn surplus(&self) -> f64 {
        self.wrong - self.noise() * f64::from(self.contested)
    }

    /// Of [`surplus`](Self::surplus): two shares that are estimates, compared as if they were one.
    fn variance(&self) -> f64 {
        let (count, others) = (f64::from(self.contested.max(1)), self.agreed_count());
        let both = ((self.agreed_wrong + self.wrong) / (count + others)).clamp(0.001, 0.5);
        both * (1.0 - both) * count * (1.0 + count / others)
    }
}

impl Check {
    /// Checks the first of the fits.
    pub fn of(
        evidence: &Evidence,
        calibration: &Calibration,
        fits: &[Fit],
        repeated: Option<(usize, usize)>,
    ) -> Option<Self> {
        let best = fits.first()?;
        let mut voices: Vec<&Fit> = Vec::new();
        for fit in fits {
            if voices.len() < VOICES
                && voices.iter().all(|one| one.hypothesis.family.name != fit.hypothesis.family.name)
            {
                voices.push(fit);
            }
        }
        // Of what the best fit says is a miss, and of what it says is a hit.
        let mut tallies = [Tally::default(); 2];
        for visit in evidence.visits() {
            let shares = |fit: &&Fit| fit.hypothesis.shares(visit, DRAWS_SEARCH);
            let shares: Vec<Vec<f32>> = voices.iter().map(shares).collect();
            for at in (0..visit.accesses.len()).filter(|&at| tells(visit.odds[at])) {
                let seen = seen(visit.odds[at]);
                let is_hit = shares[0][at] > 0.5;
                let contradiction = if is_hit { 1.0 - seen } else { seen };
                let tally = &mut tallies[usize::from(is_hit)];
                let hit = shares.iter().all(|shares| shares[at] > 1.0 - UNANIMOUS);
                let miss = shares.iter().all(|shares| shares[at] < UNANIMOUS);
                tally.count(hit || miss, contradiction);
            }
        }
        let all = tallies[0].with(&tallies[1]);
        // Where time is measured, hits and misses mislead differently often, and what is contested
        // has more hits.
        let even = calibration.sides.hits == calibration.sides.misses;
        let tallies = if even {
            vec![(all, calibration.noise)]
        } else {
            vec![(tallies[0], calibration.sides.misses), (tallies[1], calibration.sides.hits)]
        };
        let noise = all.noise();
        let misled = tallies.iter().map(|(tally, share)| tally.misled(*share, calibration.noise_error));
        let misled = misled.fold(f64::NEG_INFINITY, f64::max);
        let surplus: f64 = tallies.iter().map(|(tally, _)| tally.surplus()).sum();
        let mut deficit = 0.0;
        let excess = if best.hypothesis.draws() {
            let sides = if even { Noise::even(noise) } else { calibration.sides };
            let score = Scorer::new(evidence, sides).score(&best.hypothesis, 2 * DRAWS_SEARCH);
            deficit = score.deficit;
            score.excess
        } else {
            let variance: f64 = tallies.iter().map(|(tally, _)| tally.variance()).sum();
            surplus / (variance + 1.0).sqrt()
        };
        let too_alike = repeated
            .map_or(0.0, |(first, second)| too_alike(evidence, &best.hypothesis, first, second, noise));
        Some(Self {
            consensus: all.agreed,
            contested: all.contested,
            surplus,
            excess,
            deficit,
            misled,
            must_repeat: !best.hypothesis.repeats_itself(),
            repeated: repeated.is_some(),
            too_alike,
        })
    }

    /// Whether nothing is too surprising. Up to `slack` of the accesses may contradict it.
    pub fn passes(&self, draws: bool, slack: f64) -> bool {
        let accesses = f64::from(self.consensus + self.contested);
        let contradicted = self.surplus / accesses.max(1.0);
        let surprise = if draws && self.must_repeat && !self.repeated {
            f64::INFINITY
        } else if draws {
            // Up to `slack` of the accesses may be what the hypothesis would never do.
            let excess = if self.deficit < slack * NEVER { 0.0 } else { self.excess.max(0.0) };
            // By chance nearly anything can be explained, so less of a surprise is enough.
            1.2 * excess.hypot(self.too_alike.max(0.0))
        } else if contradicted < slack {
            0.0
        } else {
            self.excess
        };
        surprise < SURPRISE && self.misled < SURPRISE + 0.5
    }
}

/// Compares how often two visits with the same accesses differ with how often two draws of the
/// hypothesis do.
fn too_alike(evidence: &Evidence, hypothesis: &Hypothesis, first: usize, second: usize, noise: f64) -> f64 {
    let visits = evidence.visits();
    let (Some(first), Some(second)) = (visits.get(first), visits.get(second)) else { return 0.0 };
    if hypothesis.repeats_itself() {
        return 0.0;
    }
    let count = first.accesses.len().min(second.accesses.len());
    let differ = |one: f64, two: f64| one * (1.0 - two) + two * (1.0 - one);
    let observed: f64 = first.odds[..count]
        .iter()
        .zip(&second.odds[..count])
        .map(|(&one, &two)| differ(seen(one), seen(two)))
        .sum();
    // Accesses in which two draws differ; wrong observations make more of those that agree
    // differ.
    let flips = 2.0 * noise * (1.0 - noise);
    let draws: Vec<Vec<u16>> = (0..REPETITION_DRAWS).map(|draw| hypothesis.draw(first, 100 + draw)).collect();
    let pairs: Vec<f64> = draws
        .chunks_exact(2)
        .map(|pair| {
            let apart = (0..count).filter(|&at| pair[0][at] != pair[1][at]).count() as f64;
            apart + flips * (count as f64 - 2.0 * apart)
        })
        .collect();
    let mean = pairs.iter().sum::<f64>() / pairs.len() as f64;
    let variance = pairs.iter().map(|pair| (pair - mean).powi(2)).sum::<f64>() / (pairs.len() - 1) as f64;
    (mean - observed) / (variance + flips * (1.0 - flips) * count as f64 + 1.0).sqrt()
}
