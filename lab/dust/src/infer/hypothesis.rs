//! Hypotheses: family, parameters, capacity and nuisances.

use pantler_policy::Spec;

use super::evidence::Visit;
use super::family::{Family, Scale};
use super::simulate::{Nuisances, Simulation, begin, hits};

/// The seed that is not shown, because it is the default.
const DEFAULT_SEED: u64 = 1;

/// Periods that are less than this share of the capacity are none.
const PERIOD_SHARE: f64 = 1.0 / 16.0;

/// One explanation of what was observed.
#[derive(Clone, Debug)]
pub struct Hypothesis {
    /// The policy.
    pub family: &'static Family,
    /// Its parameters, in the order of the family's axes.
    pub values: Vec<f64>,
    /// Capacity in blocks.
    pub frames: u32,
    /// What else the cache does.
    pub nuisances: Nuisances,
}

impl PartialEq for Hypothesis {
    fn eq(&self, other: &Self) -> bool {
        let values = self.values == other.values && self.frames == other.frames;
        values && std::ptr::eq(self.family, other.family) && self.nuisances == other.nuisances
    }
}

impl Hypothesis {
    /// A hypothesis without nuisances.
    pub fn new(family: &'static Family, values: Vec<f64>, frames: u32) -> Self {
        let nuisances = Nuisances { refuses: family.refuses, ..Nuisances::default() };
        Self { family, values, frames, nuisances }
    }

    /// Whether a period is so small a part of the capacity that a policy without one is all but the
    /// same.
    pub fn is_all_but_steady(&self) -> bool {
        let short = f64::from(self.frames) * PERIOD_SHARE;
        let mut values = self.family.axes.iter().zip(&self.values);
        values.any(|(axis, &value)| axis.scale == Scale::WholeLogarithmic && value < short)
    }

    /// Whether one simulation says not all of what it may do, so that several are drawn.
    pub fn draws(&self) -> bool {
        self.family.varies() || self.nuisances.foreign > 0.0
    }

    /// Whether equal runs end equally, however many simulations it takes to say how.
    pub fn repeats_itself(&self) -> bool {
        !self.family.draws && self.nuisances.foreign == 0.0
    }

    /// The policy with its parameters; those at their defaults are not shown.
    pub fn spec(&self) -> Option<Spec> {
        self.family.spec(&self.values, DEFAULT_SEED)
    }

    /// The same in one word.
    pub fn policy(&self) -> String {
        match self.spec() {
            Some(spec) if !self.family.refuses => spec.to_string(),
            _ => self.name(),
        }
    }

    /// The name that the simulator takes for the family: the policy without parameters, but `lru-2`
    /// and `lru-3` apart.
    pub fn name(&self) -> String {
        if self.family.refuses {
            return self.family.name.into();
        }
        let shown = self.spec().map_or_else(|| self.family.name.into(), |spec| spec.to_string());
        shown.split(':').next().unwrap_or_default().into()
    }

    /// How many of `draws` draws are made: one, if it draws nothing.
    pub fn needed(&self, draws: u32) -> u32 {
        if self.draws() { draws } else { 1 }
    }

    /// In how many of the [needed](Self::needed) draws each access of a visit is a hit.
    ///
    /// Every draw has a seed of its own, the same for all hypotheses, so that neighbours differ by
    /// what they are and not by luck.
    pub fn hits(&self, visit: &Visit, draws: u32) -> Vec<u16> {
        hits(visit, self.begin_all(visit, draws))
    }

    /// The same as shares of the draws.
    pub fn shares(&self, visit: &Visit, draws: u32) -> Vec<f32> {
        let all = self.needed(draws) as f32;
        self.hits(visit, draws).into_iter().map(|hits| f32::from(hits) / all).collect()
    }

    /// Whether each access is a hit in one draw.
    pub fn draw(&self, visit: &Visit, draw: u32) -> Vec<u16> {
        hits(visit, self.begin(visit, draw))
    }

    /// The needed draws, each at its start.
    pub fn begin_all(&self, visit: &Visit, draws: u32) -> impl Iterator<Item = Box<dyn Simulation>> {
        (0..self.needed(draws)).filter_map(|draw| self.begin(visit, draw))
    }

    fn begin(&self, visit: &Visit, draw: u32) -> Option<Box<dyn Simulation>> {
        let seed = u64::from(draw).wrapping_mul(0x9e37_79b9).wrapping_add(17);
        let spec = self.family.spec(&self.values, seed)?;
        begin(spec, self.frames, self.nuisances, seed, visit)
    }
}
