//! An inline origin: the server reads what it does not have, so that its clients need no access to
//! the bytes of files.
//!
//! ```text
//!   walker ---> index: stem -> path          what is there, as it is seen from here
//!                 |
//!   ask(key) --known?--> queue --> readers: path -> open file -> is this the version of the key?
//!                                     |        -> read -> is it still? -> envelope
//!   collect() <---- done (wakes the loop) <----+
//! ```
//!
//! A key is a hash, and names nothing by itself: it leads to a file only by an index that this
//! server made, by looking at every file below the origin. So no client can name a path.
//!
//! I1  What is answered under a key are bytes of the version that the key names: the open file has
//!     that version before its bytes are read, settled, and after. Everything else is an answer
//!     "not here".
//! I2  Files are found from the origin down, one component at a time, without following links.
//! I3  The loop waits for no file: it looks into the index, of which no thread holds more than a
//!     part's sweep or a few versions' notes at a time, and takes what readers brought.
//! I4  Of one block one read is under way, however many ask for it.
//! I5  Each request is answered: by [`InlineOptions::wait`] at the latest that it is not here.
//! I6  Bounds: [`QUEUE_MAX`] blocks that wait to be read, two for each reader that were read and
//!     wait for the loop, and the bytes of the index.
//!
//! Why so: docs/decisions/0046-inline-origin.md.

mod index;
mod reader;
mod walk;

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hashbrown::HashMap;
use pantler_origin::Origin;
use rustix::event::EventfdFlags;

use crate::{Key, Retrieve, Seal, Stems, TierError};
use index::Index;

/// Blocks that wait to be read; for more it is said that they are not here.
pub(super) const QUEUE_MAX: usize = 4096;
/// Most readers.
const READERS_MAX: usize = 256;
/// Sizes that blocks have on a mount.
const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 4096..=1 << 20;

/// What a server reads that it does not have.
#[derive(Clone)]
pub struct InlineOptions {
    /// Where files are.
    pub place: pantler_origin::Place,
    /// What clients call the origin, where they give it a name.
    pub name: Option<String>,
    /// How clients protect blocks: the server makes the same envelopes.
    pub seal: Seal,
    /// Blocks that are read at a time.
    pub readers: usize,
    /// How long an asker waits before it is told that the block is not here.
    pub wait: Duration,
}

impl InlineOptions {
    /// With a checksum, eight readers and a wait below what clients wait for a server.
    pub fn new(place: pantler_origin::Place) -> Self {
        Self { place, name: None, seal: Seal::Checksum, readers: 8, wait: Duration::from_millis(150) }
    }
}

impl std::fmt::Debug for InlineOptions {
    /// Without credentials of a store.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { place, name, seal, readers, wait } = self;
        let place = place.shown();
        write!(f, "InlineOptions({place:?}, {name:?}, {seal:?}, {readers} readers, {wait:?})")
    }
}

/// The request that asked for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asker {
    /// Number and id of the connection: numbers are used again.
    pub(super) number: usize,
    pub(super) id: u64,
    /// Which of its answers waits.
    pub(super) ticket: u64,
    pub(super) how: How,
}

/// What shall become of a block that is brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// The common command: it stays, as the youngest.
    Get,
    /// As for a block that is here: only what is kept here stays.
    Retrieve(Retrieve),
}

/// The end of a read, for one request.
pub(super) struct Brought {
    pub(super) asker: Asker,
    pub(super) key: Key,
    /// The envelope; nothing where the block is not here.
    pub(super) sealed: Option<Bytes>,
}

/// What happened so far.
#[derive(Default)]
pub(super) struct Counts {
    /// Blocks that were read, and their bytes.
    pub(super) reads: AtomicU64,
    pub(super) read_bytes: AtomicU64,
    /// Requests that shared a read with an earlier one.
    pub(super) joined: AtomicU64,
    /// Asked for in vain: of a version that is not there.
    pub(super) absent: AtomicU64,
    /// The origin failed.
    pub(super) failed: AtomicU64,
    /// Askers that were told "not here" because it took too long.
    pub(super) late: AtomicU64,
    /// Askers that found no room to wait.
    pub(super) refused: AtomicU64,
    /// Times that the origin was looked through.
    pub(super) walks: AtomicU64,
}

/// Until when a request waits for a block: later when another joins.
#[derive(Clone)]
struct Until(Arc<Mutex<Instant>>);

impl Until {
    fn new(at: Instant) -> Self {
        Self(Arc::new(Mutex::new(at)))
    }

    fn extend(&self, at: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = at;
    }

    fn is_over(&self) -> bool {
        Instant::now() > *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A block that is queued or being read.
struct Pending {
    askers: Vec<Asker>,
    until: Until,
}

/// What the loop, the readers and the walker share.
struct Hall {
    origin: Origin,
    stems: Stems,
    seal: Seal,
    index: RwLock<Index>,
    queue: Mutex<VecDeque<(Key, Until)>>,
    queued: Condvar,
    done: Mutex<Vec<(Key, Option<Bytes>)>>,
    done_max: usize,
    taken: Condvar,
    /// A version was asked for that is not known.
    renew: Mutex<bool>,
    renewed: Condvar,
    wake: OwnedFd,
    counts: Counts,
    stop: AtomicBool,
}

/// The loop's end of an inline origin. Its threads end when this is dropped, after what they are
/// about.
pub(super) struct Inline {
    hall: Arc<Hall>,
    pending: HashMap<Key, Pending, foldhash::quality::RandomState>,
    /// In order: all wait as long.
    deadlines: VecDeque<(Instant, Key, u64, u64)>,
    wait: Duration,
}

impl Inline {
    /// Opens the origin and begins to look through it. The index takes at most `index_bytes` bytes.
    pub(super) fn start(options: &InlineOptions, index_bytes: u64) -> Result<Self, TierError> {
        let InlineOptions { readers, wait, .. } = *options;
        if !(1..=READERS_MAX).contains(&readers) {
            return Err(TierError::Invalid(format!("{readers} readers: expected 1 to {READERS_MAX}")));
        }
        let shown = options.place.shown().to_string_lossy().into_owned();
        let fail = |reason: String| TierError::Remote { name: format!("origin {shown}"), reason };
        let origin = Origin::open(&options.place)?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = rustix::event::eventfd(0, flags).map_err(|error| fail(error.to_string()))?;
        let stems = Stems::new(&options.seal, options.name.clone(), origin.identity(), 0);
        let hall = Arc::new(Hall {
            stems,
            seal: options.seal.clone(),
            origin,
            index: RwLock::new(Index::new(index_bytes)),
            queue: Mutex::default(),
            queued: Condvar::new(),
            done: Mutex::default(),
            done_max: 2 * readers,
            taken: Condvar::new(),
            renew: Mutex::new(true),
            renewed: Condvar::new(),
            wake,
            counts: Counts::default(),
            stop: AtomicBool::new(false),
        });
        let inline =
            Self { hall: Arc::clone(&hall), pending: HashMap::default(), deadlines: VecDeque::new(), wait };
        let spawn = |name: &str, work: fn(&Hall)| {
            let hall = Arc::clone(&hall);
            let thread = std::thread::Builder::new().name(name.to_owned());
            thread.spawn(move || work(&hall)).map(drop).map_err(|error| fail(error.to_string()))
        };
        spawn("pantler-walk", walk::serve)?;
        (0..readers).try_for_each(|_| spawn("pantler-inline", reader::serve))?;
        Ok(inline)
    }

    /// Becomes readable when there is something to [collect](Self::collect).
    pub(super) fn wake(&self) -> &OwnedFd {
        &self.hall.wake
    }

    /// A request for a block that is not in memory. Says whether an answer will come; else it
    /// is not here.
    pub(super) fn ask(&mut self, key: Key, asker: Asker) -> bool {
        let hall = &*self.hall;
        let size = key.stem.block_bytes();
        let is_known = size.is_power_of_two()
            && BLOCK_BYTES.contains(&size)
            && hall.read_index().path(&key.stem.hash).is_some();
        if !is_known {
            hall.counts.absent.fetch_add(1, Ordering::Relaxed);
            hall.renew();
            return false;
        }
        let deadline = Instant::now() + self.wait;
        if let Some(pending) = self.pending.get_mut(&key) {
            // I4.
            hall.counts.joined.fetch_add(1, Ordering::Relaxed);
            pending.askers.push(asker);
            pending.until.extend(deadline);
        } else {
            let mut queue = hall.queue();
            if queue.len() >= QUEUE_MAX {
                hall.counts.refused.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            let until = Until::new(deadline);
            queue.push_back((key, until.clone()));
            hall.queued.notify_one();
            drop(queue);
            self.pending.insert(key, Pending { askers: vec![asker], until });
        }
        self.deadlines.push_back((deadline, key, asker.id, asker.ticket));
        true
    }

    /// What was brought, and which requests waited too long (I5).
    pub(super) fn collect(&mut self) -> Vec<Brought> {
        let mut all = Vec::new();
        // Nothing to read when it was a deadline that ended the wait.
        let _ = rustix::io::read(&self.hall.wake, &mut [0_u8; 8]);
        let done = std::mem::take(&mut *self.hall.done());
        self.hall.taken.notify_all();
        for (key, sealed) in done {
            for asker in self.pending.remove(&key).map(|pending| pending.askers).unwrap_or_default() {
                all.push(Brought { asker, key, sealed: sealed.clone() });
            }
        }
        let now = Instant::now();
        while let Some(&(deadline, key, id, ticket)) = self.deadlines.front() {
            if deadline > now {
                break;
            }
            self.deadlines.pop_front();
            let Some(Pending { askers, .. }) = self.pending.get_mut(&key) else { continue };
            let waits = |asker: &Asker| (asker.id, asker.ticket) == (id, ticket);
            if let Some(at) = askers.iter().position(waits) {
                // The read goes on; requests in the meantime share it.
                let asker = askers.swap_remove(at);
                self.hall.counts.late.fetch_add(1, Ordering::Relaxed);
                all.push(Brought { asker, key, sealed: None });
            }
        }
        all
    }

    /// When a request will have waited too long.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadlines.front().map(|(deadline, ..)| *deadline)
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.hall.counts
    }

    /// Versions of files that are known, and files that found no room.
    pub(super) fn files(&self) -> (u64, u64) {
        let index = self.hall.read_index();
        (index.len() as u64, index.left_out())
    }
}

impl Drop for Inline {
    fn drop(&mut self) {
        let hall = &*self.hall;
        hall.stop.store(true, Ordering::Release);
        // A thread that has just looked, and does not wait yet, holds the lock: without it nothing
        // would wake it.
        drop(hall.queue());
        hall.queued.notify_all();
        drop(hall.done());
        hall.taken.notify_all();
        drop(hall.renew.lock().unwrap_or_else(PoisonError::into_inner));
        hall.renewed.notify_all();
    }
}

impl Hall {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<(Key, Until)>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn done(&self) -> MutexGuard<'_, Vec<(Key, Option<Bytes>)>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_index(&self) -> std::sync::RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_index(&self) -> std::sync::RwLockWriteGuard<'_, Index> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The origin is to be looked through again, sooner or later.
    fn renew(&self) {
        let mut renew = self.renew.lock().unwrap_or_else(PoisonError::into_inner);
        if !*renew {
            *renew = true;
            self.renewed.notify_one();
        }
    }

    /// Hands a result to the loop; waits while too many wait for it (I6).
    fn hand_over(&self, key: Key, sealed: Option<Bytes>) {
        let mut done = self.done();
        while done.len() >= self.done_max && !self.stopped() {
            done = self.taken.wait(done).unwrap_or_else(PoisonError::into_inner);
        }
        done.push((key, sealed));
        drop(done);
        self.ring();
    }

    /// Wakes the loop.
    fn ring(&self) {
        // A counter that is full has woken the loop, too.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn failed(&self, what: &str, error: &io::Error) {
        if self.counts.failed.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(%error, "the origin failed {what}; the next failures are only counted");
        }
    }
}
