//! Whether a connection is alive: what its watchdog looks at.
//!
//! ```text
//!   opened or answered --> idle --first byte--> head --whole head--> answering --last byte--+
//!                           ^    idle_time           head_time          idle_time without   |
//!                           |                                           progress            |
//!                           +---------------------------------------------------------------+
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

use crate::options::Limits;
use crate::pieces::Pieces;

/// How often the server looks whether a client that waits for an answer is still there.
const LOOK_TIME: Duration = Duration::from_secs(1);

/// With what a client begins that speaks HTTP/2 without having asked (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Times are milliseconds since the connection was opened.
#[derive(Debug)]
pub struct Pulse {
    opened: Instant,
    /// Since when nothing is asked.
    quiet: AtomicU64,
    /// When the first byte of a head came, plus one; 0 when there is none.
    head: AtomicU64,
    /// Requests that are not answered to the end.
    active: AtomicU32,
    /// Of these, those that wait for us and not for the client.
    waiting: AtomicU32,
    /// Since when there are such.
    waiting_since: AtomicU64,
    /// When the client last took bytes of an answer; later by the time that requests have waited
    /// for the server since.
    progress: AtomicU64,
    is_http2: AtomicBool,
    /// Whether nothing has come yet.
    is_silent: AtomicBool,
    /// The last four bytes that came. Over HTTP/1.1 only heads come, as a body ends its connection:
    /// so if these end none, part of one has come.
    last: AtomicU32,
    /// What it holds of its answers.
    pub pieces: Arc<Pieces>,
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
            head: AtomicU64::new(0),
            active: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            waiting_since: AtomicU64::new(0),
            progress: AtomicU64::new(0),
            is_http2: AtomicBool::new(false),
            is_silent: AtomicBool::new(true),
            last: AtomicU32::new(0),
            pieces: Arc::default(),
        }
    }

    /// When it was opened.
    pub fn opened(&self) -> Instant {
        self.opened
    }

    fn now(&self) -> u64 {
        self.opened.elapsed().as_millis() as u64
    }

    /// Bytes came in.
    pub fn received(&self, bytes: &[u8]) {
        if self.is_silent.swap(false, Ordering::Relaxed) && bytes.starts_with(PREFACE) {
            self.is_http2.store(true, Ordering::Relaxed);
        }
        let recent = &bytes[bytes.len().saturating_sub(4)..];
        let last = self.last.load(Ordering::Relaxed);
        let last = recent.iter().fold(last, |last, byte| last << 8 | u32::from(*byte));
        self.last.store(last, Ordering::Relaxed);
        if self.active.load(Ordering::Relaxed) == 0 && self.head.load(Ordering::Relaxed) == 0 {
            self.head.store(self.now() + 1, Ordering::Relaxed);
        }
    }

    /// The client took bytes of an answer. Nothing else is progress over HTTP/2: a client that
    /// sends requests or frames now and then could otherwise hold for ever the bytes that it does
    /// not take.
    pub fn took(&self) {
        self.progress.store(self.now(), Ordering::Relaxed);
    }

    /// A whole head came.
    pub fn begin(&self, is_http2: bool) {
        self.is_http2.store(is_http2, Ordering::Relaxed);
        if self.active.fetch_add(1, Ordering::Relaxed) == 0 {
            self.took();
        }
        self.head.store(0, Ordering::Relaxed);
    }

    /// A request is answered, or given up.
    pub fn end(&self) {
        let was_last = self.active.fetch_sub(1, Ordering::Relaxed) == 1;
        self.quiet.store(self.now(), Ordering::Relaxed);
        if was_last && self.is_within_head() {
            // Bytes behind the request count from now on: they could not be read before.
            self.head.store(self.now() + 1, Ordering::Relaxed);
        }
    }

    /// Whether what came last ends no head. A lone newline ends a line, too (RFC 9112, section
    /// 2.2).
    fn is_within_head(&self) -> bool {
        let last = self.last.load(Ordering::Relaxed).to_be_bytes();
        !(last == *b"\r\n\r\n" || last.ends_with(b"\n\n") || last.ends_with(b"\n\r\n"))
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

    /// Whether a client waits for the server and its leaving would go unnoticed: over HTTP/2 all
    /// that it sends is read.
    pub fn needs_a_look(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0 && !self.is_http2.load(Ordering::Relaxed)
    }

    /// Tells the watchdog what to do at a time since the connection was opened. Over HTTP/2 bytes
    /// of all kinds come between requests, so there only idleness counts.
    pub fn verdict(&self, now: Duration, limits: &Limits) -> Verdict {
        let load = |place: &AtomicU64| Duration::from_millis(place.load(Ordering::Relaxed));
        let head = self.head.load(Ordering::Relaxed);
        let end = if self.active.load(Ordering::Relaxed) > 0 {
            if self.waiting.load(Ordering::Relaxed) > 0 {
                return Verdict::Until(now + limits.idle_time.min(LOOK_TIME));
            }
            load(&self.progress) + limits.idle_time
        } else if head > 0 && !self.is_http2.load(Ordering::Relaxed) {
            Duration::from_millis(head - 1) + limits.head_time
        } else {
            load(&self.quiet) + limits.idle_time
        };
        if now >= end { Verdict::Over } else { Verdict::Until(end) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_us_is_looked_at_and_who_does_nothing_is_cut() {
        let limits = Limits::default();
        let pulse = Pulse::new();
        let at = Duration::from_secs;
        assert_eq!(pulse.verdict(at(0), &limits), Verdict::Until(limits.idle_time));
        pulse.received(b"GET /");
        assert!(matches!(pulse.verdict(at(0), &limits), Verdict::Until(until) if until < limits.idle_time));
        assert_eq!(pulse.verdict(limits.head_time + at(1), &limits), Verdict::Over, "half a head");
        pulse.begin(false);
        assert!(!pulse.needs_a_look());
        pulse.wait();
        assert!(pulse.needs_a_look());
        assert_eq!(pulse.verdict(at(1000), &limits), Verdict::Until(at(1001)), "it waits for us");
        pulse.resume();
        assert_eq!(pulse.verdict(at(1000), &limits), Verdict::Over, "it takes nothing");
    }

    #[test]
    fn half_a_head_behind_a_request_is_half_a_head() {
        let limits = Limits::default();
        for (behind, is_half) in [
            (&b""[..], false),
            (b"GET /b HT", true),
            (b"GET /b HTTP/1.1\r\nHost: x\r\n\r\n", false),
            (b"\r", true),
        ] {
            let pulse = Pulse::new();
            // Every end of a read within what ends a head.
            for part in [&b"GET /a HTTP/1.1\r\nHost: x\r"[..], b"\n\r", b"\n"] {
                pulse.received(part);
            }
            pulse.begin(false);
            pulse.received(behind);
            pulse.end();
            let Verdict::Until(until) = pulse.verdict(Duration::ZERO, &limits) else { panic!("over") };
            assert_eq!(until < limits.idle_time, is_half, "{behind:?}: {until:?}");
        }
    }

    #[test]
    fn over_http2_only_idleness_counts_between_requests() {
        let limits = Limits::default();
        let pulse = Pulse::new();
        let until = || match pulse.verdict(Duration::ZERO, &limits) {
            Verdict::Until(until) => until,
            Verdict::Over => panic!("over"),
        };
        pulse.received(&[PREFACE, b"settings"].concat());
        assert_eq!(until(), limits.idle_time, "it has asked for nothing yet");
        pulse.begin(true);
        pulse.end();
        let idle = until();
        pulse.received(b"a ping");
        assert_eq!(until(), idle);
        assert!(idle >= limits.idle_time);
    }

    #[test]
    fn only_taking_bytes_is_progress() {
        let at = Duration::from_millis;
        let limits = Limits { idle_time: at(2000), ..Limits::default() };
        let mut pulse = Pulse::new();
        pulse.begin(true);
        pulse.opened -= at(1900);
        // It asks for more, and waits for that.
        pulse.begin(true);
        pulse.wait();
        pulse.opened -= at(1000);
        pulse.resume();
        let Verdict::Until(end) = pulse.verdict(at(2900), &limits) else { panic!("it has waited for us") };
        assert!(end < at(4800), "{end:?}: it has taken nothing since the beginning");
        pulse.took();
        assert!(matches!(pulse.verdict(at(2900), &limits), Verdict::Until(end) if end >= at(4900)));
    }
}
