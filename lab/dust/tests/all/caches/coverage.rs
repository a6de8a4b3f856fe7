//! Coverage: how often the intervals of a verdict hold what is true.
//!
//! An interval is what explains nearly as much as the best: [`CLAIM`] of all of them should hold
//! the truth. Only verdicts with the right name count, since another policy has other parameters.

use std::fmt;

use super::{alike, between, near};
use pantler_dust::infer::family::{Axis, Family};
use pantler_dust::infer::hypothesis::Hypothesis;
use pantler_dust::infer::random::Random;
use pantler_dust::{Inquiry, Known};

/// Share of the intervals that should hold the truth: three standard deviations would be 99.7 %,
/// but capacities and parameters can be wrong together (docs/benchmarks/dust.md).
pub const CLAIM: f64 = 0.99;
/// Intervals are given with four places behind the point.
const ROUNDED: f64 = 5e-5;

/// Intervals of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Count {
    /// Those that hold the truth.
    pub covered: u32,
    /// All of them.
    pub all: u32,
    /// Their widths together, as shares of the truth for capacities, of the range for parameters.
    pub width: f64,
}

impl Count {
    fn enter(&mut self, truth: f64, [low, high]: [f64; 2], whole: f64) -> bool {
        let covered = (low - ROUNDED..=high + ROUNDED).contains(&truth);
        self.covered += u32::from(covered);
        self.all += 1;
        self.width += (high - low) / whole.max(1e-9);
        covered
    }

    /// Share that holds the truth.
    pub fn share(&self) -> f64 {
        f64::from(self.covered) / f64::from(self.all.max(1))
    }
}

/// What was counted so far.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// Intervals of capacities.
    pub capacity: Count,
    /// What the microbenchmark alone says of capacities, whatever the name.
    pub measured: Count,
    /// Verdicts with another name, or none.
    pub others: u32,
}

impl Coverage {
    /// Enters what was found out. Returns what does not hold the truth.
    pub fn enter(&mut self, truth: &Hypothesis, inquiry: &Inquiry) -> Vec<String> {
        let verdict = inquiry.verdict();
        let frames = f64::from(truth.frames);
        let within = |(low, high): (u32, u32)| [f64::from(low), f64::from(high)];
        if let Some((_, measured)) = inquiry.measured() {
            self.measured.enter(frames, within(measured), frames);
        }
        let (is_known, name) = (verdict.verdict == Known::Known, truth.name());
        self.others += u32::from(!is_known || !alike(&verdict.family, &name));
        if !is_known || verdict.family != name {
            return Vec::new();
        }
        let mut missed = Vec::new();
        if !self.capacity.enter(frames, within(verdict.interval), frames) {
            missed.push(format!("capacity {frames} in {:?}", verdict.interval));
        }
        missed
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, name: &str, count: &Count| {
            let width = 100.0 * count.width / f64::from(count.all.max(1));
            let Count { covered, all, .. } = count;
            writeln!(
                f,
                "{name:<28} {covered:>5} of {all:<5} {:>6.2} %  width {width:.1} %",
                100.0 * count.share()
            )
        };
        line(f, "capacity", &self.capacity)?;
        line(f, "by the microbenchmark alone", &self.measured)?;
        writeln!(f, "{} had another name", self.others)
    }
}

/// One cache of each family: parameters on the grid, or anywhere between its ends, and a capacity
/// near the nominal one.
pub fn truths(nominal: u32, on_grid: bool, random: &mut Random) -> Vec<Hypothesis> {
    let listed = |axis: &Axis, random: &mut Random| axis.grid[random.below(axis.grid.len() as u32) as usize];
    let truth = |family: &'static Family| {
        let value = |axis: &Axis| if on_grid { listed(axis, random) } else { between(axis, random) };
        let values = family.axes.iter().map(value).collect();
        Hypothesis::new(family, values, near(nominal, random))
    };
    Family::all().iter().filter(|family| !family.refuses).map(truth).collect()
}
