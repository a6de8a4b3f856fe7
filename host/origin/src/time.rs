//! Points in time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A point in time as file systems keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Time {
    /// Seconds since 1970; negative before.
    pub seconds: i64,
    /// Nanoseconds within the second, below 1,000,000,000.
    pub nanoseconds: u32,
}

impl Time {
    /// The wall clock now.
    pub fn now() -> Self {
        SystemTime::now().into()
    }

    /// This time and `more`, saturating.
    pub fn plus(self, more: Duration) -> Self {
        let nanoseconds = self.nanoseconds + more.subsec_nanos();
        let carry = i64::from(nanoseconds / 1_000_000_000);
        let seconds = i64::try_from(more.as_secs()).unwrap_or(i64::MAX);
        Self {
            seconds: self.seconds.saturating_add(seconds).saturating_add(carry),
            nanoseconds: nanoseconds % 1_000_000_000,
        }
    }
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self { seconds: after.as_secs() as i64, nanoseconds: after.subsec_nanos() },
            Err(error) => {
                let before = error.duration();
                let borrow = i64::from(before.subsec_nanos() > 0);
                let nanoseconds = (1_000_000_000 - before.subsec_nanos()) % 1_000_000_000;
                Self { seconds: -(before.as_secs() as i64) - borrow, nanoseconds }
            }
        }
    }
}

impl From<Time> for SystemTime {
    fn from(time: Time) -> Self {
        let whole = Duration::from_secs(time.seconds.unsigned_abs());
        let base =
            if time.seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
        base.and_then(|base| base.checked_add(Duration::from_nanos(u64::from(time.nanoseconds))))
            .unwrap_or(UNIX_EPOCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_the_way_there_and_back() {
        for (seconds, nanoseconds) in [(0, 0), (5, 999_999_999), (-1, 1), (-1, 0), (1 << 33, 7)] {
            let time = Time { seconds, nanoseconds };
            assert_eq!(Time::from(SystemTime::from(time)), time);
        }
    }

    #[test]
    fn adding_carries() {
        let time = Time { seconds: 1, nanoseconds: 900_000_000 }.plus(Duration::from_millis(200));
        assert_eq!(time, Time { seconds: 2, nanoseconds: 100_000_000 });
    }
}
