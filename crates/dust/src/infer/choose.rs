//! The next trace: the one that tells most per second of the target's time.
//!
//! For each trace at hand all candidates that are left predict what would happen. Two candidates that differ in `d` accesses
//! are told apart with a weight of `1 - exp(-d / D)`; the sum over all pairs, weighted with their probabilities, is divided by
//! the time that the trace takes. Misses are dear, and sleeps dearer.

use super::candidate::Candidate;
use super::evidence::Visit;
use super::pattern::Pattern;
use super::random::Random;
use super::trace::Trace;

/// Differing accesses that settle a question.
const SETTLES: f64 = 12.0;
/// Traces below this information tell nothing worth their time.
const LEAST: f64 = 1e-4;

/// What accesses cost.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Seconds per hit.
    pub hit_s: f64,
    /// Seconds per miss.
    pub miss_s: f64,
}

impl Default for Costs {
    /// A hit costs a tenth of a miss.
    fn default() -> Self {
        Self { hit_s: 1e-5, miss_s: 1e-4 }
    }
}

/// A trace and what is expected of it.
#[derive(Clone, Debug)]
pub struct Choice {
    /// What to do.
    pub trace: Trace,
    /// Information, 0 to 1: the weight of pairs of candidates that it tells apart.
    pub information: f64,
}

/// The best of one trace of each pattern, none longer than `accesses_max`.
///
/// `None` if no trace tells the candidates apart: they are equivalent as far as Dust can see.
pub fn choose(
    survivors: &[(f64, &Candidate)],
    accesses_max: usize,
    costs: Costs,
    random: &mut Random,
    draws: u32,
) -> Option<Choice> {
    let capacity = survivors.first()?.1.frames;
    let mut best: Option<(f64, Choice)> = None;
    for pattern in Pattern::ALL {
        let trace = pattern.trace(capacity, random);
        if trace.accesses.len() > accesses_max {
            continue;
        }
        let (information, seconds) = expected(survivors, &trace, costs, draws);
        let value = information / seconds.max(1e-9);
        if information > LEAST && best.as_ref().is_none_or(|(most, _)| value > *most) {
            best = Some((value, Choice { trace, information }));
        }
    }
    best.map(|(_, choice)| choice)
}

/// Information and seconds that a trace would give and take.
fn expected(survivors: &[(f64, &Candidate)], trace: &Trace, costs: Costs, draws: u32) -> (f64, f64) {
    let visit = Visit::imagined(trace);
    let shares: Vec<Vec<f32>> = survivors
        .iter()
        .map(|(_, candidate)| {
            let among = if candidate.draws() { draws } else { 1 };
            candidate.hits(&visit, draws).iter().map(|&hits| f32::from(hits) / among as f32).collect()
        })
        .collect();
    let (mut information, mut pairs) = (0.0, 0.0);
    for (at, (weight, _)) in survivors.iter().enumerate() {
        for (other, (other_weight, _)) in survivors.iter().enumerate().take(at) {
            let differing: f32 =
                shares[at].iter().zip(&shares[other]).map(|(one, two)| (one - two) * (one - two)).sum();
            information += weight * other_weight * (1.0 - (-f64::from(differing) / SETTLES).exp());
            pairs += weight * other_weight;
        }
    }
    let hits: f32 = shares.first().map_or(0.0, |shares| shares.iter().sum());
    let misses = trace.accesses.len() as f64 - f64::from(hits);
    let seconds = f64::from(hits) * costs.hit_s + misses * costs.miss_s + trace.slept().as_secs_f64();
    (if pairs > 0.0 { information / pairs } else { 0.0 }, seconds)
}
