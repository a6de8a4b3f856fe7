//! Whether a connection is alive: what its watchdog looks at.
//!
//! ```text
//!   opened or answered --> idle --whole head--> answering --last byte--+
//!                           ^    idle_time         idle_time without   |
//!                           |                      progress            |
//!                           +------------------------------------------+
//! ```
//!
//! A slow head counts as idleness: it costs the server no more.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// How often the server looks whether a request still waits for it.
const LOOK_TIME: Duration = Duration::from_secs(1);

/// Times are milliseconds since the connection was opened.
#[derive(Debug)]
pub struct Pulse {
    opened: Instant,
    /// Since when nothing is asked.
    quiet: AtomicU64,
    /// Requests that are not answered to the end.
    active: AtomicU32,
    /// Of these, those that wait for the server and not for the client.
    waiting: AtomicU32,
    /// Since when there are such.
    waiting_since: AtomicU64,
    /// When the client last took bytes of an answer; later by the time that requests have waited
    /// for the server since.
    progress: AtomicU64,
}

/// A request that waits for the server, until it is dropped.
#[derive(Debug)]
pub struct Wait<'a>(&'a Pulse);

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.0.resume();
    }
}

/// What the watchdog does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Looks again at this time since the connection was opened.
    Until(Duration),
    /// Ends it.
    Over,
}

impl Pulse {
    /// Of a connection opened now.
    pub fn new() -> Self {
        Self {
            opened: Instant::now(),
            quiet: AtomicU64::new(0),
            active: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            waiting_since: AtomicU64::new(0),
            progress: AtomicU64::new(0),
        }
    }

    /// When it was opened.
    pub fn opened(&self) -> Instant {
        self.opened
    }

    fn now(&self) -> u64 {
        self.opened.elapsed().as_millis() as u64
    }

    /// The client took bytes of an answer. Nothing else is progress: a client that sends requests
    /// now and then could otherwise hold for ever the bytes that it does not take.
    pub fn took(&self) {
        self.progress.store(self.now(), Ordering::Relaxed);
    }

    /// A whole head came.
    pub fn begin(&self) {
        if self.active.fetch_add(1, Ordering::Relaxed) == 0 {
            self.took();
        }
    }

    /// A request is answered, or given up.
    pub fn end(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
        self.quiet.store(self.now(), Ordering::Relaxed);
    }

    /// An answer waits for its bytes.
    pub fn wait(&self) {
        if self.waiting.fetch_add(1, Ordering::Relaxed) == 0 {
            self.waiting_since.store(self.now(), Ordering::Relaxed);
        }
    }

    /// The same for as long as what is returned is kept.
    pub fn waits(&self) -> Wait<'_> {
        self.wait();
        Wait(self)
    }

    /// The bytes are there, or no request wants them.
    pub fn resume(&self) {
        let since = self.waiting_since.load(Ordering::Relaxed);
        if self.waiting.fetch_sub(1, Ordering::Relaxed) == 1 {
            // The client's time goes on where it stood.
            let now = self.now();
            let progress = self.progress.load(Ordering::Relaxed) + now.saturating_sub(since);
            self.progress.store(progress.min(now), Ordering::Relaxed);
        }
    }

    /// Tells the watchdog what to do at a time since the connection was opened.
    pub fn verdict(&self, now: Duration, idle_time: Duration) -> Verdict {
        let since = if self.active.load(Ordering::Relaxed) == 0 {
            &self.quiet
        } else if self.waiting.load(Ordering::Relaxed) > 0 {
            return Verdict::Until(now + idle_time.min(LOOK_TIME));
        } else {
            &self.progress
        };
        let end = Duration::from_millis(since.load(Ordering::Relaxed)) + idle_time;
        if now >= end { Verdict::Over } else { Verdict::Until(end) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_does_nothing_is_cut_unless_it_waits_for_the_server() {
        let at = Duration::from_secs;
        let pulse = Pulse::new();
        let verdict = |now| pulse.verdict(at(now), at(60));
        assert_eq!((verdict(0), verdict(60)), (Verdict::Until(at(60)), Verdict::Over), "it asks nothing");
        pulse.begin();
        pulse.wait();
        assert_eq!(verdict(1000), Verdict::Until(at(1001)), "it waits for the server");
        pulse.resume();
        assert_eq!(verdict(1000), Verdict::Over, "it takes nothing");
        pulse.end();
        assert_eq!(verdict(1000), Verdict::Over, "it asks nothing more");
    }

    #[test]
    fn only_taking_bytes_is_progress() {
        let at = Duration::from_millis;
        let mut pulse = Pulse::new();
        pulse.begin();
        pulse.opened -= at(1900);
        // It asks for more, and waits for that.
        pulse.begin();
        pulse.wait();
        pulse.opened -= at(1000);
        pulse.resume();
        let Verdict::Until(end) = pulse.verdict(at(2900), at(2000)) else { panic!("it has waited for us") };
        assert!(end < at(4800), "{end:?}: it has taken nothing since the beginning");
        pulse.took();
        assert!(matches!(pulse.verdict(at(2900), at(2000)), Verdict::Until(end) if end >= at(4900)));
    }
}
