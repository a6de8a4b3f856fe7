//! Seeded trials on simulated caches: how often Dust is right, and whom it confuses with whom.

mod strangers;

use std::collections::BTreeMap;
use std::fmt;

use pantler_policy::Spec;

use crate::infer::family::{Axis, Family, Scale};
use crate::infer::random::Random;
use crate::targets::SimulatedTarget;
use crate::{Inquiry, Known, Options, TargetError, Verdict, investigate};
pub use strangers::{STRANGERS, Stranger};

/// What a trial is about.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// The policy behind the target.
    pub spec: Spec,
    /// Its capacity in blocks.
    pub frames: u32,
    /// Share of wrong answers.
    pub noise: f64,
    /// Probability of a foreign block before each access.
    pub interference: f64,
    /// Seed of target and inquiry.
    pub seed: u64,
}

impl Trial {
    /// Asks the cache and gives the verdict.
    ///
    /// # Errors
    ///
    /// For policies that are no targets.
    pub fn run(&self, options: Options) -> Result<Verdict, TargetError> {
        let mut target = SimulatedTarget::new(self.spec, self.frames, self.noise, self.seed ^ 0x5eed)?
            .with_interference(self.interference);
        Ok(investigate(Inquiry::new(Options { seed: self.seed, ..options }), &mut target)?.verdict())
    }

    /// The name under which the family is reported.
    pub fn truth(&self) -> String {
        self.spec.to_string().split(':').next().unwrap_or_default().into()
    }
}

/// Families that behave alike for some parameters, so that either name is right: each with its reason.
pub const DECLARED_EQUIVALENT: &[(&str, &str, &str)] = &[
    ("lfu", "lfu-aged", "counts that age after more references than a run makes do not age"),
    ("lfu", "lrfu", "references that lose nothing of their worth are counted"),
    ("lru", "lrfu", "of references that lose all of their worth at once the last one counts"),
];

/// Whether two names are one family, or declared to behave alike.
pub fn alike(one: &str, two: &str) -> bool {
    let declared = |one: &str, two: &str| DECLARED_EQUIVALENT.iter().any(|&(a, b, _)| (a, b) == (one, two));
    one == two || declared(one, two) || declared(two, one)
}

/// All leaves of the grid of all families, with a seed for those that draw.
pub fn leaves(seed: u64) -> Vec<Spec> {
    let specs = |family: &'static Family| {
        family.leaves().into_iter().filter_map(move |leaf| family.spec(&leaf, seed))
    };
    Family::all().iter().filter(|family| !family.refuses).flat_map(specs).collect()
}

/// One policy for each family that has parameters, with values between those of the grid.
pub fn off_grid(random: &mut Random, seed: u64) -> Vec<Spec> {
    let between = |axis: &Axis, random: &mut Random| {
        let (low, high) = axis
            .grid
            .iter()
            .fold((f64::MAX, f64::MIN), |(low, high), &value| (value.min(low), value.max(high)));
        // A grid of one value spans a little around it; ends of the range are policies of another name.
        let (low, high) = if low == high { (low * 0.6, high * 1.6) } else { (low, high) };
        let value = low + (high - low) * (0.1 + 0.8 * random.unit());
        if axis.scale == Scale::Whole { value.round() } else { value }
    };
    let families = Family::all().iter().filter(|family| !family.axes.is_empty());
    let spec = |family: &'static Family| {
        let values: Vec<f64> = family.axes.iter().map(|axis| between(axis, random)).collect();
        family.spec(&values, seed)
    };
    families.filter_map(spec).collect()
}

/// A capacity within a fifth of the nominal one.
pub fn near(nominal: u32, random: &mut Random) -> u32 {
    let fifth = nominal / 5;
    nominal - fifth + random.below(2 * fifth + 1)
}

/// Counts of verdicts by truth.
#[derive(Clone, Debug, Default)]
pub struct Confusion {
    counts: BTreeMap<String, BTreeMap<String, u32>>,
    /// Trials in all.
    pub trials: u32,
    /// Family right, by name or declared equivalence.
    pub right: u32,
    /// The answer was "unknown".
    pub unknown: u32,
    /// Trials that took more accesses than allowed, or more capacity error than 5 %.
    pub capacity_off: u32,
    /// Most accesses per block of true capacity.
    pub accesses_per_block_max: f64,
}

impl Confusion {
    /// Enters a verdict.
    pub fn enter(&mut self, truth: &str, frames: u32, verdict: &Verdict) {
        self.trials += 1;
        let said = if verdict.verdict == Known::Known { verdict.family.as_str() } else { "unknown" };
        self.right += u32::from(alike(said, truth));
        self.unknown += u32::from(said == "unknown");
        let off = (f64::from(verdict.capacity) / f64::from(frames) - 1.0).abs();
        self.capacity_off += u32::from(off > 0.05);
        self.accesses_per_block_max =
            self.accesses_per_block_max.max(verdict.accesses as f64 / f64::from(frames));
        *self.counts.entry(truth.into()).or_default().entry(said.into()).or_default() += 1;
    }

    /// Trials in which a wrong family was called known.
    pub fn wrong(&self) -> u32 {
        self.trials - self.right - self.unknown
    }
}

impl fmt::Display for Confusion {
    /// One row for each truth; what is right first, then everything else.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (truth, row) in &self.counts {
            let total: u32 = row.values().sum();
            let right: u32 = row.iter().filter(|(said, _)| alike(said, truth)).map(|(_, count)| count).sum();
            write!(f, "{truth:<20} {right:>4} of {total:<4}")?;
            for (said, count) in row.iter().filter(|(said, _)| *said != truth) {
                write!(f, " {said} {count}")?;
            }
            writeln!(f)?;
        }
        writeln!(
            f,
            "{} of {} right, {} unknown, {} wrong; capacity off by more than 5 % in {}; at most {:.1} accesses per block",
            self.right,
            self.trials,
            self.unknown,
            self.wrong(),
            self.capacity_off,
            self.accesses_per_block_max
        )
    }
}
