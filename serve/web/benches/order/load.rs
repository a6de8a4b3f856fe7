//! Load: files as of a web site, and clients that request them. For measuring any server.
//!
//! ```text
//!   plan: files, their sizes, how popular each is; all from one seed
//!   closed loop: each client asks again when it has its answer
//!   open loop:   requests come when they come; time counts from when they should have been sent
//! ```
//!
//! An open loop shows what a closed one hides: a server that stalls is not asked less.

use hdrhistogram::Histogram;
use random::normal;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

#[path = "load/client.rs"]
mod client;
#[path = "load/random.rs"]
mod random;

pub use client::run;
pub use pantler_trace::generate::Draws;
pub use random::Popularity;

/// Mean and deviation of the logarithm of the sizes of most files (SURGE: Barford and Crovella,
/// SIGMETRICS 1998).
const BODY: (f64, f64) = (9.357, 1.318);
/// Share of the files in the tail, its least size in bytes, and its exponent.
const TAIL: (f64, f64, f64) = (0.07, 133_000.0, 1.1);
/// Largest file: a tail without end would make each plan another one.
const SIZE_MAX: f64 = 512_000.0;

/// How large the files are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sizes {
    /// All of this many bytes.
    Fixed(u64),
    /// Most small and some large, as on web servers.
    Surge,
}

/// A set of files.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// How many.
    pub files: u32,
    /// How large.
    pub sizes: Sizes,
    /// Of everything random.
    pub seed: u64,
}

impl Plan {
    /// The size of each file in bytes.
    pub fn sizes(&self) -> Vec<u64> {
        let mut random = Draws::new(self.seed);
        (0..self.files).map(|_| self.size(&mut random)).collect()
    }

    fn size(&self, random: &mut Draws) -> u64 {
        let Sizes::Surge = self.sizes else {
            return if let Sizes::Fixed(size) = self.sizes { size } else { 0 };
        };
        let (share, least, exponent) = TAIL;
        let size = if random.unit() < share {
            least * random.unit().max(1e-12).powf(-1.0 / exponent)
        } else {
            (BODY.0 + BODY.1 * normal(random)).exp()
        };
        size.clamp(1.0, SIZE_MAX) as u64
    }

    /// Writes the files to a folder.
    ///
    /// # Errors
    /// The system's.
    pub fn make(&self, folder: &Path) -> io::Result<()> {
        let mut random = Draws::new(!self.seed);
        let mut noise = vec![0; 64 << 10];
        noise.iter_mut().for_each(|byte| *byte = random.bits() as u8);
        for (number, size) in self.sizes().into_iter().enumerate() {
            let mut file = BufWriter::with_capacity(1 << 20, File::create(folder.join(name(number)))?);
            let mut left = size as usize;
            while left > 0 {
                let part = left.min(noise.len());
                file.write_all(&noise[..part])?;
                left -= part;
            }
            file.flush()?;
        }
        Ok(())
    }
}

/// The name of a file of a plan.
pub fn name(number: usize) -> String {
    format!("f{number:06}")
}

/// When requests come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// Each client sends its next request when it has its answer.
    Closed {
        /// Clients.
        clients: u32,
    },
    /// The same, and each client ends after as many requests.
    Counted {
        /// Clients.
        clients: u32,
        /// Requests of each.
        requests: u64,
    },
    /// Requests come at random times.
    Open {
        /// Requests per second.
        rate: f64,
    },
}

/// What is requested from which server.
#[derive(Debug, Clone)]
pub struct Load {
    /// The server.
    pub address: std::net::SocketAddr,
    /// The files it has.
    pub plan: Plan,
    /// Exponent of popularity: the file of rank r is asked for `1 / r^zipf` as often as the first;
    /// 0 for all alike.
    pub zipf: f64,
    /// When requests come.
    pub pace: Pace,
    /// How long, after the warm-up.
    pub time: Duration,
    /// What is not counted at first.
    pub warm_up: Duration,
    /// Of everything random but the files.
    pub seed: u64,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Report {
    /// Answers that were counted.
    pub requests: u64,
    /// Requests that failed, or got another answer than the file.
    pub errors: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Seconds that were counted.
    pub seconds: f64,
    /// Requests without an answer when the time was over. The latencies have them.
    pub waiting: u64,
    /// Of these, requests without an answer at the end of the patience. The latencies have them as
    /// if it had come then.
    pub unanswered: u64,
    /// Latencies in microseconds, of all.
    pub all: Histogram<u64>,
    /// The first thing that went wrong.
    pub first_error: Option<String>,
}

/// Longest latency that is told apart, in microseconds.
const LATENCY_MAX: u64 = 600_000_000;

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX, 3).expect("bounds that make sense")
}

impl Report {
    fn new() -> Self {
        Self {
            requests: 0,
            errors: 0,
            bytes: 0,
            seconds: 0.0,
            waiting: 0,
            unanswered: 0,
            all: histogram(),
            first_error: None,
        }
    }

    fn add(&mut self, size: u64, latency: Duration) {
        self.requests += 1;
        self.bytes += size;
        self.took(latency);
    }

    /// An answer came when the time was over.
    fn late(&mut self, latency: Duration) {
        self.waiting += 1;
        self.took(latency);
    }

    /// The patience for an answer of this size is over.
    fn give_up(&mut self, waited: Duration) {
        self.waiting += 1;
        self.unanswered += 1;
        self.took(waited);
    }

    fn took(&mut self, latency: Duration) {
        let micros = latency.as_micros().clamp(1, u128::from(LATENCY_MAX)) as u64;
        self.all.saturating_record(micros);
    }

    /// Answers per second.
    pub fn per_second(&self) -> f64 {
        self.requests as f64 / self.seconds.max(1e-9)
    }

    /// Megabytes per second.
    pub fn megabytes_per_second(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.seconds.max(1e-9)
    }

    /// The latency in milliseconds that `percent` percent do not exceed.
    pub fn percentile_ms(&self, percent: f64) -> f64 {
        self.all.value_at_percentile(percent) as f64 / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_the_same_each_time() {
        let plan = Plan { files: 12_000, sizes: Sizes::Surge, seed: 1 };
        let sizes = plan.sizes();
        assert_eq!(sizes, plan.sizes());
        assert_ne!(sizes, Plan { seed: 2, ..plan }.sizes());
        let mut sorted = sizes.clone();
        sorted.sort();
        // The median of the body is e^9.357, a little more with the tail.
        assert!((10_500..14_500).contains(&sorted[6000]), "{}", sorted[6000]);
        let total: u64 = sizes.iter().sum();
        assert!((380_000_000..560_000_000).contains(&total), "{total}");
    }
}
