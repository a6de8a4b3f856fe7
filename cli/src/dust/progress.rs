//! How far an inquiry is, on standard error, for what takes longer than two seconds.

use pantler_dust::{Inquiry, Script};
use std::time::{Duration, Instant};

/// What takes no longer than this needs no words.
const PATIENCE: Duration = Duration::from_secs(2);

/// One line for each script.
pub struct Progress {
    start: Instant,
}

impl Progress {
    /// Nothing is shown yet.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }

    /// A script is about to be run.
    pub fn step(&self, inquiry: &Inquiry, script: &Script) {
        let (pattern, accesses, done) = (&script.pattern, script.accesses.len(), inquiry.evidence().len());
        let nearest = inquiry.fits().first().map(|fit| fit.hypothesis.name());
        let nearest = nearest.map_or_else(String::new, |name| format!(", so far nearest: {name}"));
        if self.start.elapsed() >= PATIENCE {
            eprintln!("pantler: {pattern}: {accesses} accesses after {done}{nearest}");
        }
    }
}
