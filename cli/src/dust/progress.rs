//! How far an inquiry is, on standard error, for what takes longer than two seconds.

use pantler_dust::{Inquiry, Script};
use std::time::{Duration, Instant};

/// What takes no longer than this needs no words.
const PATIENCE: Duration = Duration::from_secs(2);

/// A script of an inquiry that began at `start` is about to be run: says so in one line.
pub fn tell(start: Instant, inquiry: &Inquiry, script: &Script) {
    let (pattern, accesses, done) = (&script.pattern, script.accesses.len(), inquiry.evidence().len());
    let nearest = inquiry.fits().first().map(|fit| fit.hypothesis.name());
    let nearest = nearest.map_or_else(String::new, |name| format!(", so far nearest: {name}"));
    if start.elapsed() >= PATIENCE {
        eprintln!("pantler: {pattern}: {accesses} accesses after {done}{nearest}");
    }
}
