//! The desk: where requests wait for their turn or for a read, and where readers get their reads.
//!
//! ```text
//!   requests --ask/look--> [     queues     ] <--next-- readers (`disk_reads` threads)
//!      ^                         lock                      |
//!      +-------------- bytes, or "look again" -------------+
//! ```
//!
//! One lock guards the queues. It is held for bookkeeping only: never while a file is read,
//! and never while a request is notified, because a notified request may take the lock.
//!
//! A panic under the lock may leave all of it half done. The next thread that takes the lock resets
//! it: requests that wait are refused (503), turns that are out are not given back, and the server
//! goes on.

use bytes::Bytes;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

use crate::buffers::Buffers;
use crate::error::WebError;
use crate::knowledge::{Knower, Knowledge};
use crate::metrics::Metrics;
use crate::opened::{Below, Opened};
use crate::options::{Options, Order};
use crate::scheduler::{self, Arrival, GroupId, Scheduler, Ticket, Wish};

mod queues;
mod reader;
#[cfg(test)]
mod tests;

use queues::{Next, Queues, ReadTask, Waiter};

/// Misses in a row after which the reader hands over the bytes, whatever the buffers' budget says.
const MISSES_MAX: u32 = 2;

/// What a request that waited is told.
#[derive(Debug)]
pub(crate) enum Notice {
    /// Its turn has come.
    Turn(Turn),
    /// What was read, from this byte on. Short where the file ends.
    Bytes(u64, Arc<Vec<Bytes>>),
    /// It was read, and lies in the cache.
    Look,
    /// It could not be read.
    Failed(io::ErrorKind),
}

/// A turn that is out. It is given back when dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    desk: Option<Arc<Desk>>,
    /// Which queues gave it out.
    age: u64,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(desk) = self.desk.take() {
            let mut state = desk.lock();
            if state.queues.age() == self.age {
                state.queues.scheduler.leave();
            }
            desk.finish(Vec::new(), state);
        }
    }
}

/// What a request for bytes gets.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Its first bytes.
    Bytes(Bytes),
    /// It waits.
    Wait(Waiting),
}

/// A request that waits. Dropping it cancels.
#[derive(Debug)]
pub(crate) struct Waiting {
    desk: Arc<Desk>,
    ticket: Ticket,
    /// Since when, on the clock of the desk.
    pub(crate) since: Duration,
    /// Resolves when the request is notified; to an error when the queues were reset.
    pub(crate) notice: oneshot::Receiver<Notice>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.desk.lock();
        state.queues.cancel(self.ticket);
        self.desk.finish(Vec::new(), state);
    }
}

/// How long a request has waited for its next bytes (Q3).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waited {
    /// Since when, on the clock of the desk.
    pub(crate) since: Duration,
    /// Looks that found nothing.
    pub(crate) misses: u32,
}

/// What the lock guards.
#[derive(Debug)]
struct State {
    queues: Queues,
    is_closing: bool,
}

/// See the head of this file.
#[derive(derive_more::Debug)]
#[debug("Desk({knower:?})")]
pub(crate) struct Desk {
    state: Mutex<State>,
    /// Rings when there is a read for a reader, or the desk closes.
    work: Condvar,
    start: Instant,
    knower: Knower,
    /// Memory on the way.
    pub(crate) buffers: Arc<Buffers>,
    /// What is counted.
    pub(crate) metrics: Arc<Metrics>,
}

/// Requests to notify, and of what, once the lock is free.
type Messages = Vec<(oneshot::Sender<Notice>, Notice)>;

impl Desk {
    /// A desk with its readers.
    pub(crate) fn open(
        options: &Options,
        metrics: Arc<Metrics>,
    ) -> Result<(Arc<Self>, Vec<JoinHandle<()>>), WebError> {
        let reads_max = options.disk_reads.max(1);
        let scheduler =
            Scheduler::new(scheduler::Options { in_order: options.order == Order::Fifo, reads_max });
        let state = State { queues: Queues::new(scheduler), is_closing: false };
        let desk = Arc::new(Self {
            state: Mutex::new(state),
            work: Condvar::new(),
            start: Instant::now(),
            knower: Knower::new(options.order, metrics.asked.clone()),
            buffers: Buffers::new(options.buffer_bytes),
            metrics,
        });
        let readers = (0..reads_max).map(|number| {
            let (desk, name) = (desk.clone(), format!("reader-{number}"));
            let reader = std::thread::Builder::new().name(name).spawn(move || reader::run(&desk));
            reader.map_err(WebError::Start)
        });
        let readers = readers.collect::<Result<Vec<_>, _>>()?;
        Ok((desk, readers))
    }

    /// A request wishes for a piece for the first time.
    pub(crate) fn ask(self: &Arc<Self>, file: &Arc<Opened>, wish: Wish) -> io::Result<Reply> {
        let knowledge = self.knower.of(file);
        let mut state = self.lock();
        let mut is_cached = false;
        // Requests for a piece that is being read share its bytes. By now a part of it is cached,
        // and each request that looks for that would have a copy of its own.
        if !state.queues.scheduler.is_being_read(wish) {
            drop(state);
            is_cached = self.knower.is_cached(knowledge, file, wish);
            state = self.lock();
        }
        let now = self.start.elapsed();
        match state.queues.scheduler.arrive(now, wish, is_cached) {
            Arrival::Turn => {
                let turn = Turn { desk: Some(self.clone()), age: state.queues.age() };
                drop(state);
                // What a steward said is still true, so that it is not asked twice.
                let is_known = knowledge == Knowledge::Steward && is_cached;
                self.take_turn(turn, file, wish, Waited { since: now, misses: 0 }, is_known)
            }
            Arrival::Wait(ticket) => {
                Ok(Reply::Wait(self.wait(state, ticket, file, Waited { since: now, misses: 0 })))
            }
        }
    }

    /// A request that had the beginning of a piece, or was told to look, looks for more of it.
    /// `is_known` says that all of it was there just now. Without bytes it waits, since `waited`.
    pub(crate) fn look_on(
        self: &Arc<Self>,
        file: &Arc<Opened>,
        wish: Wish,
        waited: Option<Waited>,
        is_known: bool,
    ) -> io::Result<Reply> {
        if let Some(bytes) = self.look(file, wish, is_known)? {
            return Ok(Reply::Bytes(bytes));
        }
        if self.knower.of(file) == Knowledge::Nothing {
            // It has left the cache: back to the end of the line.
            return self.ask(file, wish);
        }
        let waited = waited.unwrap_or(Waited { since: self.start.elapsed(), misses: 0 });
        Ok(Reply::Wait(self.miss(self.lock(), file, wish, waited)))
    }

    /// The metrics, with what is so at this moment, as Prometheus reads them.
    pub(crate) fn metrics_text(&self) -> String {
        let state = self.lock();
        let scheduler = &state.queues.scheduler;
        let (lengths, oldest) = (scheduler.lengths(), scheduler.oldest());
        drop(state);
        let oldest = oldest.map_or(Duration::ZERO, |since| self.start.elapsed() - since);
        self.metrics.text(lengths, oldest, self.buffers.outstanding())
    }

    /// Ends the readers once their reads have ended.
    pub(crate) fn close(&self) {
        self.lock().is_closing = true;
        self.work.notify_all();
    }

    /// The beginning of a piece, if it is there. A mount is asked first, unless it said just now
    /// that it holds all (`is_known`): a read from it waits for the disk.
    fn look(&self, file: &Opened, wish: Wish, is_known: bool) -> io::Result<Option<Bytes>> {
        if file.below() == Below::Mount && !is_known && self.knower.ask(file, wish) != Some(true) {
            return Ok(None);
        }
        file.look(wish, &self.buffers)
    }

    /// A request that has a turn looks for its bytes. `is_known` says that all of them were there
    /// just now.
    pub(crate) fn take_turn(
        self: &Arc<Self>,
        mut turn: Turn,
        file: &Arc<Opened>,
        wish: Wish,
        waited: Waited,
        is_known: bool,
    ) -> io::Result<Reply> {
        let seen = self.look(file, wish, is_known)?;
        // From here on the turn is given back under the same lock as what came of it.
        turn.desk = None;
        let mut state = self.lock();
        let is_counted = state.queues.age() == turn.age;
        match seen {
            Some(bytes) if !is_counted => Ok(Reply::Bytes(bytes)),
            None if !is_counted => Err(io::ErrorKind::ResourceBusy.into()),
            Some(bytes) => {
                state.queues.scheduler.leave();
                self.finish(Vec::new(), state);
                Ok(Reply::Bytes(bytes))
            }
            None => Ok(Reply::Wait(self.miss(state, file, wish, waited))),
        }
    }

    /// A request found nothing, and waits until its piece was read.
    fn miss(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        file: &Arc<Opened>,
        wish: Wish,
        waited: Waited,
    ) -> Waiting {
        let ticket = state.queues.scheduler.missed(waited.since, wish);
        self.wait(state, ticket, file, waited)
    }

    fn wait(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        ticket: Ticket,
        file: &Arc<Opened>,
        waited: Waited,
    ) -> Waiting {
        let waiting = self.enqueue(&mut state, ticket, file, waited);
        self.finish(Vec::new(), state);
        waiting
    }

    fn enqueue(
        self: &Arc<Self>,
        state: &mut State,
        ticket: Ticket,
        file: &Arc<Opened>,
        Waited { since, misses }: Waited,
    ) -> Waiting {
        let (notify, notice) = oneshot::channel();
        let must_have = misses >= MISSES_MAX;
        state.queues.wait(ticket, Waiter { notify, file: file.clone(), since, must_have });
        Waiting { desk: self.clone(), ticket, since, notice }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| self.reset(poisoned.into_inner()))
    }

    /// A thread panicked under the lock.
    fn reset<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.state.clear_poison();
        self.metrics.faults.inc();
        tracing::error!("a fault under the lock: the queues are reset, and requests that wait get 503");
        state.queues.reset();
        state
    }

    /// Gives out what is next, unlocks, and notifies. Should this panic, the lock goes before the
    /// messages: a turn among them takes it to be given back.
    fn finish(self: &Arc<Self>, mut messages: Messages, mut state: MutexGuard<'_, State>) {
        while let Some(next) = state.queues.next() {
            match next {
                Next::Turn(notify) => {
                    let turn = Turn { desk: Some(self.clone()), age: state.queues.age() };
                    messages.push((notify, Notice::Turn(turn)));
                }
                Next::Read => self.work.notify_one(),
            }
        }
        drop(state);
        for (notify, notice) in messages {
            // A request that went away meanwhile drops its notice.
            let _ = notify.send(notice);
        }
    }

    /// A read has ended: notifies all requests that waited for it.
    fn end_read(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        id: GroupId,
        read: &Result<Notice, io::ErrorKind>,
    ) {
        let now = self.start.elapsed();
        let mut messages = Messages::new();
        for waiter in state.queues.done(id) {
            self.metrics.waited(now - waiter.since);
            let notice = match read {
                Ok(Notice::Bytes(start, chunks)) => Notice::Bytes(*start, chunks.clone()),
                Ok(_) => Notice::Look,
                Err(kind) => Notice::Failed(*kind),
            };
            messages.push((waiter.notify, notice));
        }
        self.finish(messages, state);
    }

    /// The next read; `None` when the desk is closed.
    fn next_read(&self) -> Option<ReadTask> {
        let mut state = self.lock();
        loop {
            if let Some(task) = state.queues.take_read() {
                return Some(task);
            }
            if state.is_closing {
                return None;
            }
            state = self.work.wait(state).unwrap_or_else(|poisoned| self.reset(poisoned.into_inner()));
        }
    }
}
