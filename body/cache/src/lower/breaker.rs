//! Whether a tier is used, or left alone because it failed.
//!
//! ```text
//!   closed --failure--> open --its worker found it working--> closed
//! ```
//!
//! A tier that fails again soon after it was found working is tried ever more seldom: each time, a
//! reader may have waited for it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How soon a broken tier is tried again, and how seldom at last.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// A failure is a relapse within this many of the last pauses.
const RELAPSE_PAUSES: u32 = 10;

#[derive(Default)]
pub(crate) struct Breaker {
    open: AtomicBool,
    trips: AtomicU64,
    heals: AtomicU64,
    /// When to try again, and how long to wait after that.
    next: Mutex<Option<(Instant, Duration)>>,
    /// When it was found working last, and the pause before.
    healed: Mutex<Option<(Instant, Duration)>>,
}

impl Breaker {
    /// Whether the tier is left alone. Costs nothing.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// The tier failed. Says whether that was news.
    pub(crate) fn trip(&self) -> bool {
        // Both change together: a tier that works and waits to be tried again would be neither used
        // nor tried.
        let mut next = self.lock();
        let is_news = !self.open.swap(true, Ordering::AcqRel);
        if is_news {
            self.trips.fetch_add(1, Ordering::Relaxed);
            let pause = match *self.healed.lock().expect("no thread panics with a time") {
                Some((at, pause)) if at.elapsed() < pause * RELAPSE_PAUSES => (pause * 2).min(PAUSES.1),
                _ => PAUSES.0,
            };
            *next = Some((Instant::now() + pause, pause));
        }
        is_news
    }

    /// How long until it is to be tried again; `None` while it works.
    pub(crate) fn pause(&self) -> Option<Duration> {
        let next = *self.lock();
        next.map(|(at, _)| at.saturating_duration_since(Instant::now()))
    }

    /// It was tried, and still fails.
    pub(crate) fn failed_again(&self) {
        let mut next = self.lock();
        let pause = next.map_or(PAUSES.0, |(_, pause)| (pause * 2).min(PAUSES.1));
        *next = Some((Instant::now() + pause, pause));
    }

    /// It was tried, and works.
    pub(crate) fn heal(&self) {
        let mut next = self.lock();
        if let Some((_, pause)) = next.take() {
            *self.healed.lock().expect("no thread panics with a time") = Some((Instant::now(), pause));
        }
        if self.open.swap(false, Ordering::AcqRel) {
            self.heals.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often it broke, and how often it healed.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.trips.load(Ordering::Relaxed), self.heals.load(Ordering::Relaxed))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Instant, Duration)>> {
        self.next.lock().expect("no thread panics with a time")
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
        *breaker.healed.lock().unwrap() = None;
        breaker.trip();
        assert!(breaker.pause().unwrap() <= PAUSES.0);
        assert_eq!(breaker.counts(), (2, 1));
    }

    #[test]
    fn what_fails_as_soon_as_it_works_is_tried_more_and_more_seldom() {
        let breaker = Breaker::default();
        let mut before = Duration::ZERO;
        for _ in 0..5 {
            breaker.trip();
            let pause = breaker.pause().unwrap();
            assert!(pause > before, "{pause:?} after {before:?}");
            before = pause;
            breaker.heal();
        }
        for _ in 0..10 {
            breaker.trip();
            assert!(breaker.pause().unwrap() <= PAUSES.1);
            breaker.heal();
        }
    }
}
