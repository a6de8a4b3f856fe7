//! The next script: the one that tells most per second of the target's time.
//!
//! For each script at hand all hypotheses that are left predict what would happen. Two hypotheses
//! that differ in `d` accesses are told apart with a weight of `1 - exp(-d / D)`; the sum over all
//! pairs, weighted with their probabilities, is divided by the time that the script takes.

use super::calibrate::Modes;
use super::evidence::Visit;
use super::hypothesis::Hypothesis;
use super::pattern::scripts;
use super::random::Random;
use super::script::Script;

/// Differing accesses that settle a question.
const SETTLES: f64 = 12.0;
/// Scripts below this information tell nothing worth their time.
const LEAST: f64 = 1e-4;

/// What the steps of a script cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Seconds per hit.
    pub hit_s: f64,
    /// Seconds per miss.
    pub miss_s: f64,
    /// Seconds per flush.
    pub flush_s: f64,
}

impl Default for Costs {
    /// A hit costs a tenth of a miss.
    fn default() -> Self {
        Self { hit_s: 1e-5, miss_s: 1e-4, flush_s: 0.0 }
    }
}

impl Costs {
    /// Of a target with known latencies.
    pub fn of(modes: Modes) -> Self {
        Self { hit_s: modes.hit_ns * 1e-9, miss_s: modes.miss_ns * 1e-9, ..Self::default() }
    }

    /// Of a target that is asked `pace` times a second, whatever it answers.
    pub fn paced(pace: u32, flush_s: f64) -> Self {
        let each = 1.0 / f64::from(pace);
        Self { hit_s: each, miss_s: each, flush_s }
    }

    /// Seconds that a script takes with `hits` hits.
    fn seconds(&self, script: &Script, hits: f64) -> f64 {
        let misses = script.accesses.len() as f64 - hits;
        let flush = if script.cold { self.flush_s } else { 0.0 };
        hits * self.hit_s + misses * self.miss_s + flush
    }
}

/// The best of one script of each pattern, none longer than `accesses_max`.
///
/// `None` if no script tells the hypotheses apart: they are equivalent as far as Dust can see.
pub fn choose(
    survivors: &[(f64, &Hypothesis)],
    accesses_max: usize,
    costs: Costs,
    random: &mut Random,
    draws: u32,
) -> Option<Script> {
    let capacity = survivors.first()?.1.frames;
    let mut best: Option<(f64, Script)> = None;
    for script in scripts(capacity, random) {
        if script.accesses.len() > accesses_max {
            continue;
        }
        let (information, seconds) = expected(survivors, &script, costs, draws);
        let value = information / seconds.max(1e-9);
        if information > LEAST && best.as_ref().is_none_or(|(most, _)| value > *most) {
            best = Some((value, script));
        }
    }
    best.map(|(_, script)| script)
}

/// Information and seconds that a script would give and take.
fn expected(survivors: &[(f64, &Hypothesis)], script: &Script, costs: Costs, draws: u32) -> (f64, f64) {
    let visit = Visit::imagined(script);
    let shares: Vec<Vec<f32>> =
        survivors.iter().map(|(_, hypothesis)| hypothesis.shares(&visit, draws)).collect();
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
    (if pairs > 0.0 { information / pairs } else { 0.0 }, costs.seconds(script, f64::from(hits)))
}

#[cfg(test)]
mod tests {
    use super::super::family::Family;
    use super::*;

    #[test]
    fn scripts_take_the_time_of_their_target() {
        let mut script = Script::cold("");
        script.scan([1, 2, 1, 2]);
        let costs = Costs { hit_s: 0.25, miss_s: 1.0, flush_s: 8.0 };
        assert_eq!(costs.seconds(&script, 2.0), 2.0 * 0.25 + 2.0 * 1.0 + 8.0);
        assert_eq!(Costs::paced(4, 0.0).seconds(&script, 1.0), 1.0);
    }

    #[test]
    fn what_is_dear_is_avoided() {
        let leaf = |name: &str| {
            let family = Family::all().iter().find(|family| family.name == name).expect("a family");
            Hypothesis::new(family, family.leaves().swap_remove(0), 100)
        };
        let (one, two) = (leaf("lru"), leaf("slru"));
        let chosen = |costs: Costs| {
            let found = choose(&[(0.5, &one), (0.5, &two)], 5000, costs, &mut Random::new(3), 1);
            let script = found.expect("they differ");
            let visit = Visit::imagined(&script);
            one.hits(&visit, 1).into_iter().map(u32::from).sum::<u32>()
        };
        let dear_hits = chosen(Costs { hit_s: 1e-2, miss_s: 1e-6, ..Costs::default() });
        let dear_misses = chosen(Costs { hit_s: 1e-6, miss_s: 1e-2, ..Costs::default() });
        assert!(dear_hits < dear_misses, "{dear_hits} hits, {dear_misses} where misses are dear");
    }
}
