//! Misses: one read of the origin for a run of missing blocks, however many readers wait for them.

use std::io;
use std::sync::MutexGuard;

use pantler_origin::READ_BUFFERS_MAX;
use pantler_steward::{Access, Block, Frame, OwnerId, Why};

use crate::cache::{Cache, Reading, Referenced, Request};
use crate::frames::{Frames, Slot, State, Wanted};

/// A block whose bytes this thread fetches.
#[derive(Clone, Copy)]
pub(crate) struct Missing {
    pub(crate) block: Block,
    pub(crate) frame: Frame,
    pub(crate) slot: Slot,
}

/// Blocks that this thread promised to bring. Should the origin's answer never come because asking
/// for it panics, they fail, so that nobody waits for them for ever.
struct Fetching<'a> {
    cache: &'a Cache,
    missing: Vec<Missing>,
}

impl<'a> Fetching<'a> {
    fn complete(mut self, count: &io::Result<usize>) -> Vec<Reading<'a>> {
        self.cache.complete(&std::mem::take(&mut self.missing), count)
    }
}

impl Drop for Fetching<'_> {
    fn drop(&mut self) {
        if !self.missing.is_empty() && !self.cache.is_broken() {
            self.cache.complete(&self.missing, &Err(io::ErrorKind::Other.into()));
        }
    }
}

impl Cache {
    /// Somebody waits for `block` from now on, and reads as many blocks as are missing from there
    /// on, `run` at most. Until then prefetches hold back.
    pub(crate) fn demand(&self, frames: &mut Frames, owner: OwnerId, block: Block, frame: Frame, run: usize) {
        let wanted = Wanted { block, frame, ticket: frames.slot(frame).ticket, why: Why::Demand };
        let position =
            frames.prefetching.position(block).map(|start| start.saturating_add(self.offset(block)));
        frames.prefetching.scheduler.demand(owner, wanted, run as u32, position);
    }

    /// Fetches `block`, which was [demanded](Self::demand), and with it the missing blocks that
    /// directly follow, `run` at most: these are their references. `None` when it was voided
    /// meanwhile: then it has to be referenced again.
    pub(crate) fn fetch_run<'a>(
        &'a self,
        mut frames: MutexGuard<'a, Frames>,
        request: &Request<'_>,
        block: Block,
        frame: Frame,
        run: usize,
    ) -> io::Result<Option<Referenced<'a>>> {
        let ticket = frames.slot(frame).ticket;
        let slot = loop {
            match frames.equip(frame, &self.slab) {
                Some(slot) => break slot,
                None => {
                    frames = self.sleep(frames);
                    if frames.slot(frame).ticket != ticket {
                        // Voided before it began.
                        frames.prefetching.scheduler.demanded(ticket);
                        self.encourage(&frames);
                        return Ok(None);
                    }
                }
            }
        };
        let mut fetching = Fetching { cache: self, missing: vec![Missing { block, frame, slot }] };
        self.extend_run(&mut frames, request, &mut fetching.missing, run);
        while !frames.prefetching.scheduler.may_go(ticket) {
            self.prefetches.notify_all();
            frames = self.sleep(frames);
        }
        drop(frames);
        let mut count = self.fetch(&**request.source, &fetching.missing);
        if count.is_err() && fetching.missing.len() > 1 {
            // The bytes before the bad spot can be had.
            let rest = fetching.missing.split_off(1);
            self.complete(&rest, &Err(io::ErrorKind::Other.into()));
            count = self.fetch(&**request.source, &fetching.missing);
        }
        let mut readings = fetching.complete(&count).into_iter();
        count?;
        Ok(readings.next().map(|first| Referenced { first, rest: readings }))
    }

    /// Takes the blocks after a miss along, up to the first that is cached, or that gets no frame.
    fn extend_run(
        &self,
        frames: &mut MutexGuard<'_, Frames>,
        request: &Request<'_>,
        missing: &mut Vec<Missing>,
        run: usize,
    ) {
        let first = missing[0].block;
        for index in (first.index + 1..).take(run.min(READ_BUFFERS_MAX) - 1) {
            let block = Block::new(first.file, index);
            let queued = match frames.find(block) {
                Some((frame, slot))
                    if slot.state == State::Queued
                        && !frames.prefetching.scheduler.keeps_its_place(slot.ticket) =>
                {
                    Some(frame)
                }
                Some(_) => return,
                None => None,
            };
            // Before the reference: it is one only if the block is fetched.
            if !frames.has_idle_buffer(&self.slab) {
                return;
            }
            let frame = match (self.access(frames, request, block, None), queued) {
                (Some(Access::Miss(frame)), None) => frame,
                // On its way, so it has not left; and nobody could begin it meanwhile.
                (Some(Access::Arriving(_)), Some(frame)) if frames.take_queued(frame) => frame,
                _ => return,
            };
            match frames.equip(frame, &self.slab) {
                Some(slot) => missing.push(Missing { block, frame, slot }),
                None => return frames.discard(block, &self.slab),
            }
        }
    }

    /// Publishes what a fetch brought, and wakes the readers that wait. Its blocks are returned to
    /// be read, up to the first that was voided while its bytes were on their way: then they may be
    /// older than a write that has been acknowledged since.
    fn complete(&self, missing: &[Missing], count: &io::Result<usize>) -> Vec<Reading<'_>> {
        let mut frames = self.lock();
        // Of several the first is the demand; of the rest of one that failed nothing is known.
        frames.prefetching.scheduler.demanded(missing[0].slot.ticket);
        self.encourage(&frames);
        let mut readings = Vec::new();
        for (position, one) in missing.iter().enumerate() {
            let valid = match count {
                Ok(count) => count.saturating_sub(position * self.block_bytes()).min(self.block_bytes()),
                Err(_) => 0,
            };
            self.slab.leave(one.slot.buffer);
            let slot = frames.slot(one.frame);
            if slot.ticket != one.slot.ticket {
                continue;
            }
            let ready = Slot { valid: valid as u32, state: State::Ready, ..slot };
            if position == readings.len() && count.is_ok() {
                readings.push(self.reading(ready));
            }
            if valid == 0 {
                // Failed, or past the end of the file: there is nothing to keep.
                frames.discard(one.block, &self.slab);
                continue;
            }
            *frames.slot_mut(one.frame) = ready;
            frames.steward.fetched(one.block);
            frames.arrived(one.block, one.frame, &self.slab);
        }
        self.settle(&mut frames, None);
        frames.release(&self.slab);
        self.wake(&frames);
        readings
    }
}
