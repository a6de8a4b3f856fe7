//! Blocks that the steward wants before a reader waits for them.
//!
//! ```text
//!   steward: fetch, why: list | lookahead
//!      |  the slot is queued, the frame pinned (L9)
//!      v
//!   scheduler --- run of neighbours ---> worker: one read of the origin ---> ready, unpinned
//!      ^                                     |
//!      |                                     '-- failed: counted and forgotten; a reader of the
//!      |                                         block asks again, and meets the error
//!      '-- a reader of a block that was looked ahead takes it out and reads it;
//!          a reader of one of a list waits for its batch (Q6)
//! ```
//!
//! A worker treats bytes as a demand does: should a block be invalidated while they are in flight
//! (a write, a cut, another version), its ticket has changed, and they go nowhere (F3).
//!
//! A prefetch never waits for a buffer. Where no thread serves prefetches, what is wanted is given
//! up at once.
//!
//! Why so: docs/decisions/0044-fetching-ahead-on-a-mount.md, and
//! docs/decisions/0081-threads-read-ahead.md.

use std::sync::{Arc, MutexGuard};

use pantler_origin::{READ_BUFFERS_MAX, Source};
use pantler_steward::lists::{Chunk, ListStat};
use pantler_steward::{Block, HintError, OwnerId};

use super::Cache;
use super::holes::read_through_holes;
use crate::frames::{Frames, Missing};
use crate::pages::Pages;
use crate::scheduler::{Begun, BlockFetch, ListEntry, Wanted};

/// Blocks side by side that a worker brings, and where from.
pub(super) struct Piece {
    source: Arc<dyn Source>,
    pub(super) missing: Vec<Missing>,
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
        frames.steward_mut().give_list(owner, &chunks)?;
        frames.scheduler_mut().replace_list(owner, entries);
        self.obey(&mut frames, None);
        Ok(())
    }

    /// `owner` will read these ranges after those of its list.
    ///
    /// # Errors
    /// As [`give_list`](Self::give_list).
    pub fn extend_list(&self, owner: OwnerId, entries: &[ListEntry]) -> Result<(), HintError> {
        let chunks: Vec<Chunk> = entries.iter().map(|entry| entry.chunk).collect();
        let mut frames = self.lock();
        let ranges = frames.steward().list(owner).map_or(0, |list| list.ranges);
        frames.steward_mut().extend_list(owner, &chunks)?;
        frames.scheduler_mut().extend_list(owner, ranges, entries);
        self.obey(&mut frames, None);
        Ok(())
    }

    /// The list of `owner` ends here. What was fetched for it stays.
    pub fn end_list(&self, owner: OwnerId) {
        let mut frames = self.lock();
        frames.steward_mut().end_list(owner);
        self.obey(&mut frames, None);
    }

    /// What is known of the list of `owner`.
    pub fn list(&self, owner: OwnerId) -> Option<ListStat> {
        self.lock().steward().list(owner)
    }

    /// Fetches what is wanted ahead, in this thread, until [told to stop](Self::stop_prefetches).
    /// As many threads as call this read at the same time.
    pub fn serve_prefetches(&self) {
        let mut frames = self.lock();
        frames.worker_begins();
        while !frames.is_stopping() {
            frames = match frames.scheduler_mut().next() {
                Some(run) => {
                    if frames.scheduler().holds_demands() {
                        self.wake(&frames);
                    }
                    self.bring(frames, run)
                }
                None => self.prefetches.wait(frames).expect("the frames are in order"),
            };
        }
        if frames.worker_ends(&self.slab) {
            self.wake(&frames);
        }
    }

    /// Threads that [serve prefetches](Self::serve_prefetches) now.
    pub fn prefetch_workers(&self) -> u32 {
        self.lock().workers()
    }

    /// Ends all threads that [serve prefetches](Self::serve_prefetches), once what they read has
    /// arrived, and runs that would begin.
    pub fn stop_prefetches(&self) {
        // Where the lock is broken they end by themselves.
        if !self.is_broken() {
            self.lock().stop();
        }
        self.prefetches.notify_all();
    }

    /// What of a run is still wanted, with buffers for it, in pieces that lie side by side.
    fn pieces(&self, frames: &mut Frames, run: &mut Begun) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        for BlockFetch { wanted, source, owner, .. } in std::mem::take(&mut run.fetches) {
            // Taken by a demand, or invalid.
            if !frames.is_queued(&wanted) {
                continue;
            }
            let Wanted { block, frame, .. } = wanted;
            frames.take_queued(frame);
            // How much of it there is, it says when it comes.
            let Some(slot) = frames.equip(frame, Pages::NONE, &self.slab) else {
                frames.discard(block, &self.slab);
                continue;
            };
            let missing =
                Missing { block, frame, slot, pages: self.cut.all(), extent: 0, is_new: true, owner };
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
            self.wake(&frames);
            return frames;
        }
        drop(frames);
        let mut read = Vec::with_capacity(pieces.len());
        for near in pieces.chunk_by(|one, other| lies_near(&one.missing, &other.missing, run.hole_max)) {
            read.extend(read_through_holes(self, &*near[0].source, near));
        }
        let mut frames = self.lock();
        self.ended(&mut frames, &run);
        for (piece, bytes) in pieces.iter().zip(read) {
            self.arrived(&mut frames, &piece.missing, bytes);
        }
        self.obey(&mut frames, None);
        self.wake(&frames);
        frames
    }

    fn ended(&self, frames: &mut Frames, run: &Begun) {
        let batch = frames.scheduler().batch();
        frames.scheduler_mut().completed(run.tag);
        let now = frames.scheduler().batch();
        if now != batch {
            // P7.
            frames.steward_mut().set_batch(now);
        }
        self.notify_prefetchers(frames);
    }

    /// Time passes as `now_ns` says: nanoseconds from any start, never less than before. It is
    /// asked while the cache is locked.
    ///
    /// For a cache in virtual time: how much is asked of the origin at once follows how long that
    /// takes.
    pub fn set_clock(&self, now_ns: impl Fn() -> u64 + Send + Sync + 'static) {
        self.lock().scheduler_mut().set_clock(Arc::new(now_ns));
    }

    /// `bytes` of a piece have arrived; none of it when its read failed.
    fn arrived(&self, frames: &mut Frames, piece: &[Missing], bytes: usize) {
        for (position, one) in piece.iter().enumerate() {
            self.slab.leave(one.slot.buffer);
            let valid = bytes.saturating_sub(position * self.block_bytes()).min(self.block_bytes());
            frames.steward_mut().brought(one.owner, one.block, valid as u64);
            let slot = frames.slot(one.frame);
            if slot.ticket != one.slot.ticket {
                continue;
            }
            if valid == 0 {
                frames.fail(one.block, one.frame, &self.slab);
                continue;
            }
            frames.publish(one.block, one.frame, self.cut.touched(0..valid), valid as u32, &self.slab);
            frames.steward_mut().fetched(one.block);
        }
    }
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
