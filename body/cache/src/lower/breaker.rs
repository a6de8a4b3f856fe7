//! Whether a tier is used, or left alone because it failed.
//!
//! ```text
//!   closed --failure--> open --its worker found it working--> closed
//! ```
//!
//! A tier that fails again soon after it was found working is tried ever more seldom: each time, a
//! reader may have waited for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How soon a broken tier is tried again, and how seldom at last.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// A failure is a relapse within this many of the last pauses.
const RELAPSE_PAUSES: u32 = 10;

#[derive(Default)]
pub(crate) struct Breaker {
    /// Changes under the lock alone: a tier that works is not waiting to be tried again.
    open: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The last pause, and when it began: with a failure, or when the tier was found working.
    pause: Duration,
    since: Option<Instant>,
    trips: u64,
    heals: u64,
}

impl Breaker {
    /// Whether the tier is left alone. Costs nothing.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// The tier failed. Says whether that was news.
    pub(crate) fn trip(&self) -> bool {
        let mut state = self.lock();
        let is_news = !self.open.swap(true, Ordering::AcqRel);
        if is_news {
            state.trips += 1;
            let is_relapse = state.since.is_some_and(|at| at.elapsed() < state.pause * RELAPSE_PAUSES);
            let pause = if is_relapse { state.pause * 2 } else { PAUSES.0 };
            state.begin(pause);
        }
        is_news
    }

    /// How long until it is to be tried again; `None` while it works.
    pub(crate) fn pause(&self) -> Option<Duration> {
        let state = self.lock();
        let passed = state.since.map_or(Duration::ZERO, |since| since.elapsed());
        self.is_open().then(|| state.pause.saturating_sub(passed))
    }

    /// It was tried, and still fails.
    pub(crate) fn failed_again(&self) {
        let mut state = self.lock();
        let pause = state.pause * 2;
        state.begin(pause);
    }

    /// It was tried, and works.
    pub(crate) fn heal(&self) {
        let mut state = self.lock();
        if self.open.swap(false, Ordering::AcqRel) {
            state.heals += 1;
            state.since = Some(Instant::now());
        }
    }

    /// How often it broke, and how often it healed.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let state = self.lock();
        (state.trips, state.heals)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics with a time")
    }
}

impl State {
    fn begin(&mut self, pause: Duration) {
        (self.pause, self.since) = (pause.min(PAUSES.1), Some(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_begin_anew() {
        let breaker = Breaker::default();
        assert!(!breaker.is_open() && breaker.pause().is_none());
        assert!(breaker.trip() && !breaker.trip(), "news once");
        for _ in 0..20 {
            breaker.failed_again();
        }
        assert!(breaker.pause().unwrap() <= PAUSES.1 && breaker.pause().unwrap() > PAUSES.1 / 2);
        breaker.heal();
        assert!(!breaker.is_open() && breaker.pause().is_none());
        breaker.lock().since = None;
        breaker.trip();
        assert!(breaker.pause().unwrap() <= PAUSES.0);
        assert_eq!(breaker.counts(), (2, 1));
    }

    #[test]
    fn what_fails_as_soon_as_it_works_is_tried_more_and_more_seldom() {
        let breaker = Breaker::default();
        let mut before = Duration::ZERO;
        for _ in 0..15 {
            breaker.trip();
            let pause = breaker.pause().unwrap();
            assert!(pause > before || before > PAUSES.1 / 2, "{pause:?} after {before:?}");
            assert!(pause <= PAUSES.1);
            before = pause;
            breaker.heal();
        }
    }
}
