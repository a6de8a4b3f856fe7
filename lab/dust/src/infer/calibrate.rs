//! Calibration: from readings to the odds of a hit, and how often those mislead.
//!
//! ```text
//!   count
//!     |    ##
//!     |   ####            #
//!     |   #####         ####
//!     +--------------------------> log latency
//!        hits        misses
//! ```
//!
//! Latencies are sorted into hits and misses by a mixture of two normal distributions over their
//! logarithm, fitted by expectation and maximisation, without labels. A target that says what it
//! did needs none of this.
//!
//! How often observations mislead is counted where the truth is known: a block that was never read
//! before is a miss. Of latencies also: a block that was read just before is a hit. Waiting for a
//! processor makes misses of hits, never hits of misses.
//!
//! Caches that cannot be seen (one mode, or two that overlap) are reported as such:
//! [`Calibration::confidence`].

use super::evidence::{Evidence, Truth, seen};

/// What a target says of one access.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// It says itself, or the store below it does.
    Said {
        /// Whether the access was a hit.
        hit: bool,
    },
    /// How long it took, in nanoseconds.
    Took(u64),
}

/// Observations are never taken for certain: one in this many may be wrong for unknown reasons.
const NOISE_MIN: f64 = 0.004;
/// Beyond this share of wrong observations nothing can be told.
const NOISE_MAX: f64 = 0.3;
/// Prior of the share of wrong observations: wrong ones, and all, as if they had been seen.
const PRIOR: (f64, f64) = (0.3, 20.0);

/// Two modes of latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Modes {
    /// Median latency of hits, in nanoseconds.
    pub hit_ns: f64,
    /// Median latency of misses, in nanoseconds.
    pub miss_ns: f64,
    /// Standard deviations of the natural logarithm of both.
    pub spread: (f64, f64),
    /// Share of hits.
    pub hits: f64,
    /// Expected share of observations on the wrong side of the threshold.
    pub overlap: f64,
    /// Share of accesses that waited for something else: slower than any miss.
    pub waited: f64,
}

/// The rounds of fitting. Two well separated modes settle in fewer than 20.
const ROUNDS: u32 = 60;
/// Share of latencies that are taken as they are; longer ones count as the longest of these.
const ORDINARY: f64 = 0.96;
/// Least spread as a share of the distance of both modes: tails are longer than those of normal
/// distributions, and what lies between belongs to the nearer mode.
const TAIL: f64 = 0.15;
/// Greatest spread, likewise: with few latencies and some that waited for a processor, the upper
/// mode would swallow the slower hits.
const TAIL_MAX: f64 = 0.25;
/// From this number of spreads above the upper mode on, something else was waited for.
const BEYOND: f64 = 4.0;
/// Least share that is taken to have waited.
const WAITED_MIN: f64 = 1e-4;
/// Natural logarithms over which waiting times are spread: from tens of microseconds to tens of
/// milliseconds.
const WAITED_OVER: f64 = 7.0;
/// How much oftener a miss waits than a hit: for a device, and for a processor twice.
const WAITED_BY_MISSES: f64 = 2.0;
/// Narrowest spread: clocks tick, and equal readings are no proof.
const SPREAD_MIN: f64 = 0.05;

impl Modes {
    /// Fits two modes. `None` for fewer than 16 latencies or only one value.
    pub fn fit(latencies_ns: &[u64]) -> Option<Self> {
        let mut logs: Vec<f64> = latencies_ns.iter().map(|&ns| (ns.max(1) as f64).ln()).collect();
        logs.sort_by(f64::total_cmp);
        if logs.len() < 16 || logs.first() == logs.last() {
            return None;
        }
        // Readings that waited for a processor tell nothing about modes.
        let most = logs[((logs.len() - 1) as f64 * ORDINARY) as usize];
        logs.iter_mut().for_each(|log| *log = log.min(most));
        if logs.first() == logs.last() {
            return None;
        }
        let (mut low, mut high, mut share) = start(&logs);
        for _ in 0..ROUNDS {
            let (mut weight, mut sums, mut squares) = ([0.0; 2], [0.0; 2], [0.0; 2]);
            for &log in &logs {
                let odds = share * density(log, low) / ((1.0 - share) * density(log, high)).max(1e-300);
                let hit = odds / (1.0 + odds);
                for (side, belief) in [hit, 1.0 - hit].into_iter().enumerate() {
                    weight[side] += belief;
                    sums[side] += belief * log;
                    squares[side] += belief * log * log;
                }
            }
            let mode = |side: usize| {
                let mean = sums[side] / weight[side].max(1e-9);
                let variance = squares[side] / weight[side].max(1e-9) - mean * mean;
                (mean, variance.max(SPREAD_MIN * SPREAD_MIN).sqrt())
            };
            (low, high) = (mode(0), mode(1));
            share = (weight[0] / logs.len() as f64).clamp(0.001, 0.999);
        }
        let overlap = overlap(low, high, share);
        let apart = high.0 - low.0;
        let within = |spread: f64| spread.max(apart * TAIL).min((apart * TAIL_MAX).max(SPREAD_MIN));
        (low.1, high.1) = (within(low.1), within(high.1));
        Some(Self {
            hit_ns: low.0.exp(),
            miss_ns: high.0.exp(),
            spread: (low.1, high.1),
            hits: share,
            overlap,
            waited: waited(latencies_ns, high),
        })
    }

    /// Natural logarithm of the odds that an access of this latency was a hit, both kinds being
    /// equally likely before.
    ///
    /// ```text
    ///   odds   hits   |   misses   |  slower than any miss: it waited for a processor or device;
    ///     +   ------- |            |  hits nearly as often as misses
    ///     0          \|            |     .---------
    ///     -            ------------ --
    /// ```
    pub fn odds(&self, latency_ns: u64) -> f64 {
        let log = (latency_ns.max(1) as f64).ln();
        let (low, high) = (self.hit_ns.ln(), self.miss_ns.ln());
        // Below its centre no mode becomes less likely. Modes that are one may come out in either
        // order.
        let log = log.max(low);
        let waited = self.waited / WAITED_OVER;
        let hit = density(log, (low, self.spread.0)) / NORM + waited;
        let miss = density(log, (high.max(low), self.spread.1)) / NORM + WAITED_BY_MISSES * waited;
        (hit / miss).ln()
    }
}

/// Share of latencies that no miss has.
fn waited(latencies_ns: &[u64], high: (f64, f64)) -> f64 {
    let most = (high.0 + BEYOND * high.1).exp();
    let beyond = latencies_ns.iter().filter(|&&ns| ns as f64 > most).count();
    (beyond as f64 / latencies_ns.len() as f64).max(WAITED_MIN)
}

/// The split of sorted values that leaves least variance on both sides.
fn start(logs: &[f64]) -> ((f64, f64), (f64, f64), f64) {
    let total: f64 = logs.iter().sum();
    let (mut left, mut best) = (0.0, (f64::MIN, 1));
    for at in 1..logs.len() {
        left += logs[at - 1];
        let (n, m) = (at as f64, (logs.len() - at) as f64);
        let between = left * left / n + (total - left) * (total - left) / m;
        if between > best.0 {
            best = (between, at);
        }
    }
    let mode = |part: &[f64]| {
        let mean = part.iter().sum::<f64>() / part.len() as f64;
        let variance = part.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / part.len() as f64;
        (mean, variance.max(SPREAD_MIN * SPREAD_MIN).sqrt())
    };
    let (hits, misses) = logs.split_at(best.1);
    (mode(hits), mode(misses), hits.len() as f64 / logs.len() as f64)
}

/// The integral of [`density`], which leaves it out.
const NORM: f64 = 2.506_628_274_631_000_5;

fn density(at: f64, (mean, spread): (f64, f64)) -> f64 {
    (-0.5 * ((at - mean) / spread).powi(2)).exp() / spread
}

/// Share of draws from both modes that the better guess gets wrong, by adding up the smaller
/// density.
fn overlap(low: (f64, f64), high: (f64, f64), share: f64) -> f64 {
    let (from, to) = (low.0 - 4.0 * low.1, high.0 + 4.0 * high.1);
    let step = (to - from) / 2000.0;
    (0..2000)
        .map(|at| from + step * f64::from(at))
        .map(|at| (share * density(at, low)).min((1.0 - share) * density(at, high)) * step / NORM)
        .sum()
}

/// How often observations mislead.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// Share of hits that look like misses.
    pub hits: f64,
    /// Share of misses that look like hits.
    pub misses: f64,
}

impl Noise {
    /// The same for both.
    pub fn even(share: f64) -> Self {
        Self { hits: share, misses: share }
    }

    /// Probability that an access looks like a hit that is one with probability `hit`.
    pub fn seen(&self, hit: f64) -> f64 {
        self.misses + (1.0 - (self.hits + self.misses)) * hit
    }
}

/// What is known about the observations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Calibration {
    /// Share of observations that mislead.
    pub noise: f64,
    /// The same of hits and of misses. A busy machine makes misses of hits, hardly ever hits of
    /// misses.
    pub sides: Noise,
    /// Standard error of that share.
    pub noise_error: f64,
    /// Modes of latency, when the target does not say what it did.
    pub modes: Option<Modes>,
    /// How sure it is that hits can be told from misses, 0 to 1.
    pub confidence: f64,
}

impl Calibration {
    /// From everything that was observed.
    pub fn of(evidence: &Evidence, modes: Option<Modes>) -> Self {
        // Misses and hits with a known truth, and how many of them mislead.
        let (mut known, mut wrong) = ([0u32; 2], [0.0; 2]);
        for (odds, truth) in evidence.observations() {
            let (side, odds) = match truth {
                Truth::First => (0, odds),
                Truth::Again if modes.is_some() => (1, -odds),
                Truth::Again | Truth::Open => continue,
            };
            known[side] += 1;
            wrong[side] += seen(odds);
        }
        let share = |side: usize| {
            let count = f64::from(known[side]) + PRIOR.1;
            let share = ((wrong[side] + PRIOR.0) / count).clamp(NOISE_MIN, NOISE_MAX);
            (share, share * (1.0 - share) / count)
        };
        // Both kinds weigh the same: without hits that are known, misses stand for both.
        let (noise, variance, sides) = match (share(0), share(1)) {
            (misses, _) if known[1] == 0 => (misses.0, misses.1, Noise::even(misses.0)),
            (misses, hits) => (
                (misses.0 + hits.0) / 2.0,
                (misses.1 + hits.1) / 4.0,
                Noise { hits: hits.0, misses: misses.0 },
            ),
        };
        let noise_error = variance.sqrt();
        let separate = modes.map_or(1.0, |modes| (1.0 - 4.0 * modes.overlap).max(0.0));
        let confidence = separate * (1.0 - noise / NOISE_MAX).max(0.0).sqrt();
        Self { noise, sides, noise_error, modes, confidence }
    }
}

/// A reading as odds of a hit.
pub(super) fn odds(reading: Reading, modes: Option<Modes>) -> f32 {
    /// What a target says is believed; how often it is wrong is counted apart.
    const SAID: f32 = 12.0;
    match (reading, modes) {
        (Reading::Said { hit: true }, _) => SAID,
        (Reading::Said { hit: false }, _) => -SAID,
        (Reading::Took(ns), Some(modes)) => modes.odds(ns).clamp(-12.0, 12.0) as f32,
        (Reading::Took(_), None) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::evidence::tells;
    use super::super::random::Random;
    use super::*;

    fn normal(random: &mut Random) -> f64 {
        (0..12).map(|_| random.unit()).sum::<f64>() - 6.0
    }

    #[test]
    fn two_modes_are_found_without_labels() {
        let mut random = Random::new(3);
        let labelled: Vec<(bool, u64)> = (0..4000)
            .map(|_| {
                let hit = random.chance(0.7);
                let log =
                    if hit { 0.3 * normal(&mut random) + 7.0 } else { 0.6 * normal(&mut random) + 11.0 };
                (hit, log.exp() as u64)
            })
            .collect();
        let latencies: Vec<u64> = labelled.iter().map(|&(_, ns)| ns).collect();
        let modes = Modes::fit(&latencies).expect("two modes");
        let wrong = labelled.iter().filter(|&&(hit, ns)| (modes.odds(ns) > 0.0) != hit).count();
        assert!(wrong < 20, "{wrong} of 4000 wrong");
        assert!((modes.hits - 0.7).abs() < 0.03 && modes.overlap < 0.01, "{modes:?}");
        assert!((modes.hit_ns.ln() - 7.0).abs() < 0.05 && (modes.miss_ns.ln() - 11.0).abs() < 0.1);
    }

    #[test]
    fn a_few_that_waited_do_not_spoil_the_rest() {
        // Microseconds of a mount's first script on a busy machine: 5 to 31 are hits.
        let hits =
            [5, 8, 8, 5, 6, 5, 6, 6, 6, 5, 5, 11, 6, 6, 8, 7, 5, 5, 6, 8, 5, 31, 5, 7, 7, 7, 14, 9, 5, 9];
        let hits = [&hits[..], &[7, 6, 20, 5, 20, 5, 16, 11]].concat();
        let misses = [187, 96, 96, 91, 86, 85, 85, 102, 149, 86, 87, 82, 84, 89, 77, 81, 79, 82, 81, 78];
        let waited = [2675, 12028, 2359, 12327];
        let all: Vec<u64> = [&hits[..], &misses, &waited].concat().iter().map(|us| us * 1000).collect();
        let modes = Modes::fit(&all).expect("two modes");
        let taken: f64 = hits.iter().map(|us| 1.0 / (1.0 + modes.odds(us * 1000).exp())).sum();
        assert!(taken < 4.0, "{taken:.1} of {} hits are taken for misses: {modes:?}", hits.len());
        assert!(misses.iter().all(|us| modes.odds(us * 1000) < 0.0), "{modes:?}");
    }

    #[test]
    fn what_waited_longer_than_any_miss_tells_nothing() {
        let mut random = Random::new(5);
        let mut latencies: Vec<u64> = Vec::new();
        for at in 0..4000 {
            let (centre, spread) = if at % 2 == 0 { (8.7, 0.2) } else { (11.6, 0.2) };
            latencies.push((spread * normal(&mut random) + centre).exp() as u64);
        }
        let calm = Modes::fit(&latencies).expect("two modes");
        // One in fifty waits for a time slice of another program, hits as well as misses.
        for at in (0..4000).step_by(50) {
            latencies[at] += 3_000_000 + u64::from(random.below(2_000_000));
            latencies[at + 1] += 3_000_000 + u64::from(random.below(2_000_000));
        }
        let busy = Modes::fit(&latencies).expect("two modes");
        for modes in [calm, busy] {
            assert!(!tells(modes.odds(4_000_000) as f32), "{}", modes.odds(4_000_000));
            let (hit, miss) = (modes.odds(6000), modes.odds(109_000));
            assert!(hit > 4.0 && miss < -4.0, "{hit} {miss}");
            assert!(modes.odds(1) > 4.0);
        }
        // Without waiting a hit or a miss is surer.
        assert!(calm.odds(6000) > busy.odds(6000) && calm.odds(109_000) < busy.odds(109_000));
    }

    #[test]
    fn one_mode_is_not_two() {
        let mut random = Random::new(4);
        let latencies: Vec<u64> = (0..4000).map(|_| (0.3 * normal(&mut random) + 7.0).exp() as u64).collect();
        assert!(Modes::fit(&latencies).is_none_or(|modes| modes.overlap > 0.05), "one mode, split in two");
        assert!(Modes::fit(&[5; 100]).is_none());
    }
}
