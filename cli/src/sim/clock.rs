//! How long something took: on the wall, and of this thread's processor.

use rustix::time::{ClockId, clock_gettime};
use std::fmt;
use std::time::{Duration, Instant};

/// Runs from its start to when it is shown.
pub struct Clock {
    wall: Instant,
    processor: Duration,
}

impl Clock {
    pub fn start() -> Self {
        Self { wall: Instant::now(), processor: processor() }
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = processor().saturating_sub(self.processor);
        write!(f, "{:.4} s, {:.4} s of processor", self.wall.elapsed().as_secs_f64(), used.as_secs_f64())
    }
}

/// Processor time of this thread.
fn processor() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // Both are counted from 0 and below a billion.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
