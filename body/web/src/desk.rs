//! The desk: where requests wait, and from where threads are sent to the disk.
//!
//! ```text
//!   answers --ask/look--> [ scheduler | belief ] <--next-- readers (as many as reads at a time)
//!      ^                        lock                           |
//!      +--------------- bytes, or "look again" ----------------+
//! ```
//!
//! One lock guards scheduler and belief. It is held for bookkeeping only: never while a file is
//! read, and nobody is told anything under it, because who is told may drop what it is told, and
//! that takes the lock.
//!
//! K1  Every ticket that waits has a waiter, until it is told or cancelled.
//!
//! Who panics under the lock may leave both half done. Whoever takes it next begins anew with empty
//! queues and a belief in nothing: those who waited are refused (503), those who had a turn give it
//! back to nobody, and the server goes on.

use bytes::Bytes;
use foldhash::HashMap;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

use crate::belief::{Belief, Piece};
use crate::buffers::{Buffers, CHUNK_BYTES};
use crate::metrics::Metrics;
use crate::opened::{Below, Opened};
use crate::options::{Keep, Options, Order};
use crate::path::Names;
use crate::range::Span;
use crate::root::{Found, Root};
use crate::scheduler::{self, Arrival, GroupId, Lengths, Scheduler, Ticket, WINDOW_BYTES, Wish, Work};
use crate::store::{Seen, Store};
use crate::{WebError, options};

#[cfg(test)]
mod tests;

/// Misses in a row after which somebody gets its bytes in hand, whatever the budget says.
const PATIENCE: u32 = 2;

/// How long a reader waits for a file that it wants to let go of.
const LET_GO_TIME: Duration = Duration::from_millis(20);

/// How often readers look at how much memory is used, at most.
const MEMORY_LOOK_TIME: Duration = Duration::from_secs(1);

/// What somebody who waited is told.
#[derive(Debug)]
pub enum Told {
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
pub struct Turn {
    desk: Option<Arc<Desk>>,
    /// Which queues gave it out.
    age: u64,
    /// Whether what is believed is taken for true until reading shows it.
    trusts: bool,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(desk) = self.desk.take() {
            desk.with(|inner, _| {
                if inner.age == self.age {
                    inner.scheduler.leave();
                }
            });
        }
    }
}

/// What becomes of who asks.
#[derive(Debug)]
pub enum Asked {
    /// Here are its first bytes.
    Bytes {
        /// The bytes.
        bytes: Bytes,
        /// One past the last byte of which is noted that it was asked for.
        noted: u64,
    },
    /// It waits.
    Wait(Waiting),
}

/// Somebody who waits. Dropping it cancels.
#[derive(Debug)]
pub struct Waiting {
    desk: Arc<Desk>,
    ticket: Ticket,
    /// Since when, on the desk's clock.
    pub since: Duration,
    /// How long somebody who is held back waits to be told: then it [goes on](Desk::pass_by).
    pub patience: Option<Duration>,
    /// Resolves when it is told; to an error when the queues began anew.
    pub told: oneshot::Receiver<Told>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.desk.cancel(self.ticket);
    }
}

/// Whether somebody has said already that all of a piece is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sure {
    /// Nobody.
    Not,
    /// The kernel.
    Told,
    /// A steward; or the kernel, against what was believed, and that is noted.
    Noted,
}

/// What came of a turn.
struct Look {
    /// The first bytes, if they were there, and whether they are as many as were looked for.
    bytes: Option<(Bytes, bool)>,
    /// Of which piece how many bytes were there, unless nobody can say.
    held: Option<(Wish, u64)>,
}

#[derive(Debug)]
struct Waiter {
    told: oneshot::Sender<Told>,
    file: Arc<Opened>,
    since: Duration,
    /// Whether the bytes must be handed over.
    must_have: bool,
}

/// A read that a reader is sent on.
#[derive(Debug)]
struct Errand {
    id: GroupId,
    wish: Wish,
    file: Arc<Opened>,
    is_warming: bool,
}

struct Inner {
    scheduler: Scheduler,
    belief: Belief,
    waiters: HashMap<Ticket, Waiter>,
    reads: VecDeque<Errand>,
    /// How often the queues began anew.
    age: u64,
    is_closing: bool,
}

impl Inner {
    /// Whether a part of a file that was to be let go of was read again, or is about to be: of what
    /// a reader has in hand, the belief knows only when it comes back.
    fn is_wanted(&self, part: &Piece) -> bool {
        let file = self.belief.known(&part.version);
        let wish = file.map(|file| Wish { file, start: part.start, end: part.end });
        self.belief.has_come_back(part) || wish.is_some_and(|wish| self.scheduler.is_wished_for(wish))
    }
}

/// See the head of this file.
pub struct Desk {
    inner: Mutex<Inner>,
    work: Condvar,
    start: Instant,
    order: Order,
    /// Whether the order goes by a model of the cache.
    has_model: bool,
    /// When somebody looked at memory, in milliseconds since the start.
    looked: AtomicU64,
    root: Arc<Root>,
    /// Where the bytes lie.
    pub store: Store,
    /// Memory on the way.
    pub buffers: Arc<Buffers>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Desk").field("order", &self.order).finish_non_exhaustive()
    }
}

/// What a read gave: from which byte on, and the bytes, unless they are in the cache only.
type Read = Result<(u64, Option<Arc<Vec<Bytes>>>), io::ErrorKind>;

/// What to say to whom, once the lock is free.
type Messages = Vec<(oneshot::Sender<Told>, Told)>;

impl Desk {
    /// A desk with its readers.
    ///
    /// # Errors
    /// Options that make no sense, and threads that do not start.
    pub fn open(
        options: &Options,
        root: Arc<Root>,
        metrics: Arc<Metrics>,
    ) -> Result<(Arc<Self>, Vec<JoinHandle<()>>), WebError> {
        let order = options.order;
        let has_model = matches!(order, Order::Mirror | Order::MirrorVerify)
            && options.store == options::StoreKind::Files
            // What a mount holds its steward says.
            && root.below() == Below::PageCache;
        let mut model = options.model;
        let keeps = match options.keep {
            // What a mount holds is its steward's business.
            Keep::Policy(policy) if order == Order::MirrorVerify && root.below() == Below::PageCache => {
                model.policy = policy;
                true
            }
            _ => false,
        };
        let belief = Belief::new(has_model.then_some(model), order == Order::MirrorVerify);
        let belief = belief.ok_or_else(|| {
            WebError::Options(format!("policy `{}` would have to know the future", model.policy))
        })?;
        let belief = if keeps { belief.keep() } else { belief };
        let in_order = order == Order::Fifo;
        let rules = scheduler::Options {
            in_order,
            merge: !in_order,
            reads_max: options.disk_reads.max(1),
            age_cap: options.age_cap,
            misses: options.misses,
            overtake: options.overtake,
        };
        let inner = Inner {
            scheduler: Scheduler::new(rules),
            belief,
            waiters: HashMap::default(),
            reads: VecDeque::new(),
            age: 0,
            is_closing: false,
        };
        let desk = Arc::new(Self {
            inner: Mutex::new(inner),
            work: Condvar::new(),
            start: Instant::now(),
            order,
            has_model,
            looked: AtomicU64::new(0),
            root,
            store: Store::new(options.store, options.threads + options.disk_reads)?,
            buffers: Buffers::new(options.buffer_bytes),
            metrics,
        });
        let readers = (0..options.disk_reads.max(1)).map(|number| {
            let desk = desk.clone();
            let name = format!("reader-{number}");
            std::thread::Builder::new().name(name).spawn(move || desk.read_on()).map_err(WebError::Start)
        });
        let readers = readers.collect::<Result<Vec<_>, _>>()?;
        Ok((desk, readers))
    }

    /// Somebody wishes for a span of a file: the number by which scheduler and model know its
    /// version, and a turn if the beginning of the span is believed cached, so that who is served
    /// first takes the lock once less.
    pub fn introduce(
        self: &Arc<Self>,
        file: &Opened,
        name: impl FnOnce() -> Vec<u8>,
        span: Span,
    ) -> (u64, Option<Turn>) {
        let mut inner = self.lock();
        let number = inner.belief.number(&file.version, name);
        if !self.has_model || span.length() == 0 || self.store.has_steward(file) {
            return (number, None);
        }
        let wish = Wish::first(number, span.start, span.end);
        let now = self.start.elapsed();
        let may_look = inner.belief.believes(wish)
            && inner.scheduler.lets_pass(now)
            && inner.scheduler.arrive(now, wish, true) == Arrival::Turn;
        (number, may_look.then(|| self.turn(&mut inner, wish)))
    }

    fn turn(self: &Arc<Self>, inner: &mut Inner, wish: Wish) -> Turn {
        let is_large = wish.length() > CHUNK_BYTES as u64;
        Turn { desk: Some(self.clone()), age: inner.age, trusts: is_large && inner.belief.trusts() }
    }

    /// How long the desk has been open: the time on its clock.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Somebody wishes for a piece of a file that it has not asked for before.
    ///
    /// # Errors
    /// The system's, from looking.
    pub fn ask(self: &Arc<Self>, file: &Arc<Opened>, wish: Wish) -> io::Result<Asked> {
        // The steward of our own cache knows, or of the mount below; so does the kernel, for a
        // price, where it tells us.
        let is_exact = self.order == Order::Truth || self.store.has_steward(file);
        let known = if is_exact && self.order != Order::Fifo { self.store.held(file, wish) } else { None };
        let now = self.start.elapsed();
        let mut inner = self.lock();
        // What a steward says need not be verified, and is not: it knows.
        let mut sure = match known {
            Some(_) if self.store.has_steward(file) => Sure::Noted,
            Some(_) => Sure::Told,
            None => Sure::Not,
        };
        let mut believed = match (self.order, known) {
            (Order::Fifo, _) => false,
            (_, Some(held)) => held == wish.length(),
            // Where nobody tells, looking is the only way to know.
            (Order::Truth, None) => true,
            (Order::Mirror | Order::MirrorVerify, None) => inner.belief.believes(wish),
        };
        let sees = inner.belief.sees(&file.version);
        if !believed && sees && self.verifies_absence(file) && !inner.scheduler.is_waited_for(wish) {
            // Where it lies in line for a read, it would be there no more when its turn comes. Of
            // what is being read, some is there for that reason.
            drop(inner);
            let held = self.store.held(file, wish);
            inner = self.lock();
            if let Some(held) = held {
                inner.belief.verified(wish, false, held);
                (believed, sure) = (held == wish.length(), Sure::Noted);
            }
        }
        match inner.scheduler.arrive(now, wish, believed) {
            Arrival::Turn => {
                let turn = self.turn(&mut inner, wish);
                drop(inner);
                self.take_sure_turn(turn, file, wish, now, (0, sure))
            }
            Arrival::Wait(ticket) => {
                let waiting = self.wait(&mut inner, ticket, file, now, false);
                self.finish(Vec::new(), inner);
                Ok(Asked::Wait(waiting))
            }
            Arrival::Held(ticket) => {
                self.metrics.held.fetch_add(1, Relaxed);
                let mut waiting = self.wait(&mut inner, ticket, file, now, false);
                waiting.patience = Some(inner.scheduler.options().age_cap / 2);
                self.finish(Vec::new(), inner);
                Ok(Asked::Wait(waiting))
            }
        }
    }

    /// Somebody whose turn it is looks for its bytes. `misses` counts how often it has looked in
    /// vain.
    ///
    /// # Errors
    /// The system's.
    pub fn take_turn(
        self: &Arc<Self>,
        turn: Turn,
        file: &Arc<Opened>,
        wish: Wish,
        since: Duration,
        misses: u32,
    ) -> io::Result<Asked> {
        self.take_sure_turn(turn, file, wish, since, (misses, Sure::Not))
    }

    /// The same for somebody who was told that all is there, or not.
    fn take_sure_turn(
        self: &Arc<Self>,
        mut turn: Turn,
        file: &Arc<Opened>,
        wish: Wish,
        since: Duration,
        (misses, sure): (u32, Sure),
    ) -> io::Result<Asked> {
        let Look { bytes: found, held } = self.verify_and_look(file, wish, sure != Sure::Not, turn.trusts)?;
        // From here on the turn is given back under the same lock as what came of it.
        turn.desk = None;
        let mut inner = self.lock();
        if inner.age != turn.age {
            // Nobody counts this turn any more.
            let (bytes, _) = found.ok_or(io::ErrorKind::ResourceBusy)?;
            return Ok(Asked::Bytes { bytes, noted: wish.start });
        }
        match held {
            Some((checked, held)) if self.order != Order::Fifo && sure != Sure::Noted => {
                inner.belief.verified(checked, true, held);
            }
            Some(_) => {}
            None => inner.belief.is_blind(file.version.device),
        }
        match found {
            Some((bytes, is_all)) => {
                // All of a wish is noted at once, as when it is read from the disk: in pieces it
                // would be 256 blocks to look at for every other request, and a lock for each
                // piece.
                let noted = if is_all { wish.end } else { wish.start + bytes.len() as u64 };
                inner.belief.read(Wish { end: noted, ..wish });
                inner.scheduler.leave();
                self.finish(Vec::new(), inner);
                Ok(Asked::Bytes { bytes, noted })
            }
            None => Ok(Asked::Wait(self.missed(inner, file, wish, since, misses))),
        }
    }

    /// Somebody who had the beginning of a piece, or was told to look, looks for more of it;
    /// `is_known`, if it was told just now that all is there. `noted` is what came with the
    /// beginning. Who has waited for these bytes since some time, and looked in vain so often, goes
    /// on waiting since then (Q3).
    ///
    /// # Errors
    /// The system's.
    pub fn look_on(
        self: &Arc<Self>,
        file: &Arc<Opened>,
        wish: Wish,
        (since, misses): (Option<Duration>, u32),
        (is_known, noted): (bool, u64),
    ) -> io::Result<Asked> {
        if let Seen::Bytes { bytes, .. } = self.store.look(file, wish, is_known, &self.buffers)? {
            let end = wish.start + bytes.len() as u64;
            if self.has_model && end > noted {
                self.lock().belief.read(Wish { end, ..wish });
            }
            return Ok(Asked::Bytes { bytes, noted: end.max(noted) });
        }
        if self.order == Order::Fifo {
            // What was there is gone: back to the end of the line.
            return self.ask(file, wish);
        }
        let now = self.start.elapsed();
        let mut inner = self.lock();
        if self.order == Order::MirrorVerify
            && inner.belief.sees(&file.version)
            && inner.belief.believes(wish)
        {
            // Nobody had asked whether it is there, or it has left since.
            inner.belief.verified(wish, true, 0);
        }
        Ok(Asked::Wait(self.missed(inner, file, wish, since.unwrap_or(now), misses)))
    }

    /// Somebody who was held back for too long, as when the disk hangs, takes its turn by itself.
    pub fn pass_by(self: &Arc<Self>, waiting: Waiting) -> Turn {
        // It cancels.
        drop(waiting);
        Turn { desk: Some(self.clone()), age: self.lock().age, trusts: false }
    }

    /// How many wait where, and since when the oldest waits.
    pub fn lengths(&self) -> (Lengths, Duration) {
        let inner = self.lock();
        let oldest = inner.scheduler.oldest().map_or(Duration::ZERO, |since| self.start.elapsed() - since);
        (inner.scheduler.lengths(), oldest)
    }

    /// Who says what is cached, for people: a model, the kernel, a steward, or nobody.
    pub fn who_knows(&self) -> &'static str {
        match self.order {
            Order::Fifo => "nobody",
            _ if self.root.below() == Below::Mount || self.store.is_own() => "steward",
            Order::Truth => "kernel",
            Order::Mirror | Order::MirrorVerify => "model",
        }
    }

    /// Whether what is said can turn out to be wrong.
    pub fn can_be_wrong(&self) -> bool {
        matches!(self.who_knows(), "model" | "kernel")
    }

    /// Asks what is believed.
    pub fn with_belief<R>(&self, ask: impl FnOnce(&Belief) -> R) -> R {
        ask(&self.lock().belief)
    }

    /// Sends the readers home once their reads have ended.
    pub fn close(&self) {
        self.lock().is_closing = true;
        self.work.notify_all();
    }

    /// Whether a belief that something is missing is verified when somebody asks for it. It costs a
    /// system call for each read of the disk.
    fn verifies_absence(&self, file: &Opened) -> bool {
        self.order == Order::MirrorVerify && !self.store.has_steward(file)
    }

    /// Looks for a piece.
    fn verify_and_look(
        &self,
        file: &Arc<Opened>,
        wish: Wish,
        is_known: bool,
        trusts: bool,
    ) -> io::Result<Look> {
        // A piece that is read at once is verified by reading it. Of a larger one all must be there
        // before its first byte goes out, or the request would hold its client up in the middle;
        // but where beliefs have long been right, asking for each megabyte costs more than that.
        let is_large = wish.length() > self.buffers.chunk_bytes() as u64;
        let asks = is_large && !is_known && self.order == Order::MirrorVerify && !trusts;
        let told = if asks { self.store.held(file, wish) } else { None };
        if let Some(held) = told
            && held < wish.length()
        {
            // Where reading cannot say what is there, what the kernel says means nothing: an
            // overlay has no pages of its own.
            let held = file.can_say(wish.start).then_some((wish, held));
            return Ok(Look { bytes: None, held });
        }
        Ok(match self.store.look(file, wish, is_known, &self.buffers)? {
            Seen::Bytes { bytes, is_all } => {
                let count = bytes.len() as u64;
                // Of a large piece nobody has asked about, only its beginning is known to be there.
                let asked_for_all = !is_large || is_known || told.is_some();
                let checked =
                    if is_all && !asked_for_all { Wish { end: wish.start + count, ..wish } } else { wish };
                let held = if is_all { checked.length() } else { count };
                Look { bytes: Some((bytes, is_all)), held: Some((checked, held)) }
            }
            // Having failed to read says nothing about the rest of a small piece, and by now the
            // kernel is reading it.
            Seen::Missing => Look { bytes: None, held: Some((wish, 0)) },
            Seen::Unknown => Look { bytes: None, held: None },
        })
    }

    fn missed(
        self: &Arc<Self>,
        mut inner: MutexGuard<'_, Inner>,
        file: &Arc<Opened>,
        wish: Wish,
        since: Duration,
        misses: u32,
    ) -> Waiting {
        let ticket = inner.scheduler.missed(since, wish);
        let waiting = self.wait(&mut inner, ticket, file, since, misses >= PATIENCE);
        self.finish(Vec::new(), inner);
        waiting
    }

    fn wait(
        self: &Arc<Self>,
        inner: &mut Inner,
        ticket: Ticket,
        file: &Arc<Opened>,
        since: Duration,
        must_have: bool,
    ) -> Waiting {
        let (sender, told) = oneshot::channel();
        inner.waiters.insert(ticket, Waiter { told: sender, file: file.clone(), since, must_have });
        Waiting { desk: self.clone(), ticket, since, patience: None, told }
    }

    fn cancel(self: &Arc<Self>, ticket: Ticket) {
        self.with(|inner, _| {
            // Who was told already waits no more (K1).
            if inner.waiters.remove(&ticket).is_some() {
                inner.scheduler.cancel(ticket);
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| self.begin_anew(poisoned.into_inner()))
    }

    /// Somebody panicked under the lock.
    fn begin_anew<'a>(&self, mut inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        self.inner.clear_poison();
        self.metrics.faults.fetch_add(1, Relaxed);
        tracing::error!("the queues were left half done and begin anew: whoever waits is refused");
        inner.age += 1;
        inner.scheduler.begin_anew();
        inner.belief.forget_all();
        inner.reads.clear();
        inner.waiters.clear();
        inner
    }

    fn with(self: &Arc<Self>, change: impl FnOnce(&mut Inner, &mut Messages)) {
        let mut messages = Vec::new();
        let mut inner = self.lock();
        change(&mut inner, &mut messages);
        self.finish(messages, inner);
    }

    /// Gives out what is next, unlocks, and tells whom it concerns. Should this panic, the lock
    /// goes before the messages: a turn among them takes it to be given back.
    fn finish(self: &Arc<Self>, mut messages: Messages, mut inner: MutexGuard<'_, Inner>) {
        let now = self.start.elapsed();
        while let Some(work) = inner.scheduler.next(now) {
            match work {
                Work::Turn(ticket) => {
                    let waiter = inner.waiters.remove(&ticket).expect("K1: who is in line has a waiter");
                    let turn = Turn { desk: Some(self.clone()), age: inner.age, trusts: false };
                    messages.push((waiter.told, Told::Turn(turn)));
                }
                Work::Read { id, wish, oldest, is_warming } => {
                    let waiter = inner.waiters.get(&oldest).expect("K1: who is in a group has a waiter");
                    let file = waiter.file.clone();
                    inner.reads.push_back(Errand { id, wish, file, is_warming });
                    self.work.notify_one();
                }
            }
        }
        drop(inner);
        for (told, message) in messages {
            // Who went away meanwhile drops what it is told.
            let _ = told.send(message);
        }
    }

    /// What a reader does until the desk is closed.
    fn read_on(self: &Arc<Self>) {
        while let Some(errand) = self.next_errand() {
            let id = errand.id;
            if catch_unwind(AssertUnwindSafe(|| self.run(errand))).is_err() {
                // It is a reader still, and those it went for need not wait for it.
                self.tell(id, &Err(io::ErrorKind::Other), |_| ());
            }
        }
    }

    /// One read, for all who wait for it.
    fn run(self: &Arc<Self>, errand: Errand) {
        let Errand { id, wish, file, is_warming } = errand;
        // Whether what was believed missing was there after all; what was believed there is known
        // to be missing, and what a steward said was true.
        let (sees, asks_who_brought) = {
            let inner = self.lock();
            (inner.belief.sees(&file.version), inner.belief.asks_who_brought(wish))
        };
        let is_known = is_warming || self.store.has_steward(&file) || !sees;
        let held = if is_known { None } else { self.store.held(&file, wish) };
        let around =
            Wish::first(wish.file, wish.start / WINDOW_BYTES * WINDOW_BYTES, file.size().max(wish.end));
        let brought = if is_known {
            None
        } else if asks_who_brought && around != wish {
            Some((around, self.store.held(&file, around)))
        } else {
            Some((wish, held))
        };
        let is_noted = self.verifies_absence(&file);
        let was_cached = held == Some(wish.length());
        let keep = self.must_keep(id) || self.buffers.has_room(wish.length());
        // Where nobody tells what is there, as to who neither owns the file nor may write it, the
        // read itself does.
        let watches = !is_known && held.is_none() && self.order != Order::Fifo;
        let start = Instant::now();
        let result = if watches {
            self.store.read_watching(&file, wish, keep, &self.buffers)
        } else {
            self.store.read(&file, wish, keep, &self.buffers).map(|chunks| (chunks, None))
        };
        let took = start.elapsed();
        let there = result.as_ref().map_or(None, |(_, there)| *there);
        self.metrics.read(wish.length(), took, was_cached || there == Some(wish.length()));
        let read = match result {
            Ok((chunks, _)) if keep => Ok(Some(Arc::new(chunks))),
            Ok(_) => Ok(None),
            Err(error) => Err(error.kind()),
        };
        let read = read.map(|chunks| (wish.start, chunks));
        let (mut drops, mut gives_up) = (Vec::new(), false);
        self.tell(id, &read, |inner| {
            if let Some(held) = held
                && self.order != Order::Fifo
                && !is_noted
            {
                inner.belief.verified(wish, false, held);
            }
            if let Some((wish, held)) = brought {
                inner.belief.brought(wish, held);
            }
            if let Some(there) = there {
                inner.belief.showed(wish, there);
                gives_up = inner.belief.is_told_nothing();
            }
            inner.belief.read(wish);
            drops = inner.belief.take_drops();
        });
        if gives_up {
            tracing::warn!(
                "the kernel tells this user nothing of what is cached of the files, so it decides alone what stays: run as their owner"
            );
        }
        for part in drops {
            // Somebody else may read it at this very moment: then it stays, or is known to have
            // left.
            if !self.lock().is_wanted(&part) {
                self.let_go(&part);
                self.lock().belief.forget_what_came_back(&part);
            }
        }
        self.look_at_memory();
    }

    /// Tells the belief how much memory is used, now and then: after what was given up has gone.
    fn look_at_memory(&self) {
        let (last, now) = (self.looked.load(Relaxed), self.start.elapsed().as_millis() as u64);
        let is_time = now.saturating_sub(last) >= MEMORY_LOOK_TIME.as_millis() as u64;
        if is_time
            && self.looked.compare_exchange(last, now, Relaxed, Relaxed).is_ok()
            && self.with_belief(Belief::asks_about_memory)
        {
            let groups = pantler_kernel::memory::groups();
            self.lock().belief.saw_memory(&groups);
        }
    }

    /// Notes a read that has ended, and tells those who waited for it.
    fn tell(self: &Arc<Self>, id: GroupId, read: &Read, note: impl FnOnce(&mut Inner)) {
        self.with(|inner, messages| {
            // Queues that began anew meanwhile know nothing of it.
            if !inner.scheduler.is_reading(id) {
                return;
            }
            note(inner);
            let now = self.start.elapsed();
            for ticket in inner.scheduler.done(id) {
                let waiter = inner.waiters.remove(&ticket).expect("K1: who is in a group has a waiter");
                self.metrics.waited(now - waiter.since);
                let message = match read {
                    Ok((start, Some(chunks))) => Told::Bytes(*start, chunks.clone()),
                    Ok((_, None)) => Told::Look,
                    Err(kind) => Told::Failed(*kind),
                };
                messages.push((waiter.told, message));
            }
        });
    }

    /// Lets go of a part of a file that is still the same. What cannot be let go of is left to the
    /// kernel.
    fn let_go(&self, part: &Piece) {
        let names = Names { joined: part.name.clone(), is_directory: false };
        if let Ok(Found::File(file)) = self.root.open_waiting(&names, LET_GO_TIME)
            && file.version == part.version
            && file.drop_cached(part.start, part.end).is_ok()
        {
            self.metrics.let_go(part.end - part.start);
        }
    }

    fn next_errand(&self) -> Option<Errand> {
        let mut inner = self.lock();
        loop {
            if let Some(errand) = inner.reads.pop_front() {
                return Some(errand);
            }
            if inner.is_closing {
                return None;
            }
            inner = self.work.wait(inner).unwrap_or_else(|poisoned| self.begin_anew(poisoned.into_inner()));
        }
    }

    /// Whether one of those who wait has looked in vain too often.
    fn must_keep(&self, id: GroupId) -> bool {
        let inner = self.lock();
        inner
            .scheduler
            .tickets(id)
            .any(|ticket| inner.waiters.get(&ticket).is_some_and(|waiter| waiter.must_have))
    }
}
