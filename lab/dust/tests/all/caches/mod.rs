//! Caches with known policies, asked from a seed: how often Dust is right, and which policies it
//! confuses.
// The tests and each example take what they need.
#![allow(dead_code, unused_imports)]

mod confusion;
mod coverage;
mod kept;
mod strangers;

use pantler_policy::Spec;

pub use confusion::Confusion;
pub use coverage::{CLAIM, Coverage, truths};
pub use kept::{Kept, Outcome};
use pantler_dust::infer::family::{Axis, Family, Scale};
use pantler_dust::infer::random::Random;
use pantler_dust::targets::SimulatedTarget;
use pantler_dust::{Inquiry, Options, TargetError, Verdict, investigate};
pub use strangers::{Choice, NEARLY_LRU, STRANGERS, Stranger};

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
        Ok(self.ask(options)?.verdict())
    }

    /// Asks the cache.
    ///
    /// # Errors
    ///
    /// For policies that are no targets.
    pub fn ask(&self, options: Options) -> Result<Inquiry, TargetError> {
        let mut target = SimulatedTarget::new(self.spec, self.frames, self.noise, self.seed ^ 0x5eed)?
            .with_interference(self.interference);
        investigate(Inquiry::new(Options { seed: self.seed, ..options }), &mut target)
    }

    /// The name under which the family is reported.
    pub fn truth(&self) -> String {
        self.spec.to_string().split(':').next().unwrap_or_default().into()
    }
}

/// Families that behave alike for some parameters, so that either name is right: each with its
/// reason.
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
    let families = Family::all().iter().filter(|family| !family.axes.is_empty());
    let spec = |family: &'static Family| {
        let values: Vec<f64> = family.axes.iter().map(|axis| between(axis, random)).collect();
        family.spec(&values, seed)
    };
    families.filter_map(spec).collect()
}

/// A value between those of the grid.
fn between(axis: &Axis, random: &mut Random) -> f64 {
    let (low, high) =
        axis.grid.iter().fold((f64::MAX, f64::MIN), |(low, high), &value| (value.min(low), value.max(high)));
    // A grid of one value spans a little around it; ends of the range are policies of another name.
    let (low, high) = if low == high { (low * 0.6, high * 1.6) } else { (low, high) };
    let share = 0.1 + 0.8 * random.unit();
    let value = match axis.scale {
        Scale::WholeLogarithmic => low * (high / low).powf(share),
        _ => low + (high - low) * share,
    };
    if axis.scale.is_whole() { value.round() } else { value }
}

/// A capacity within a fifth of the nominal one.
pub fn near(nominal: u32, random: &mut Random) -> u32 {
    let fifth = nominal / 5;
    nominal - fifth + random.below(2 * fifth + 1)
}
