//! Reading through the cache.
//!
//! The lock over the frames is the only one here. It is never held while bytes are copied or an
//! origin is asked. A thread that works on a buffer outside the lock is counted as its user, so
//! that the block may be replaced meanwhile while the bytes stay as they are for that thread (M2).

use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use pantler_steward::placement::Passing;
use pantler_steward::scheduling::BATCH_SHARE;
use pantler_steward::{Access, Block, FileId, Frame, Notice, OwnerId, Steward};

use crate::frames::{Frames, Missing, Slot, State};
use crate::lending::Lending;
use crate::lower::{Attached, Below};
use crate::memory::{Buffers, Slab};
use crate::options::{LENT_METADATA_BYTES, LENT_START_BYTES};
use crate::pages::{Cut, Pages};
use crate::request::Request;
use crate::scheduler::Scheduler;
use crate::{CacheError, Options};

mod fetch;
mod holes;
mod lend;
mod prefetch;
mod tiers;
mod write;

/// What went to and from the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Reads of the origin.
    pub fetches: u64,
    /// Bytes they brought.
    pub fetched_bytes: u64,
    /// Reads of the origin that failed.
    pub failed: u64,
    /// Blocks invalidated because they changed.
    pub voided: u64,
}

/// What readers and prefetches are doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Activity {
    /// Readers that sleep until something arrives.
    pub sleepers: u32,
    /// Reads of the origin that were begun: prefetches, and blocks that a reader waits for.
    pub on_their_way: u32,
    /// Prefetches that may begin now, whatever else is in flight.
    pub due: u32,
    /// Blocks to prefetch that are not begun.
    pub waiting: u32,
}

/// Blocks in memory. See the [crate] for an example.
pub struct Cache {
    slab: Slab,
    cut: Cut,
    frames: Mutex<Frames>,
    changed: Condvar,
    /// Rung when there is something to prefetch, or no more.
    prefetches: Condvar,
    /// Lower tiers, nearest first.
    attached: Arc<[Attached]>,
    capacity: u32,
    fetches: AtomicU64,
    fetched_bytes: AtomicU64,
    failed: AtomicU64,
    voided: AtomicU64,
}

/// How long a reader sleeps before it looks whether a spare buffer is idle: that is not announced.
const SPARE_WAIT: Duration = Duration::from_millis(1);
/// Blocks that [`Cache::held`] looks for under one lock.
const HELD_BATCH: u64 = 1024;

impl Cache {
    /// An empty cache.
    ///
    /// # Errors
    /// [`CacheError`] when sizes make no sense or memory is short.
    pub fn new(options: Options) -> Result<Self, CacheError> {
        Self::with_tiers(options, Vec::new())
    }

    /// An empty cache over lower tiers, nearest first. Each needs [a thread that serves
    /// it](Self::serve_tier).
    ///
    /// # Errors
    /// [`CacheError`] when sizes make no sense or memory is short.
    pub fn with_tiers(options: Options, tiers: Vec<Arc<dyn pantler_tier::Tier>>) -> Result<Self, CacheError> {
        let capacity = options.frames()?;
        Self::build(options, capacity, tiers, |_, _| None)
    }

    /// An empty cache that lends what it reads [for the kernel](Request::kernel): the bytes are in
    /// the kernel's page cache then, and not here as well. `take_back` has the kernel drop
    /// bytes of the inode of that number, soon: it is called under the lock of the frames and must
    /// not call back, nor wait.
    ///
    /// # Errors
    /// [`CacheError`] when sizes make no sense or memory is short.
    pub fn lending(
        options: Options,
        take_back: impl Fn(u64, Range<u64>) + Send + 'static,
    ) -> Result<Self, CacheError> {
        let capacity = options.frames_with(LENT_METADATA_BYTES)?;
        let lending = |cut, frames| Some(Lending::new(cut, frames, Box::new(take_back)));
        Self::build(options, capacity, Vec::new(), lending)
    }

    fn build(
        options: Options,
        capacity: u32,
        tiers: Vec<Arc<dyn pantler_tier::Tier>>,
        lending: impl FnOnce(Cut, u32) -> Option<Lending>,
    ) -> Result<Self, CacheError> {
        let attached: Arc<[Attached]> = tiers.into_iter().map(Attached::new).collect();
        let waiting = if attached.is_empty() { 0 } else { options.demotions as usize + attached.len() };
        let spare = options.spare.max(1) as usize + waiting;
        let (slab, cut) = addresses(&options, capacity, spare, attached.is_empty())?;
        let lending = lending(cut, capacity);
        let decides = pantler_steward::Options {
            allocation: options.allocation,
            common_policy: options.policy,
            revocation: options.revocation,
            seed: options.seed,
            log: options.log,
            prefetching: options.prefetching(lending.is_some()),
            lookahead: options.lookahead,
            window: options.window,
            block_pages: cut.block_pages(),
            start_pages: lending.as_ref().map_or(0, |_| cut.pages_of_file(0..LENT_START_BYTES).end as u32),
            ..pantler_steward::Options::new(capacity * cut.block_pages())
        };
        let below = (!attached.is_empty()).then(|| {
            let buffers = (options.demotions as usize / attached.len()).max(1);
            Below::new(Arc::clone(&attached), options.block_bytes, buffers)
        });
        let steward = match &below {
            None => Steward::new(decides),
            Some(below) => {
                // One at least: what is read passes a frame.
                let passing = options.passing.map_or(Passing::Share, |frames| Passing::Frames(frames.max(1)));
                below.steward(decides, passing)
            }
        };
        let steward = steward.map_err(CacheError::Steward)?;
        let base = steward.capacity() / cut.block_pages();
        let pages_max = (capacity as usize + spare) as u64 * u64::from(cut.block_pages());
        // What lower tiers have is not where the origin's positions say.
        let batch_max = if attached.is_empty() { base / BATCH_SHARE } else { 0 };
        let mut frames = Frames::new(
            steward,
            Buffers::new(cut, pages_max),
            Scheduler::new(options.order, options.prefetchers, batch_max),
            below,
            lending,
        );
        frames.release(&slab);
        Ok(Self {
            slab,
            cut,
            frames: Mutex::new(frames),
            changed: Condvar::new(),
            prefetches: Condvar::new(),
            attached,
            capacity: base,
            fetches: AtomicU64::new(0),
            fetched_bytes: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            voided: AtomicU64::new(0),
        })
    }

    /// Size of a block in bytes.
    pub fn block_bytes(&self) -> usize {
        self.slab.block_bytes()
    }

    /// Blocks that are kept; over lower tiers, without the frames of those that only pass. Known
    /// without the lock, so that it can be told whatever happened to what the lock guards.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// What went to and from the origin so far.
    pub fn traffic(&self) -> Traffic {
        Traffic {
            fetches: self.fetches.load(Ordering::Relaxed),
            fetched_bytes: self.fetched_bytes.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            voided: self.voided.load(Ordering::Relaxed),
        }
    }

    /// Talks to the steward: hints, owners that end, questions. What it decides is carried out
    /// before this returns.
    pub fn with_steward<R>(&self, talk: impl FnOnce(&mut Steward) -> R) -> R {
        let mut frames = self.lock();
        let result = talk(frames.steward_mut());
        self.obey(&mut frames, None);
        self.wake(&frames);
        result
    }

    /// From now on `bell` is called whenever there are notices to [take](Self::take_notices). It is
    /// called under the lock of the frames: it must not call back, nor wait.
    pub fn ring_for_notices(&self, bell: impl Fn() + Send + 'static) {
        self.lock().notices_mut().ring(bell);
    }

    /// Notices for owners since the last call, oldest first; at most a bounded number is kept.
    pub fn take_notices(&self) -> Vec<(OwnerId, Notice)> {
        self.lock().notices_mut().take()
    }

    /// Hands the requested bytes to `use_bytes`: all of them, or as many as there are before the
    /// end of the file. Bytes of one block come straight from there, and those of blocks with
    /// neighbouring buffers, as a file that was read in order has; others are gathered first.
    ///
    /// # Errors
    /// What the origin said, when not even the first byte could be had. Nothing of a failed fetch
    /// stays.
    pub fn read<R>(&self, request: &Request<'_>, use_bytes: impl FnOnce(&[u8]) -> R) -> io::Result<R> {
        let length = request.length.min(request.size.saturating_sub(request.offset) as usize);
        if length == 0 {
            return Ok(use_bytes(&[]));
        }
        if let Some(reading) = self.read_in_place(request, length)? {
            self.hand_over(request, reading.bytes().len());
            return Ok(use_bytes(reading.bytes()));
        }
        thread_local! {
            static GATHERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        GATHERED.with_borrow_mut(|gathered| {
            if gathered.len() < length {
                gathered.resize(length, 0);
            }
            let done = self.gather(request, &mut gathered[..length])?;
            self.hand_over(request, done);
            Ok(use_bytes(&gathered[..done]))
        })
    }

    /// How many of a file's bytes are here from `start` on, before `end` or the first gap: what can
    /// be read without waiting. Asking is no reference. What is here may leave before
    /// it is read.
    pub fn held(&self, file: FileId, start: u64, end: u64) -> u64 {
        self.known(file, start, end, |_, _| Pages::NONE)
    }

    /// As [`held`](Self::held), with what is lent to the kernel.
    pub fn cached(&self, file: FileId, start: u64, end: u64) -> u64 {
        self.known(file, start, end, Frames::lent)
    }

    fn known(&self, file: FileId, start: u64, end: u64, lent: impl Fn(&Frames, Frame) -> Pages) -> u64 {
        let block_bytes = self.block_bytes() as u64;
        let mut at = start;
        while at < end {
            // Not under one lock for all of a large file.
            let frames = self.lock();
            let last = (at / block_bytes + HELD_BATCH).min(end.div_ceil(block_bytes));
            for index in at / block_bytes..last {
                let (begin, until) = (index * block_bytes, ((index + 1) * block_bytes).min(end));
                let Some((frame, slot)) = frames.find(Block::new(file, index)) else { return at - start };
                if slot.state != State::Ready {
                    return at - start;
                }
                let asked = self.cut.touched((at - begin) as usize..(until - begin) as usize);
                let gap = (slot.lacks(asked, self.cut) & !lent(&frames, frame)).first_run();
                let gap = gap.map_or(slot.valid as usize, |gap| self.cut.bytes(&gap).start) as u64;
                if begin + gap < until {
                    return (begin + gap).max(at) - start;
                }
                at = until;
            }
        }
        at - start
    }

    /// Recomputes every invariant, and panics with the number of one that fails. For tests.
    pub fn validate(&self) {
        self.lock().validate(&self.slab);
    }

    /// The bytes where they are, when one block holds them all, or several in adjoining buffers.
    fn read_in_place(&self, request: &Request<'_>, length: usize) -> io::Result<Option<Reading<'_>>> {
        let (block, start) = self.cut.locate(request.file, request.offset);
        let count = (start + length).div_ceil(self.block_bytes()) as u64;
        let mut frames = self.lock();
        if count == 1 {
            let referenced = self.reference(frames, request, block, 1)?;
            return Ok(Some(referenced.first.narrow(start, length)));
        }
        let Some(slot) = self.adjoining(&frames, request, block, count) else { return Ok(None) };
        let first = slot.buffer - (count as u32 - 1);
        // Before the references: what they decide may make one of these very blocks leave.
        (first..=slot.buffer).for_each(|buffer| self.slab.enter(buffer));
        for index in block.index..block.index + count {
            let block = Block::new(request.file, index);
            // A fetch because of the one before may have replaced this one; its bytes are
            // in use, and stay.
            let mut is_here = frames.steward().lookup(block).is_some();
            if is_here {
                let access = self.access(&mut frames, request, block, None);
                assert!(!matches!(access, Some((Access::Miss(_), _))), "F1: a cached block is no miss");
                is_here = access.is_some();
            }
            if let (false, Some(inode)) = (is_here, request.kernel) {
                frames.refuse(block, self.cut.pages_in(block, &self.asked(request).0), inode);
            }
        }
        let end = (count as usize - 1) * self.block_bytes() + slot.valid as usize;
        let reading = Reading { slab: &self.slab, buffer: first, count: count as u32, start: 0, end };
        Ok(Some(reading.narrow(start, length)))
    }

    /// The last of `count` blocks from `block` on, if all are ready, full but for the last, and in
    /// adjoining buffers.
    fn adjoining(&self, frames: &Frames, request: &Request<'_>, block: Block, count: u64) -> Option<Slot> {
        let mut before: Option<Slot> = None;
        for index in block.index..block.index + count {
            let block = Block { index, ..block };
            let (_, slot) = frames.find(block)?;
            let follows = before.is_none_or(|before| {
                before.buffer + 1 == slot.buffer && before.valid as usize == self.block_bytes()
            });
            let is_here = slot.state == State::Ready && !self.is_outgrown(slot, request, block);
            if !is_here || !follows || self.lacks(slot, request, block) {
                return None;
            }
            before = Some(slot);
        }
        before
    }

    /// Copies the bytes block by block. Holds no buffer while it waits, so spare buffers come back
    /// soon.
    fn gather(&self, request: &Request<'_>, into: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < into.len() {
            let (block, mut start) = self.cut.locate(request.file, request.offset + done as u64);
            let last = self.cut.locate(request.file, request.offset + into.len() as u64 - 1).0.index;
            let run = (last - block.index + 1) as usize;
            let referenced = match self.reference(self.lock(), request, block, run) {
                Ok(referenced) => referenced,
                Err(_) if done > 0 => return Ok(done),
                Err(error) => return Err(error),
            };
            for reading in std::iter::once(referenced.first).chain(referenced.rest) {
                let reading = reading.narrow(start, into.len() - done);
                let bytes = reading.bytes();
                into[done..done + bytes.len()].copy_from_slice(bytes);
                done += bytes.len();
                if start + bytes.len() < self.block_bytes() && done < into.len() {
                    return Ok(done);
                }
                start = 0;
            }
        }
        Ok(done)
    }

    /// Whether bytes of the block that are asked for, and that there are, are not here.
    fn lacks(&self, slot: Slot, request: &Request<'_>, block: Block) -> bool {
        !slot.lacks(self.cut.pages_in(block, &self.asked(request).0), self.cut).is_empty()
    }

    /// Whether bytes are asked for that, to the reader that brought the block, were behind the end
    /// of the file (F5).
    fn is_outgrown(&self, slot: Slot, request: &Request<'_>, block: Block) -> bool {
        let end = request.offset.saturating_add(request.length as u64).min(request.size);
        slot.valid < self.cut.extent(block, end)
    }

    /// References a block and waits until its bytes are here. A miss fetches up to `run` missing
    /// blocks with it, and references them.
    fn reference<'a>(
        &'a self,
        mut frames: MutexGuard<'a, Frames>,
        request: &Request<'_>,
        block: Block,
        run: usize,
    ) -> io::Result<Referenced<'a>> {
        loop {
            let Some((access, part)) = self.access(&mut frames, request, block, Some(run)) else {
                continue;
            };
            match access {
                // Queued, and now a reader waits for it: not its turn decides, but the reader,
                // unless it goes with a batch.
                Access::Arriving(frame) if frames.take_needed(frame, request.owner) => {
                    self.demand(&mut frames, request.owner, block, frame, run);
                    // It was to come as a whole.
                    let first = self.missing(request, block, frame, self.cut.all());
                    if let Some(referenced) = self.fetch_run(frames, request, first, run)? {
                        return Ok(referenced);
                    }
                    frames = self.lock();
                }
                Access::Hit(frame) | Access::Arriving(frame) => {
                    let slot;
                    (frames, slot) = self.await_ready(frames, frame);
                    match slot {
                        Some(slot) if self.is_outgrown(slot, request, block) => {
                            frames.discard(block, &self.slab);
                            self.wake(&frames);
                        }
                        Some(slot) if !self.lacks(slot, request, block) => {
                            return Ok(self.reading(slot).into());
                        }
                        Some(slot) => {
                            // Some of its pages are here, and others are asked for.
                            let asked = self.cut.pages_in(block, &self.asked(request).0);
                            let more = Missing {
                                slot,
                                extent: slot.valid,
                                is_new: false,
                                ..self.missing(request, block, frame, part | asked)
                            };
                            if let Some(reading) = self.fetch_more(frames, request, more)? {
                                return Ok(reading.into());
                            }
                            frames = self.lock();
                        }
                        None => {}
                    }
                }
                Access::Miss(frame) => {
                    let first = self.missing(request, block, frame, part);
                    if let Some(referenced) = self.fetch_run(frames, request, first, run)? {
                        return Ok(referenced);
                    }
                    frames = self.lock();
                }
                Access::Full => frames = self.sleep(frames),
            }
        }
    }

    /// One reference. The steward decides, and what it decided is carried out. A miss is demanded
    /// with up to `run` blocks, if the caller is going to [fetch](Self::fetch_run) it by itself.
    /// Gives also the pages to fetch where they are missing. `None` when what was fetched because
    /// of the reference replaced its block.
    fn access(
        &self,
        frames: &mut Frames,
        request: &Request<'_>,
        block: Block,
        run: Option<usize>,
    ) -> Option<(Access, Pages)> {
        frames.tell_steward(Below::tell);
        let (pages, end) = self.asked(request);
        let (access, part) = frames.steward_mut().access_part(request.owner, block, &pages, end);
        let found = match access {
            Access::Hit(frame) | Access::Arriving(frame) => Some((frame, frames.slot(frame).ticket)),
            Access::Miss(_) | Access::Full => None,
        };
        if let (Access::Miss(frame), Some(run)) = (access, run) {
            // Before what is fetched because of it.
            frames.obey(&self.slab);
            self.demand(frames, request.owner, block, frame, run);
        }
        self.obey(frames, Some(request));
        // A miss brings its block first.
        if !matches!(access, Access::Miss(_)) {
            frames.release(&self.slab);
        }
        let has_left = found.is_some_and(|(frame, ticket)| frames.slot(frame).ticket != ticket);
        if let (Access::Hit(frame) | Access::Arriving(frame) | Access::Miss(frame), Some(inode), false) =
            (access, request.kernel, has_left)
        {
            frames.lend(block, frame, self.cut.pages_in(block, &pages), inode);
        }
        (!has_left).then(|| (access, self.cut.pages_in(block, &part)))
    }

    /// Waits for a frame that is being filled. `None` when its content was invalidated instead.
    fn await_ready<'a>(
        &'a self,
        mut frames: MutexGuard<'a, Frames>,
        frame: Frame,
    ) -> (MutexGuard<'a, Frames>, Option<Slot>) {
        let ticket = frames.slot(frame).ticket;
        loop {
            let slot = frames.slot(frame);
            if slot.ticket != ticket {
                return (frames, None);
            }
            if slot.state == State::Ready {
                return (frames, Some(slot));
            }
            frames = self.sleep(frames);
        }
    }

    /// Becomes a user of a ready slot's buffer. The lock is held.
    fn reading(&self, slot: Slot) -> Reading<'_> {
        assert!(slot.state == State::Ready, "F1: nothing to read");
        self.slab.enter(slot.buffer);
        Reading { slab: &self.slab, buffer: slot.buffer, count: 1, start: 0, end: slot.valid as usize }
    }

    /// The pages of its file that a request asks for, and how many the file has: there are none
    /// behind its end to look ahead to.
    fn asked(&self, request: &Request<'_>) -> (Range<u64>, u64) {
        let end = request.offset.saturating_add(request.length as u64).min(request.size);
        (self.cut.pages_of_file(request.offset..end), self.cut.pages_of_file(0..request.size).end)
    }

    /// Carries out what the steward decided, and queues what it wants beside what `request` waits
    /// for.
    #[inline]
    fn obey(&self, frames: &mut Frames, request: Option<&Request<'_>>) {
        frames.obey(&self.slab);
        if frames.wants() {
            match frames.queue_wanted(request, self.cut, &self.slab) {
                0 => {}
                1 => self.prefetches.notify_one(),
                _ => self.prefetches.notify_all(),
            }
        }
        frames.keep_lists();
    }

    /// Something has come to its end: what was held back may begin.
    fn notify_prefetchers(&self, frames: &Frames) {
        if frames.scheduler().waiting() > 0 {
            self.prefetches.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Frames> {
        // A panic under this lock means a broken invariant: nothing here can be trusted any more.
        self.frames.lock().expect("the frames are in order")
    }

    /// What is going on, all at the same moment.
    pub fn activity(&self) -> Activity {
        let frames = self.lock();
        let scheduler = frames.scheduler();
        Activity {
            sleepers: frames.sleepers(),
            on_their_way: scheduler.on_their_way(),
            due: scheduler.due(),
            waiting: scheduler.waiting() as u32,
        }
    }

    /// Whether something panicked under the lock.
    fn is_broken(&self) -> bool {
        self.frames.is_poisoned()
    }

    fn sleep<'a>(&self, mut frames: MutexGuard<'a, Frames>) -> MutexGuard<'a, Frames> {
        frames.sleeper_begins();
        let (mut frames, _) = self.changed.wait_timeout(frames, SPARE_WAIT).expect("the frames are in order");
        frames.sleeper_ends();
        frames
    }

    fn wake(&self, frames: &Frames) {
        if frames.sleepers() > 0 {
            self.changed.notify_all();
        }
    }
}

/// Addresses for the blocks, and how these are cut into pages. A block over lower tiers is one
/// page:
/// it goes up and down as a whole. So it is where the system gives no addresses without memory.
fn addresses(options: &Options, frames: u32, spare: usize, may_cut: bool) -> Result<(Slab, Cut), CacheError> {
    let pages = if may_cut { options.block_pages() } else { 1 };
    let slab = |pages: u32| Slab::new(frames as usize * pages as usize + spare, options.block_bytes);
    if pages > 1
        && let Ok(slab) = slab(pages)
    {
        slab.back_by_page();
        return Ok((slab, Cut::new(options.block_bytes, pages)));
    }
    Ok((slab(1).map_err(CacheError::Memory)?, Cut::new(options.block_bytes, 1)))
}

/// Bytes in a frame that stay as they are while this lives, even if the block is replaced.
struct Reading<'a> {
    slab: &'a Slab,
    /// The first of `count` adjoining buffers.
    buffer: u32,
    count: u32,
    start: usize,
    end: usize,
}

/// Blocks side by side that one request referenced. The blocks may have left their frames again:
/// reading them is no second reference.
struct Referenced<'a> {
    first: Reading<'a>,
    rest: std::vec::IntoIter<Reading<'a>>,
}

impl<'a> From<Reading<'a>> for Referenced<'a> {
    fn from(first: Reading<'a>) -> Self {
        Self { first, rest: Vec::new().into_iter() }
    }
}

impl Reading<'_> {
    fn narrow(mut self, start: usize, length: usize) -> Self {
        self.start = start.min(self.end);
        self.end = self.end.min(start.saturating_add(length)).max(self.start);
        self
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: this is a user of the buffers, which were ready when it became one; a buffer with
        // users is not written to (M1: writers wait for none, M2: it is not handed out again).
        unsafe { self.slab.bytes(self.buffer, self.count, self.start..self.end) }
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        (self.buffer..self.buffer + self.count).for_each(|buffer| self.slab.leave(buffer));
    }
}
