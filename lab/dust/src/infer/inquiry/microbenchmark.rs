//! The capacity microbenchmark: more and more blocks are read, until some of them are missing; then
//! all again.
//!
//! ```text
//!   growing     0 1 .. 23   some of them   24 .. 37   some of them   ..   none is missing: go on
//!   returning   37 .. 2 1 0                            hits: about as many as the cache holds
//! ```
//!
//! Source: Burnett et al., USENIX 2002, section 2.1, except that blocks are read again backwards
//! and few of them while growing, since no state has to stay undisturbed.

use super::super::calibrate::{Calibration, Noise};
use super::super::random::Random;
use super::super::script::Script;
use super::options::Options;
use super::{GROWTH_NAME, Observed, RETURN_NAME, missed};

/// Blocks of the first script.
const START_BLOCKS: u32 = 24;
/// Blocks grow by this factor.
const GROWTH: f64 = 1.6;
const GROWTH_PROBES: u32 = 30;
/// Blocks after which a target is given up if its hits take as long as its misses.
const BLIND_BLOCKS: u32 = 3000;
/// The same if no first read looks like a miss: where first reads may be hits,
/// they are not for as long.
const BLIND_BLOCKS_ALIKE: u32 = 1 << 14;
/// Confidence below which hits are not told from misses.
const UNCLEAR: f64 = 0.05;
/// A cache that removes late held this many times what it kept.
const COLLAPSE: f64 = 4.0;

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Microbenchmark {
    filled: u32,
    range: (u32, u32),
    there: u32,
    collapse: Option<(u32, u32)>,
}

impl Microbenchmark {
    pub fn new(options: &Options) -> Self {
        Self { filled: 0, range: (1, options.blocks_max), there: 0, collapse: None }
    }

    /// Blocks that were read.
    pub fn filled(&self) -> u32 {
        self.filled
    }

    /// Least and greatest capacity that is possible by what was seen.
    pub fn range(&self) -> (u32, u32) {
        self.range
    }

    /// Blocks that were still there after the cache was filled.
    pub fn there(&self) -> u32 {
        self.there
    }

    /// Blocks that were all there, and how many of them were kept a moment later.
    pub fn collapse(&self) -> Option<(u32, u32)> {
        self.collapse
    }

    pub fn grow(&mut self, random: &mut Random) -> Script {
        let first = self.filled == 0;
        let mut script = if first { Script::cold(GROWTH_NAME) } else { Script::warm(GROWTH_NAME) };
        let next = if first { START_BLOCKS } else { (f64::from(self.filled) * GROWTH) as u32 };
        for block in self.filled..next {
            script.touch(block);
            // Hits for nearly every cache: so that both modes of latency are there from the start.
            if first && block % 3 == 0 {
                script.touch(block);
            }
        }
        self.filled = next;
        let probes =
            (0..GROWTH_PROBES).map(|at| (u64::from(at) * u64::from(next) / u64::from(GROWTH_PROBES)) as u32);
        script.probe_shuffled(probes, random);
        script
    }

    /// Whether one more growth would be beyond what may be read.
    pub fn is_at_the_end(&self, options: &Options) -> bool {
        f64::from(self.filled) * GROWTH > f64::from(options.blocks_max)
    }

    /// Whether enough was read that there should be hits, and none can be told from a miss.
    pub fn is_blind(&self, last: Option<&Observed>, calibration: &Calibration) -> bool {
        let unclear = self.filled > BLIND_BLOCKS && is_unclear(calibration);
        let alike = || self.filled > BLIND_BLOCKS_ALIKE && first_reads_missed(last, calibration) < 0.1;
        unclear || (calibration.modes.is_some() && alike())
    }

    pub fn come_back(&self) -> Script {
        let mut script = Script::warm(RETURN_NAME);
        (0..self.filled).rev().for_each(|block| script.probe(block));
        script
    }

    /// The blocks that are still there are as many as the cache holds, or somewhat fewer if it
    /// replaced some of them while they were read.
    pub fn measure(&mut self, last: &Observed, calibration: &Calibration, options: &Options) {
        let Observed { script, readings } = last;
        let probes = script.probes.len() as f64;
        let there: f64 = script.probes.iter().map(|&at| 1.0 - missed(readings[at], calibration.modes)).sum();
        let Noise { hits, misses } = calibration.sides;
        let there = ((there - misses * probes) / (1.0 - (hits + misses))).max(1.0);
        let held = f64::from(self.filled) / GROWTH;
        // Of the first blocks it is not known whether all were there.
        if options.lags && self.filled > START_BLOCKS && there * COLLAPSE < held {
            self.collapse = Some((held as u32, there as u32));
        }
        // Policies that replace what is about to be read hold up to half as
        // much again. Nothing was missing before the cache was filled for the last time but one,
        // and something was then.
        let filled = f64::from(self.filled) * 1.05;
        let least = if self.filled > START_BLOCKS {
            (there * 0.85).max(f64::from(self.filled) / GROWTH * 0.7)
        } else {
            // There was nothing before, and a few readings that mislead are a large part of a few
            // blocks.
            (there - 3.0 * (probes * misses * (1.0 - misses)).sqrt()) * 0.85
        };
        self.range = (least.max(1.0) as u32, ((there * 1.5).max(filled) + 1.0) as u32);
        self.there = (there as u32).clamp(self.range.0, self.range.1);
    }
}

/// Whether time is measured, and tells nothing.
pub(super) fn is_unclear(calibration: &Calibration) -> bool {
    calibration.modes.is_some() && calibration.confidence < UNCLEAR
}

/// Probes of the last script that were misses, beyond what noise makes of hits; none where they
/// cannot be told from hits.
pub(super) fn probes_missing(last: Option<&Observed>, calibration: &Calibration) -> f64 {
    let Some(Observed { script, readings }) = last.filter(|_| !is_unclear(calibration)) else { return 0.0 };
    let missing: f64 = script.probes.iter().map(|&at| missed(readings[at], calibration.modes)).sum();
    let (probes, noise) = (script.probes.len() as f64, calibration.sides.hits);
    missing - probes * noise - 3.0 * (probes * noise * (1.0 - noise)).sqrt() - 3.0
}

/// Share of the reads of the last growth that look like misses. It may be what a busy machine adds
/// that is told apart, and all that was read was missing.
fn first_reads_missed(last: Option<&Observed>, calibration: &Calibration) -> f64 {
    let Some(first) = last.map(Observed::before_probes) else { return 1.0 };
    let missing = first.iter().map(|&reading| missed(reading, calibration.modes));
    missing.sum::<f64>() / first.len().max(1) as f64
}
