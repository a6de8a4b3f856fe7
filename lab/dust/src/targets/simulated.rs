//! A simulated cache with a known policy: the truth is known, so this is what Dust is measured
//! with.

use pantler_policy::{Replacement, Spec};

use super::{Target, TargetError};
use crate::infer::random::Random;
use crate::infer::simulate::{Nuisances, Simulated, identity};
use crate::{Reading, Script};

/// A cache of `frames` blocks that gives some wrong answers.
#[derive(Debug)]
pub struct SimulatedTarget {
    spec: Spec,
    frames: u32,
    noise: f64,
    interference: f64,
    random: Random,
    cache: Simulated<Replacement>,
    /// Handles given out so far: blocks of others get the next one.
    handles: Vec<Option<u32>>,
    next: u32,
    /// Seed of the hash under which blocks are counted.
    hash: u64,
}

impl SimulatedTarget {
    /// A cold cache. `noise` is the share of answers that are wrong.
    ///
    /// # Errors
    ///
    /// [`TargetError::Offline`] for policies that need to know the future.
    pub fn new(spec: Spec, frames: u32, noise: f64, seed: u64) -> Result<Self, TargetError> {
        Ok(Self {
            cache: empty(spec, frames)?,
            spec,
            frames,
            noise,
            interference: 0.0,
            random: Random::new(seed),
            handles: Vec::new(),
            next: 0,
            hash: seed ^ 0x7e57,
        })
    }

    /// Others insert a block with this probability before each access.
    pub fn with_interference(mut self, interference: f64) -> Self {
        self.interference = interference;
        self
    }

    fn handle(&mut self) -> u32 {
        let handle = self.next;
        self.cache.identify(handle, identity(handle, self.hash));
        self.next += 1;
        handle
    }

    fn access(&mut self, block: u32) -> bool {
        if self.random.chance(self.interference) {
            let foreign = self.handle();
            self.cache.access(foreign);
        }
        let at = block as usize;
        if at >= self.handles.len() {
            self.handles.resize(at + 1, None);
        }
        let handle = self.handles[at].unwrap_or_else(|| self.handle());
        self.handles[at] = Some(handle);
        self.cache.access(handle) != self.random.chance(self.noise)
    }
}

fn empty(spec: Spec, frames: u32) -> Result<Simulated<Replacement>, TargetError> {
    let policy =
        Replacement::new(spec, frames).ok_or_else(|| TargetError::Offline { policy: spec.to_string() })?;
    Ok(Simulated::new(policy, frames, Nuisances::default(), 0))
}

impl Target for SimulatedTarget {
    fn run(&mut self, script: &Script) -> Result<Vec<Reading>, TargetError> {
        if script.cold {
            let seed = self.random.word() >> 32;
            // Other luck: a flushed cache does not repeat itself.
            self.spec = self.spec.seeded(seed);
            self.hash = seed;
            self.cache = empty(self.spec, self.frames)?;
            self.handles.clear();
            self.next = 0;
        }
        Ok(script.accesses.iter().map(|&block| Reading::Said { hit: self.access(block) }).collect())
    }
}
