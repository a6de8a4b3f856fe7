//! The bytes of one answer, piece by piece: from the cache, or after waiting at the desk.

use bytes::Bytes;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::desk::{Desk, Notice, Reply, Waited, Waiting};
use crate::opened::Opened;
use crate::pulse::Pulse;
use crate::scheduler::Wish;

/// How long an answer of a steward about the bytes of a turn counts: a slow client takes its time.
const KNOWN_TIME: Duration = Duration::from_millis(1);

/// The file was written to since it was opened, so its answer would be of several versions.
pub const CHANGED: io::ErrorKind = io::ErrorKind::StaleNetworkFileHandle;

/// A range of a file on its way out.
#[derive(Debug)]
pub struct Feed {
    desk: Arc<Desk>,
    file: Arc<Opened>,
    pulse: Arc<Pulse>,
    at: u64,
    end: u64,
    /// Up to here nothing needs to be asked.
    asked_until: u64,
    /// Since when all of what was asked for is known to be there, if more than its first piece was.
    known_since: Option<Instant>,
    ready: VecDeque<Bytes>,
    waiting: Option<Waiting>,
    /// Since when it waits for its next bytes, however often it looked and found nothing.
    since: Option<Duration>,
    /// Looks in a row that found nothing.
    misses: u32,
    /// Whether it has waited for a read.
    pub has_waited: bool,
}

impl Feed {
    /// Of a range that lies within the file as it was opened.
    pub fn new(desk: Arc<Desk>, file: Arc<Opened>, pulse: Arc<Pulse>, range: Range<u64>) -> Self {
        Self {
            desk,
            file,
            pulse,
            at: range.start,
            end: range.end,
            asked_until: range.start,
            known_since: None,
            ready: VecDeque::new(),
            waiting: None,
            since: None,
            misses: 0,
            has_waited: false,
        }
    }

    /// Whether nothing is left of the range.
    pub fn is_done(&self) -> bool {
        self.at == self.end
    }

    /// The next bytes; `None` at the end of the range.
    ///
    /// # Errors
    /// The system's, and [`CHANGED`] when a program has written to the file, or cut it.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        loop {
            if self.is_done() {
                return Poll::Ready(Ok(None));
            }
            if let Some(bytes) = self.ready.pop_front() {
                return Poll::Ready(self.pass(bytes).map(Some));
            }
            let reply = match self.waiting.take() {
                Some(mut waiting) => match Pin::new(&mut waiting.notice).poll(context) {
                    Poll::Pending => {
                        self.waiting = Some(waiting);
                        return Poll::Pending;
                    }
                    Poll::Ready(notice) => {
                        self.pulse.resume();
                        // The desk drops a sender without a notice only when its queues are reset.
                        let notice = notice.map_err(|_| io::Error::from(io::ErrorKind::ResourceBusy))?;
                        match self.heed(notice, waiting.since)? {
                            Some(reply) => reply,
                            None => continue,
                        }
                    }
                },
                None if self.at < self.asked_until => {
                    let is_known = self.known_since.is_some_and(|since| since.elapsed() < KNOWN_TIME);
                    let waited = self.since.map(|since| Waited { since, misses: self.misses });
                    self.desk.look_on(&self.file, self.wish(), waited, is_known)?
                }
                None => self.desk.ask(&self.file, self.wish())?,
            };
            match reply {
                Reply::Bytes(bytes) if bytes.is_empty() => return Poll::Ready(Err(cut())),
                Reply::Bytes(bytes) => {
                    let end = self.wish().end;
                    if self.at >= self.asked_until && self.at + (bytes.len() as u64) < end {
                        self.known_since = Some(Instant::now());
                    }
                    self.asked_until = end;
                    return Poll::Ready(self.pass(bytes).map(Some));
                }
                Reply::Wait(waiting) => {
                    self.pulse.wait();
                    self.has_waited = true;
                    self.misses += 1;
                    self.known_since = None;
                    self.since.get_or_insert(waiting.since);
                    self.waiting = Some(waiting);
                }
            }
        }
    }

    /// Does what the notice says. Without a reply it is to be polled again.
    fn heed(&mut self, notice: Notice, since: Duration) -> io::Result<Option<Reply>> {
        match notice {
            Notice::Turn(turn) => {
                let waited = Waited { since, misses: self.misses };
                return Ok(Some(self.desk.take_turn(turn, &self.file, self.wish(), waited, false)?));
            }
            Notice::Bytes(start, chunks) => {
                self.take(start, &chunks);
                if self.ready.is_empty() {
                    return Err(cut());
                }
                self.asked_until = self.wish().end;
            }
            Notice::Look => self.asked_until = self.wish().end,
            Notice::Failed(kind) => return Err(kind.into()),
        }
        Ok(None)
    }

    /// Takes its own part of what was read for several requests.
    fn take(&mut self, start: u64, chunks: &[Bytes]) {
        let mut offset = start;
        for chunk in chunks {
            let from = self.at.clamp(offset, offset + chunk.len() as u64) - offset;
            let to = self.end.clamp(offset, offset + chunk.len() as u64) - offset;
            if from < to {
                self.ready.push_back(chunk.slice(from as usize..to as usize));
            }
            offset += chunk.len() as u64;
        }
    }

    /// A writer changes the stamps before the first byte. So bytes are of the version that was
    /// opened if its stamps are still there after they were read.
    fn pass(&mut self, bytes: Bytes) -> io::Result<Bytes> {
        if self.file.is_mixed()? {
            return Err(io::Error::new(CHANGED, "the file changed while it was served"));
        }
        self.at += bytes.len() as u64;
        (self.since, self.misses) = (None, 0);
        Ok(bytes)
    }

    /// The rest of the range, within one turn.
    fn wish(&self) -> Wish {
        Wish::first(self.file.version, self.at, self.end)
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        if self.waiting.is_some() {
            self.pulse.resume();
        }
    }
}

fn cut() -> io::Error {
    io::Error::new(CHANGED, "the file was cut while it was served")
}
