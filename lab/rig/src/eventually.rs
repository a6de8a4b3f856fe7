//! Waiting for what will soon be so.

use std::time::{Duration, Instant};

/// Time for a short piece of work on a machine with much more work than processors.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something holds, and says how long that took: asks often at first, then twenty times
/// a second.
///
/// # Panics
///
/// If it does not hold within a minute.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
    start.elapsed()
}
