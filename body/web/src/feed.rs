//! The bytes of one answer, piece by piece: from the cache, or after waiting at the desk.

use bytes::Bytes;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::time::Sleep;

use crate::desk::{Asked, Desk, Told, Turn, Waiting};
use crate::opened::Opened;
use crate::pieces;
use crate::pulse::Pulse;
use crate::range::Span;
use crate::scheduler::Wish;

/// How often somebody who waits for buffers looks whether there are some: nobody tells it when
/// others give theirs back.
const ROOM_TIME: Duration = Duration::from_secs(1);

/// How long it counts that all of a window is there: what a steward has said of it is old news when
/// a client takes its time.
const KNOWN_TIME: Duration = Duration::from_millis(1);

/// What is said of a file to which somebody has written since it was opened: its answer would be of
/// several versions.
pub const CHANGED: io::ErrorKind = io::ErrorKind::StaleNetworkFileHandle;

/// A span of a file on its way out.
#[derive(Debug)]
pub struct Feed {
    desk: Arc<Desk>,
    file: Arc<Opened>,
    pulse: Arc<Pulse>,
    number: u64,
    at: u64,
    end: u64,
    /// Up to here nobody needs to be asked.
    asked_until: u64,
    /// Up to here the desk has noted what is asked for.
    noted_until: u64,
    /// Since when all of what was asked for is known to be there, if more than its first piece was.
    known_since: Option<Instant>,
    ready: VecDeque<Bytes>,
    /// The turn it came with.
    turn: Option<Turn>,
    waiting: Option<Waiting>,
    /// Since when it waits for its next bytes, however often it was told to look and found nothing.
    since: Option<Duration>,
    /// Until when it is held back at most.
    patience: Option<Pin<Box<Sleep>>>,
    /// Until when it does not look whether there is room for its next piece, unless its connection
    /// makes some.
    pause: Option<Pin<Box<Sleep>>>,
    /// Times in a row that nothing was there.
    misses: u32,
    /// Whether it ever waited.
    pub has_waited: bool,
}

impl Feed {
    /// Of a span that lies within the file as it was opened; `name` is where it was found.
    pub fn new(
        desk: Arc<Desk>,
        file: Arc<Opened>,
        pulse: Arc<Pulse>,
        name: impl FnOnce() -> Vec<u8>,
        span: Span,
    ) -> Self {
        let (number, turn) = desk.introduce(&file, name, span);
        Self {
            turn,
            desk,
            file,
            pulse,
            number,
            at: span.start,
            end: span.end,
            asked_until: span.start,
            noted_until: span.start,
            known_since: None,
            ready: VecDeque::new(),
            waiting: None,
            since: None,
            patience: None,
            pause: None,
            misses: 0,
            has_waited: false,
        }
    }

    /// Goes on with another span of the same file.
    pub fn turn_to(&mut self, span: Span) {
        (self.at, self.end) = (span.start, span.end);
        (self.asked_until, self.noted_until) = (span.start, span.start);
        self.ready.clear();
    }

    /// Whether nothing is left of the span.
    pub fn is_done(&self) -> bool {
        self.at == self.end
    }

    /// The next bytes; `None` at the end of the span.
    ///
    /// # Errors
    /// The system's, and [`CHANGED`] when somebody has written to the file, or cut it.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        loop {
            if self.is_done() {
                return Poll::Ready(Ok(None));
            }
            if let Some(bytes) = self.ready.pop_front() {
                return Poll::Ready(self.pass(bytes).map(Some));
            }
            if self.waiting.is_none() && !self.has_room(context) {
                return Poll::Pending;
            }
            let asked = match self.waiting.take() {
                Some(mut waiting) => match Pin::new(&mut waiting.told).poll(context) {
                    Poll::Pending if self.is_patient(&waiting, context) => {
                        self.waiting = Some(waiting);
                        return Poll::Pending;
                    }
                    Poll::Pending => {
                        self.pulse.resume();
                        self.patience = None;
                        let since = waiting.since;
                        let turn = self.desk.pass_by(waiting);
                        self.desk.take_turn(turn, &self.file, self.wish(), since, self.misses)?
                    }
                    Poll::Ready(told) => {
                        self.pulse.resume();
                        self.patience = None;
                        // The desk drops a sender that it has not told only when it begins anew.
                        let told = told.map_err(|_| io::Error::from(io::ErrorKind::ResourceBusy))?;
                        match self.heed(told, waiting)? {
                            Some(asked) => asked,
                            None => continue,
                        }
                    }
                },
                None if self.at < self.asked_until => {
                    let is_known = self.known_since.is_some_and(|since| since.elapsed() < KNOWN_TIME);
                    let told = (is_known, self.noted_until);
                    self.desk.look_on(&self.file, self.wish(), (self.since, self.misses), told)?
                }
                None => match self.turn.take() {
                    Some(turn) => {
                        self.desk.take_turn(turn, &self.file, self.wish(), self.desk.now(), self.misses)?
                    }
                    None => self.desk.ask(&self.file, self.wish())?,
                },
            };
            match asked {
                Asked::Bytes { bytes, .. } if bytes.is_empty() => return Poll::Ready(Err(cut())),
                Asked::Bytes { bytes, noted } => {
                    self.noted_until = noted;
                    let end = self.wish().end;
                    if self.at >= self.asked_until && self.at + (bytes.len() as u64) < end {
                        self.known_since = Some(Instant::now());
                    }
                    self.asked_until = end;
                    return Poll::Ready(self.pass(bytes).map(Some));
                }
                Asked::Wait(waiting) => {
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

    /// Whether its connection may get one more piece (P1). Its client makes it wait if not: that is
    /// no waiting for us.
    fn has_room(&mut self, context: &mut Context<'_>) -> bool {
        while !self.desk.buffers.has_room(1) && !self.pulse.pieces.are_few(context) {
            let pause = self.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(ROOM_TIME)));
            if pause.as_mut().poll(context).is_pending() {
                return false;
            }
            self.pause = None;
        }
        self.pause = None;
        true
    }

    /// Whether it goes on waiting.
    fn is_patient(&mut self, waiting: &Waiting, context: &mut Context<'_>) -> bool {
        let Some(patience) = waiting.patience else { return true };
        let sleep = self.patience.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        sleep.as_mut().poll(context).is_pending()
    }

    /// Does as told. What must be polled again is returned.
    fn heed(&mut self, told: Told, waiting: Waiting) -> io::Result<Option<Asked>> {
        match told {
            Told::Turn(turn) => {
                let asked = self.desk.take_turn(turn, &self.file, self.wish(), waiting.since, self.misses)?;
                return Ok(Some(asked));
            }
            Told::Bytes(start, chunks) => {
                self.take(start, &chunks);
                if self.ready.is_empty() {
                    return Err(cut());
                }
                self.asked_until = self.wish().end;
            }
            Told::Look => self.asked_until = self.wish().end,
            Told::Failed(kind) => return Err(kind.into()),
        }
        Ok(None)
    }

    /// Takes its own part of what was read for several.
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

    /// Whoever writes leaves a stamp before the first byte, so bytes are of the version that was
    /// opened if its stamps are still there after they were read.
    fn pass(&mut self, bytes: Bytes) -> io::Result<Bytes> {
        if self.file.is_mixed()? {
            return Err(io::Error::new(CHANGED, "the file changed while it was served"));
        }
        self.at += bytes.len() as u64;
        (self.since, self.misses) = (None, 0);
        Ok(pieces::counted(bytes, &self.pulse))
    }

    /// What is left of the span in the window where it stands.
    fn wish(&self) -> Wish {
        Wish::first(self.number, self.at, self.end)
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
