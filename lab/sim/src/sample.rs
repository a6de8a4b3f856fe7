//! Miss ratios from a sample of the blocks, with their error.
//!
//! A block is in the sample when the hash of its id is small; all its references are, or none. A
//! cache scaled down by the same rate sees a smaller copy of the same locality (SHARDS, Waldspurger
//! et al. 2015; for policies other than LRU: miniature simulation, Waldspurger et al. 2017).
//!
//! ```text
//!   trace     a b a c d a b e c a ...           hash(id) < rate
//!   sample 1    b       b       ...             frames x rate
//!   sample 2        c       c   ...             another seed: how much samples differ is the error
//! ```
//!
//! One hot block in or out of a sample moves its ratio a lot. References that a sample has too many
//! or too few, against the rate's share of the trace, are therefore taken as hits (the adjustment
//! of SHARDS).
//!
//! The error stated is half the width of the 95 % confidence interval of the mean of [`SAMPLES`]
//! samples (Student's t). It knows how samples differ, and nothing of what all have in common: at
//! less than a few hundred scaled frames a scaled cache itself behaves differently.

use pantler_policy::Spec;
use pantler_trace::Prepared;

use crate::demand::BATCH;
use crate::engine::simulate;
use crate::watch::{Stopped, Watch};

/// Independent samples for one estimate.
pub const SAMPLES: u32 = 8;

/// The two-sided 95 % quantile of Student's t with [`SAMPLES`] - 1 degrees of freedom.
const STUDENT_T: f64 = 2.365;

/// Samples of one trace at one rate.
#[derive(Debug)]
pub struct Samples {
    samples: Vec<Sample>,
    rate: f64,
    requests: u64,
}

#[derive(Debug)]
struct Sample {
    trace: Prepared,
    /// References among those of the warm-up.
    warm_up: u64,
}

/// An estimate and how far off it may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// References counted in the whole trace.
    pub requests: u64,
    /// Misses among them, estimated.
    pub misses: u64,
    /// Hit ratio, estimated.
    pub hit_ratio: f64,
    /// Half the width of the 95 % confidence interval.
    pub error: f64,
}

impl Samples {
    /// Draws [`SAMPLES`] samples, each with about `rate` of the blocks. The same seed draws the
    /// same ones.
    ///
    /// # Errors
    ///
    /// [`Stopped`] when `watch` was told so.
    ///
    /// # Panics
    ///
    /// When the rate is not above 0 and at most 1.
    pub fn draw(
        trace: &Prepared,
        rate: f64,
        seed: u64,
        warm_up: u64,
        watch: &Watch,
    ) -> Result<Self, Stopped> {
        assert!(rate > 0.0 && rate <= 1.0, "a rate of {rate} is no share");
        let threshold = (rate * 2_f64.powi(32)) as u64;
        let warm = usize::try_from(warm_up).unwrap_or(usize::MAX).min(trace.requests().len());
        let draw = |index: u32| -> Result<Sample, Stopped> {
            let salt = mix(seed ^ u64::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let chosen = |id: &u32| mix(u64::from(*id) ^ salt) >> 32 < threshold;
            let seen = |batch: &&[u32]| watch.advance(batch.len()).is_ok();
            let ids = trace.requests().chunks(BATCH).take_while(seen).flatten().copied().filter(chosen);
            let sample = Prepared::from_ids(ids.map(u64::from));
            // A stop leaves a part of the trace, which is no sample of it.
            watch.advance(0)?;
            let warm_up = trace.requests()[..warm].iter().filter(|id| chosen(id)).count() as u64;
            Ok(Sample { trace: sample, warm_up })
        };
        let requests = (trace.requests().len() - warm) as u64;
        Ok(Self { samples: (0..SAMPLES).map(draw).collect::<Result<_, _>>()?, rate, requests })
    }

    /// Estimates what `spec` misses with `frames` frames.
    ///
    /// # Errors
    ///
    /// [`Stopped`] when `watch` was told so.
    pub fn estimate(&self, spec: Spec, frames: u32, watch: &Watch) -> Result<Estimate, Stopped> {
        let scaled = (f64::from(frames) * self.rate).round().max(1.0) as u32;
        let expected = self.requests as f64 * self.rate;
        let mut ratios = Vec::new();
        for sample in &self.samples {
            let outcome = simulate(&sample.trace, spec, scaled, sample.warm_up, watch)?;
            let ratio = outcome.total.misses as f64 / expected.max(1.0);
            ratios.push(ratio.min(1.0));
        }
        let count = ratios.len() as f64;
        let mean = ratios.iter().sum::<f64>() / count;
        let variance = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / (count - 1.0);
        Ok(Estimate {
            requests: self.requests,
            misses: (mean * self.requests as f64).round() as u64,
            hit_ratio: if self.requests == 0 { 0.0 } else { 1.0 - mean },
            error: STUDENT_T * (variance / count).sqrt(),
        })
    }

    /// References that one estimate simulates, over all samples.
    pub fn references(&self) -> u64 {
        self.samples.iter().map(|sample| sample.trace.requests().len() as u64).sum()
    }
}

/// Mixes all bits of a number: the finalizer of SplitMix64 (Steele, Lea, Flood 2014).
fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
