//! Whether a connection is alive: what its watchdog looks at.
//!
//! ```text
//!   opened or answered ----> idle ---first byte---> head ---whole head---> answering ---last byte---+
//!                             ^     idle_time              head_time            idle_time without    |
//!                             |                                                 progress             |
//!                             +----------------------------------------------------------------------+
//! ```

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

use crate::options::Limits;

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
    /// When bytes last went out.
    progress: AtomicU64,
    is_http2: AtomicBool,
}

/// Somebody who waits for us, until it is dropped.
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
            progress: AtomicU64::new(0),
            is_http2: AtomicBool::new(false),
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
    pub fn received(&self) {
        if self.active.load(Ordering::Relaxed) == 0 && self.head.load(Ordering::Relaxed) == 0 {
            self.head.store(self.now() + 1, Ordering::Relaxed);
        }
    }

    /// Bytes went out.
    pub fn sent(&self) {
        self.progress.store(self.now(), Ordering::Relaxed);
    }

    /// A whole head came.
    pub fn begin(&self, is_http2: bool) {
        self.is_http2.store(is_http2, Ordering::Relaxed);
        self.active.fetch_add(1, Ordering::Relaxed);
        self.head.store(0, Ordering::Relaxed);
        self.sent();
    }

    /// A request is answered, or given up.
    pub fn end(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
        self.quiet.store(self.now(), Ordering::Relaxed);
    }

    /// An answer waits for its bytes.
    pub fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// The same for as long as what is returned is kept.
    pub fn waits(&self) -> Wait<'_> {
        self.wait();
        Wait(self)
    }

    /// The bytes are there, or nobody wants them.
    pub fn resume(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.sent();
    }

    /// Whether nothing is asked.
    pub fn is_idle(&self) -> bool {
        self.active.load(Ordering::Relaxed) == 0
    }

    /// What the watchdog does now. Over HTTP/2 bytes of all kinds come between requests, so there only idleness counts.
    pub fn verdict(&self, limits: &Limits) -> Verdict {
        let load = |place: &AtomicU64| Duration::from_millis(place.load(Ordering::Relaxed));
        let head = self.head.load(Ordering::Relaxed);
        let end = if self.active.load(Ordering::Relaxed) > 0 {
            if self.waiting.load(Ordering::Relaxed) > 0 {
                return Verdict::Until(self.opened.elapsed() + limits.idle_time);
            }
            load(&self.progress) + limits.idle_time
        } else if head > 0 && !self.is_http2.load(Ordering::Relaxed) {
            Duration::from_millis(head - 1) + limits.head_time
        } else {
            load(&self.quiet) + limits.idle_time
        };
        if self.opened.elapsed() >= end { Verdict::Over } else { Verdict::Until(end) }
    }
}
