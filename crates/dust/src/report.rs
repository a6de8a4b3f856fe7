//! The verdict as JSON (`docs/JSON.md`) and as a line for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use crate::{Counterexample, Inquiry, Known};

/// A counterexample, as in the report.
#[derive(Clone, Debug, Serialize)]
pub struct Contradiction {
    /// Blocks to read from cold.
    pub accesses: Vec<u32>,
    /// What the nearest family says of the last one; the cache does the opposite.
    pub predicted_hit: bool,
    /// Whether that was seen in most of several runs.
    pub confirmed: bool,
}

/// What `pantler dust --json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What was asked.
    pub target: String,
    /// The most likely family: the name that the simulator takes, or the nearest one when unknown.
    pub family: String,
    /// By name. Deviations of the cache from its policy are `foreign`, `batch` and `late`.
    pub parameters: BTreeMap<String, f64>,
    /// By name: least and greatest value that explain nearly as much, each for itself.
    pub parameter_intervals: BTreeMap<String, [f64; 2]>,
    /// In blocks.
    pub capacity: u32,
    /// Least and greatest capacity that explain nearly as much.
    pub interval: [u32; 2],
    /// 0 to 1; 0 when unknown.
    pub certainty: f64,
    /// Whether the family explains what was seen.
    pub verdict: Known,
    /// Accesses made.
    pub accesses: usize,
    /// Families that the observations do not tell apart from this one.
    pub equivalent: Vec<String>,
    /// Policy with parameters, as the simulator takes it.
    pub policy: String,
    /// Share of observations that contradict it.
    pub mismatch: f64,
    /// The same on a fresh trace; `null` without verification.
    pub mismatch_fresh: Option<f64>,
    /// Estimated share of observations that mislead.
    pub noise: f64,
    /// How sure it is that hits can be told from misses, 0 to 1.
    pub calibration: f64,
    /// Median latency of hits, in nanoseconds; `null` for targets that say what they did.
    pub hit_ns: Option<f64>,
    /// Median latency of misses.
    pub miss_ns: Option<f64>,
    /// What the nearest family cannot explain; `null` when known, and when there was nothing to ask.
    pub counterexample: Option<Contradiction>,
}

impl Report {
    /// Of an inquiry about a target.
    pub fn of(target: &str, inquiry: &Inquiry) -> Self {
        let verdict = inquiry.verdict();
        let round = |value: f64| (value * 1e5).round() / 1e5;
        let modes = verdict.calibration.modes;
        Self {
            target: target.into(),
            family: verdict.family.clone(),
            parameters: verdict.parameters.iter().cloned().collect(),
            parameter_intervals: inquiry.parameter_intervals().into_iter().collect(),
            capacity: verdict.capacity,
            interval: [verdict.interval.0, verdict.interval.1],
            certainty: round(verdict.certainty),
            verdict: verdict.verdict,
            accesses: verdict.accesses,
            equivalent: verdict.equivalent.clone(),
            policy: verdict.policy.clone(),
            mismatch: round(verdict.mismatch),
            mismatch_fresh: verdict.mismatch_fresh.map(round),
            noise: round(verdict.calibration.noise),
            calibration: round(verdict.calibration.confidence),
            hit_ns: modes.map(|modes| modes.hit_ns.round()),
            miss_ns: modes.map(|modes| modes.miss_ns.round()),
            counterexample: None,
        }
    }

    /// With what shows that it is unknown.
    pub fn with(mut self, counterexample: Option<&Counterexample>) -> Self {
        self.counterexample = counterexample.map(|found| Contradiction {
            accesses: found.accesses.clone(),
            predicted_hit: found.predicted_hit,
            confirmed: found.confirmed,
        });
        self
    }

    /// One line, and a second one when there is something to add.
    pub fn text(&self) -> String {
        let width = (self.interval[1] - self.interval[0]).div_ceil(2);
        let capacity = format!("capacity {} ± {width} blocks", self.capacity);
        let mut text = match self.verdict {
            Known::Known => format!("{}  {} certain  {capacity}", self.policy, percent(self.certainty)),
            Known::Unknown if self.family.is_empty() => "unknown: no cache could be seen".into(),
            Known::Unknown => format!("unknown  nearest is {}  {capacity}", self.policy),
        };
        if let Some(fresh) = self.mismatch_fresh {
            let _ = write!(text, "  {:.2} % contradict it on a fresh trace", 100.0 * fresh);
        }
        if !self.equivalent.is_empty() {
            let _ = write!(text, "\n  could as well be {}", self.equivalent.join(", "));
        }
        text + "\n"
    }
}

/// Nobody is certain of everything.
fn percent(certainty: f64) -> String {
    if certainty > 0.999 { "> 99.9 %".into() } else { format!("{:.1} %", 100.0 * certainty) }
}
