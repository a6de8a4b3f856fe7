//! The way to the mount and back, which is no part of what a read costs.

use std::collections::VecDeque;
use std::time::Duration;

/// Questions that are remembered.
const RECENT: usize = 32;
/// A way is at most this many times as long as three quarters of the recent ones: beyond that the
/// question itself waited.
const LONGEST: u32 = 2;

/// How long the way was lately.
#[derive(Debug, Default)]
pub struct Way {
    recent: VecDeque<Duration>,
}

impl Way {
    /// What is taken off a read, by questions asked before and after it. The longer one counts,
    /// because the answering thread may have moved to another processor or back; but not what it
    /// waited, or a miss would look like a hit.
    pub fn around(&mut self, before: Duration, after: Duration) -> Duration {
        self.recent.extend([before, after]);
        while self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        let mut ways: Vec<Duration> = self.recent.iter().copied().collect();
        ways.sort_unstable();
        let ordinary = ways.get(ways.len() * 3 / 4).or(ways.last()).copied().unwrap_or_default();
        before.max(after).min(ordinary * LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn a_question_that_waited_takes_off_no_more_than_others() {
        let mut way = Way::default();
        for _ in 0..16 {
            assert_eq!(way.around(us(5), us(5)), us(5));
        }
        assert_eq!(way.around(us(4000), us(5)), us(10));
        assert_eq!(way.around(us(5), us(4000)), us(10));
        assert_eq!(way.around(us(5), us(6)), us(6));
    }

    #[test]
    fn ways_between_processors_are_taken_off_soon() {
        let mut way = Way::default();
        for _ in 0..16 {
            way.around(us(5), us(5));
        }
        for _ in 0..5 {
            way.around(us(5), us(40));
        }
        assert_eq!(way.around(us(5), us(40)), us(10), "the first few look longer");
        for _ in 0..8 {
            way.around(us(40), us(40));
        }
        assert_eq!(way.around(us(5), us(40)), us(40));
    }
}
