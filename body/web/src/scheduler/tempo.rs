//! For how many of those who are served the disk is read, and how fast it reads when it has no
//! rest. Pure.
//!
//! Both are of the recent past: what is counted is halved now and then.

use std::time::Duration;

/// Wishes after which counts are halved.
const SERVED_MAX: u32 = 2048;
/// Wishes that are taken to have been read for before any was served: who knows nothing holds
/// nobody back.
const SERVED_FIRST: u32 = 64;
/// Time without rest after which counts are halved.
const BUSY_MAX: Duration = Duration::from_secs(4);
/// Reads before which nothing is said of their speed.
const ENDED_LEAST: u32 = 32;

/// See the head of this file.
#[derive(Debug)]
pub struct Tempo {
    /// Wishes that were served, and the reads that this took.
    served: u32,
    reads: u32,
    /// Time in which no reader had a rest, and the reads that ended in it.
    busy: Duration,
    ended: u32,
    /// What was last seen, and when.
    now: Duration,
    is_busy: bool,
    /// When a read last ended, or nothing was being read.
    moved: Duration,
    has_moved: bool,
}

impl Tempo {
    /// Nothing was served yet.
    pub fn new() -> Self {
        Self {
            served: SERVED_FIRST,
            reads: SERVED_FIRST,
            busy: Duration::ZERO,
            ended: 0,
            now: Duration::ZERO,
            is_busy: false,
            moved: Duration::ZERO,
            has_moved: true,
        }
    }

    /// A wish was served without a read.
    pub fn served(&mut self) {
        self.add(1, 0);
    }

    /// A read has ended, for so many wishes.
    pub fn read(&mut self, wishes: usize) {
        self.has_moved = true;
        self.ended += u32::from(self.is_busy);
        if wishes > 0 {
            self.add(wishes as u32, 1);
        }
    }

    /// Time has passed until now, when so many reads are under way of at most so many.
    pub fn pass(&mut self, now: Duration, reads: usize, reads_max: u32) {
        if self.is_busy {
            self.busy += now.saturating_sub(self.now);
        }
        if self.busy >= BUSY_MAX {
            (self.busy, self.ended) = (self.busy / 2, self.ended / 2);
        }
        if self.has_moved || reads == 0 {
            self.moved = now;
            self.has_moved = false;
        }
        (self.now, self.is_busy) = (now, reads >= reads_max as usize);
    }

    /// Reads for each wish that was served.
    pub fn share(&self) -> f64 {
        f64::from(self.reads) / f64::from(self.served)
    }

    /// How many reads end in this time when the disk has no rest, if that is known.
    pub fn reads_in(&self, time: Duration) -> Option<f64> {
        let rate = f64::from(self.ended) / self.busy.as_secs_f64();
        (self.ended >= ENDED_LEAST && rate.is_finite()).then_some(rate * time.as_secs_f64())
    }

    /// How long no read has ended although some are under way.
    pub fn hangs(&self, now: Duration) -> Duration {
        now.saturating_sub(self.moved)
    }

    fn add(&mut self, wishes: u32, reads: u32) {
        self.served = self.served.saturating_add(wishes);
        self.reads = self.reads.saturating_add(reads);
        if self.served >= SERVED_MAX {
            (self.served, self.reads) = (self.served / 2, self.reads / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_that_of_the_recent_past() {
        let mut tempo = Tempo::new();
        assert_eq!(tempo.share(), 1.0);
        for _ in 0..10_000 {
            (0..3).for_each(|_| tempo.served());
            tempo.read(1);
        }
        assert!((tempo.share() - 0.25).abs() < 0.01, "{}", tempo.share());
        (0..10_000).for_each(|_| tempo.read(2));
        assert!((tempo.share() - 0.5).abs() < 0.01, "{}", tempo.share());
        tempo.read(0);
        assert!((tempo.share() - 0.5).abs() < 0.01, "nobody was served");
    }

    #[test]
    fn a_rest_says_nothing_about_the_speed() {
        let mut tempo = Tempo::new();
        let mut now = Duration::ZERO;
        for round in 0..3000 {
            // Ten milliseconds for each read, of two at a time, and now and then a rest.
            now += Duration::from_millis(if round % 100 == 0 { 5000 } else { 10 });
            tempo.read(1);
            tempo.pass(now, if round % 100 == 99 { 1 } else { 2 }, 2);
            if round < 30 {
                assert_eq!(tempo.reads_in(Duration::from_secs(1)), None);
            }
        }
        let rate = tempo.reads_in(Duration::from_secs(1)).unwrap();
        assert!((95.0..=101.0).contains(&rate), "{rate}");
        assert_eq!(tempo.hangs(now), Duration::ZERO);
        tempo.pass(now + Duration::from_secs(3), 2, 2);
        assert_eq!(tempo.hangs(now + Duration::from_secs(3)), Duration::from_secs(3));
        tempo.pass(now + Duration::from_secs(9), 0, 2);
        assert_eq!(tempo.hangs(now + Duration::from_secs(9)), Duration::ZERO, "nothing to wait for");
    }
}
