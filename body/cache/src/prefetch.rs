//! Blocks that the steward wants before a reader waits for them.
//!
//! ```text
//!   steward: fetch, why: list | lookahead
//!      |  the slot is queued, the frame pinned (L9)
//!      v
//!   scheduler --- run of neighbours ---> worker: one read of the origin ---> ready, unpinned
//!      ^                                     |
//!      '-- who needs a block that was        '-- failed: counted and forgotten; who needs the block asks again
//!          looked ahead takes it and reads       and meets the error
//!          it itself; who needs one of a
//!          list waits for its batch (Q6)
//! ```
//!
//! A worker treats bytes as a demand does: should a block be voided while they are on their way (a
//! write, a cut, another version), its ticket has changed, and they go nowhere (F3).
//!
//! A prefetch never waits for a buffer. Where no thread serves prefetches, what is wanted is given
//! up at once.
//!
//! Why so: docs/decisions/0044-fetching-ahead-on-a-mount.md, and
//! docs/decisions/0081-threads-read-ahead.md.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, MutexGuard};

use pantler_origin::{READ_BUFFERS_MAX, Source};
use pantler_steward::lists::{Chunk, ListStat};
use pantler_steward::scheduling::Order;
use pantler_steward::{Block, FileId, HintError, OwnerId, Why};

use crate::cache::{Cache, Request};
use crate::fetch::Missing;
use crate::frames::{Frames, State, Wanted};
use crate::pages::Pages;
use crate::scheduler::{Begun, Scheduler, Wish};

/// Where the blocks of a file on a list come from.
#[derive(Clone)]
pub struct Listed {
    /// The file's bytes, with the rights of the program that gave the list.
    pub source: Arc<dyn Source>,
    /// Where on its device the file begins, in bytes, if that is known: batches are sorted by it.
    pub position: Option<u64>,
}

/// One range of an access list.
#[derive(Clone)]
pub struct ListEntry {
    /// The blocks.
    pub chunk: Chunk,
    /// Where they come from.
    pub listed: Listed,
}

/// What happens to blocks before a reader waits for them. Behind the cache's one lock.
pub(crate) struct Prefetching {
    pub(crate) scheduler: Scheduler,
    /// By owner, as long as the steward has a list of it.
    sources: HashMap<OwnerId, Sources>,
    /// Threads that serve.
    workers: u32,
    pub(crate) stopping: bool,
}

impl Prefetching {
    pub(crate) fn new(order: Order, workers: u32, batch_max: u32) -> Self {
        let scheduler = Scheduler::new(order, workers, batch_max);
        Self { scheduler, sources: HashMap::new(), workers: 0, stopping: false }
    }

    /// Where the file of a block begins, if it is on a list and that is known.
    pub(crate) fn position(&self, block: Block) -> Option<u64> {
        self.sources.values().find_map(|sources| sources.files.get(&block.file)?.0.position)
    }
}

/// Blocks side by side that a worker brings, and where from.
pub(crate) struct Piece {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) missing: Vec<Missing>,
}

/// The files of one list.
///
/// K1  `files` has exactly the files of `order`, with the number of times each occurs there.
#[derive(Default)]
struct Sources {
    /// Files as they were listed; one that comes several times in a row once.
    order: VecDeque<FileId>,
    files: HashMap<FileId, (Listed, u32)>,
}

impl Sources {
    fn add(&mut self, entry: &ListEntry) {
        let file = entry.chunk.file;
        if self.order.back() == Some(&file) {
            return;
        }
        self.order.push_back(file);
        self.files.entry(file).or_insert_with(|| (entry.listed.clone(), 0)).1 += 1;
    }

    /// Forgets the files that are behind the cursor: all but the last `ranges`, because no more are
    /// ahead.
    fn trim(&mut self, ranges: u32) {
        while self.order.len() > ranges as usize {
            let Some(file) = self.order.pop_front() else { return };
            if let Some((_, count)) = self.files.get_mut(&file) {
                *count -= 1;
                if *count == 0 {
                    self.files.remove(&file);
                }
            }
        }
    }
}

impl Cache {
    /// `owner` will read these ranges in this order, and they are fetched as rules P1 to P6 say.
    /// Replaces its list.
    ///
    /// # Errors
    /// [`HintError`] past a bound or for a range that makes no sense. Nothing changes.
    pub fn give_list(&self, owner: OwnerId, entries: &[ListEntry]) -> Result<(), HintError> {
        let chunks: Vec<Chunk> = entries.iter().map(|entry| entry.chunk).collect();
        let mut frames = self.lock();
        frames.steward.give_list(owner, &chunks)?;
        frames.prefetching.sources.remove(&owner);
        self.listed(&mut frames, owner, entries);
        Ok(())
    }

    /// `owner` will read these ranges after those of its list.
    ///
    /// # Errors
    /// As [`give_list`](Self::give_list).
    pub fn extend_list(&self, owner: OwnerId, entries: &[ListEntry]) -> Result<(), HintError> {
        let chunks: Vec<Chunk> = entries.iter().map(|entry| entry.chunk).collect();
        let mut frames = self.lock();
        let ranges = frames.steward.list(owner).map_or(0, |list| list.ranges);
        frames.steward.extend_list(owner, &chunks)?;
        if let Some(sources) = frames.prefetching.sources.get_mut(&owner) {
            sources.trim(ranges);
        }
        self.listed(&mut frames, owner, entries);
        Ok(())
    }

    /// The list of `owner` ends here. What was fetched for it stays.
    pub fn end_list(&self, owner: OwnerId) {
        let mut frames = self.lock();
        frames.steward.end_list(owner);
        self.settle(&mut frames, None);
    }

    /// What is known of the list of `owner`.
    pub fn list(&self, owner: OwnerId) -> Option<ListStat> {
        self.lock().steward.list(owner)
    }

    fn listed(&self, frames: &mut Frames, owner: OwnerId, entries: &[ListEntry]) {
        let sources = frames.prefetching.sources.entry(owner).or_default();
        entries.iter().for_each(|entry| sources.add(entry));
        self.settle(frames, None);
    }

    /// Fetches what is wanted ahead, in this thread, until [told to stop](Self::stop_prefetches).
    /// As many threads as call this read at the same time.
    pub fn serve_prefetches(&self) {
        let mut frames = self.lock();
        frames.prefetching.workers += 1;
        while !frames.prefetching.stopping {
            frames = match frames.prefetching.scheduler.next() {
                Some(run) => {
                    if frames.prefetching.scheduler.holds_demands() {
                        self.wake(&frames);
                    }
                    self.bring(frames, run)
                }
                None => self.prefetches.wait(frames).expect("the frames are in order"),
            };
        }
        frames.prefetching.workers -= 1;
        if frames.prefetching.workers == 0 {
            // Queued blocks will not come now, and a queued block is pinned.
            for wish in frames.prefetching.scheduler.abandon() {
                self.give_up(&mut frames, wish.wanted);
            }
            self.wake(&frames);
        }
    }

    /// Threads that [serve prefetches](Self::serve_prefetches) now.
    pub fn prefetch_workers(&self) -> u32 {
        self.lock().prefetching.workers
    }

    /// Ends all threads that [serve prefetches](Self::serve_prefetches), once what they read has
    /// arrived, and runs that would begin.
    pub fn stop_prefetches(&self) {
        // Where the lock is broken they end by themselves.
        if !self.is_broken() {
            self.lock().prefetching.stopping = true;
        }
        self.prefetches.notify_all();
    }

    /// Carries out what the steward decided, and queues what it wants beside what `request` waits
    /// for.
    #[inline]
    pub(crate) fn settle(&self, frames: &mut Frames, request: Option<&Request<'_>>) {
        frames.settle(&self.slab);
        if !frames.wanted.is_empty() {
            self.hand_over(frames, request);
        }
        if frames.prefetching.sources.len() > frames.steward.lists() {
            let Frames { prefetching, steward, .. } = frames;
            prefetching.sources.retain(|&owner, _| steward.list(owner).is_some());
        }
    }

    fn hand_over(&self, frames: &mut Frames, request: Option<&Request<'_>>) {
        let mut count = 0;
        while let Some(wanted) = frames.wanted.pop_front() {
            if !is_queued(frames, &wanted) {
                continue;
            }
            if frames.prefetching.workers == 0 {
                self.give_up(frames, wanted);
                continue;
            }
            let found = match wanted.why {
                Why::List => self.wish_of_list(frames, wanted),
                _ => self.wish_ahead(wanted, request),
            };
            match found {
                Some(wish) => {
                    frames.prefetching.scheduler.submit(wish);
                    count += 1;
                }
                None => frames.fail(wanted.block, wanted.frame, &self.slab),
            }
        }
        match count {
            0 => {}
            1 => self.prefetches.notify_one(),
            _ => self.prefetches.notify_all(),
        }
    }

    fn wish_of_list(&self, frames: &Frames, wanted: Wanted) -> Option<Wish> {
        let owner = frames.steward.explain(wanted.block)?.owner?;
        let (listed, _) = frames.prefetching.sources.get(&owner)?.files.get(&wanted.block.file)?;
        // Where that is unknown, files keep together.
        let position = listed.position.map_or(0, |start| start.saturating_add(self.offset(wanted.block)));
        Some(Wish { wanted, owner, position, source: Arc::clone(&listed.source) })
    }

    /// `None` past the end of the file.
    fn wish_ahead(&self, wanted: Wanted, request: Option<&Request<'_>>) -> Option<Wish> {
        let request = request.filter(|request| request.file == wanted.block.file)?;
        let source = Arc::clone(request.source);
        let is_within = self.offset(wanted.block) < request.size;
        is_within.then_some(Wish { wanted, owner: request.owner, position: 0, source })
    }

    pub(crate) fn offset(&self, block: Block) -> u64 {
        block.index.saturating_mul(self.block_bytes() as u64)
    }

    /// A prefetch that will not be begun. It says nothing about its block.
    fn give_up(&self, frames: &mut Frames, wanted: Wanted) {
        if is_queued(frames, &wanted) {
            frames.discard(wanted.block, &self.slab);
        }
    }

    /// What of a run is still wanted, with buffers for it, in pieces that lie side by side.
    fn pieces(&self, frames: &mut Frames, run: &mut Begun) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        for Wish { wanted, source, .. } in std::mem::take(&mut run.wishes) {
            // Taken by a demand, or void.
            if !is_queued(frames, &wanted) {
                continue;
            }
            let Wanted { block, frame, .. } = wanted;
            frames.take_queued(frame);
            // How much of it there is, it says when it comes.
            let Some(slot) = frames.equip(frame, Pages::NONE, &self.slab) else {
                frames.discard(block, &self.slab);
                continue;
            };
            let extent = self.block_bytes() as u32;
            let missing = Missing { block, frame, slot, pages: self.cut.all(), extent };
            match pieces.last_mut().filter(|piece| continues(&piece.missing, block)) {
                Some(piece) => piece.missing.push(missing),
                None => pieces.push(Piece { source, missing: vec![missing] }),
            }
        }
        pieces
    }

    /// Reads a run, without the lock.
    fn bring<'a>(&'a self, mut frames: MutexGuard<'a, Frames>, mut run: Begun) -> MutexGuard<'a, Frames> {
        let pieces = self.pieces(&mut frames, &mut run);
        if pieces.is_empty() {
            self.ended(&mut frames, &run);
            self.encourage(&frames);
            self.wake(&frames);
            return frames;
        }
        drop(frames);
        let mut read = Vec::with_capacity(pieces.len());
        for near in pieces.chunk_by(|one, other| lies_near(&one.missing, &other.missing, run.hole_max)) {
            read.extend(self.bring_through(&*near[0].source, near));
        }
        let mut frames = self.lock();
        self.ended(&mut frames, &run);
        self.encourage(&frames);
        for (piece, bytes) in pieces.iter().zip(read) {
            self.arrived(&mut frames, &piece.missing, bytes);
        }
        self.settle(&mut frames, None);
        self.wake(&frames);
        frames
    }

    fn ended(&self, frames: &mut Frames, run: &Begun) {
        let batch = frames.prefetching.scheduler.batch();
        frames.prefetching.scheduler.completed(run);
        if frames.prefetching.scheduler.batch() != batch {
            // P7.
            let batch = frames.prefetching.scheduler.batch();
            frames.steward.set_batch(batch);
        }
    }

    /// Something has come to its end: what was held back may begin.
    pub(crate) fn encourage(&self, frames: &Frames) {
        if frames.prefetching.scheduler.waiting() > 0 {
            self.prefetches.notify_one();
        }
    }

    /// Time passes as `now_ns` says: nanoseconds from any start, never less than before. It is
    /// asked while the cache is locked.
    ///
    /// For a cache in virtual time: how much is asked of the origin at once follows how long that
    /// takes.
    pub fn set_clock(&self, now_ns: impl Fn() -> u64 + Send + Sync + 'static) {
        self.lock().prefetching.scheduler.set_clock(Arc::new(now_ns));
    }

    /// Runs that may be on their way besides those that readers wait for, and how long they took on
    /// average, in nanoseconds.
    pub fn pace(&self) -> (u32, u64) {
        self.lock().prefetching.scheduler.pace()
    }

    /// `bytes` of a piece have arrived; none of it when its read failed.
    pub(crate) fn arrived(&self, frames: &mut Frames, piece: &[Missing], bytes: usize) {
        for (position, one) in piece.iter().enumerate() {
            self.slab.leave(one.slot.buffer);
            let slot = frames.slot(one.frame);
            if slot.ticket != one.slot.ticket {
                continue;
            }
            let valid = bytes.saturating_sub(position * self.block_bytes()).min(self.block_bytes());
            if valid == 0 {
                frames.fail(one.block, one.frame, &self.slab);
                continue;
            }
            frames.publish(one.block, one.frame, self.cut.touched(0..valid), valid as u32, &self.slab);
            frames.steward.fetched(one.block);
        }
    }
}

fn is_queued(frames: &Frames, wanted: &Wanted) -> bool {
    let slot = frames.slot(wanted.frame);
    slot.ticket == wanted.ticket && slot.state == State::Queued
}

/// Whether the hole between two pieces is read through (Q7).
fn lies_near(one: &[Missing], other: &[Missing], hole_max: u64) -> bool {
    let (end, next) = (one[one.len() - 1].block, other[0].block);
    let hole = next.index.checked_sub(end.index.saturating_add(1));
    end.file == next.file && hole.is_some_and(|hole| (1..=hole_max).contains(&hole))
}

fn continues(piece: &[Missing], block: Block) -> bool {
    let last = piece.last().map(|last| last.block);
    piece.len() < READ_BUFFERS_MAX
        && last.is_some_and(|last| last.file == block.file && last.index + 1 == block.index)
}
