//! Misses: one read of the origin for a run of missing blocks, however many readers wait for them.

use std::io;
use std::sync::MutexGuard;

use pantler_origin::READ_BUFFERS_MAX;
use pantler_steward::{Access, Block, Frame, OwnerId, Why};

use super::{Cache, Reading, Referenced, Request};
use crate::frames::{EMPTY, Frames, Missing, Slot, State};
use crate::pages::Pages;
use crate::scheduler::Wanted;

/// Blocks that this thread promised to bring. Should the origin's answer never come because asking
/// for it panics, they fail, so that no reader waits for them for ever.
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
    /// A reader waits for `block` from now on, and reads as many blocks as are missing from there
    /// on, `run` at most. Until then prefetches hold back.
    pub(super) fn demand(&self, frames: &mut Frames, owner: OwnerId, block: Block, frame: Frame, run: usize) {
        let wanted = Wanted { block, frame, ticket: frames.slot(frame).ticket, why: Why::Demand };
        frames.scheduler.demand(owner, wanted, run as u32, self.cut.offset(block));
    }

    /// Pages of `block` that `request` waits for, in a frame that has no buffer yet.
    pub(super) fn missing(&self, request: &Request<'_>, block: Block, frame: Frame, pages: Pages) -> Missing {
        let extent = self.cut.extent(block, request.size);
        Missing { block, frame, slot: EMPTY, pages, extent, owner: request.owner }
    }

    /// Fetches `first`, which was [demanded](Self::demand), and with it the missing blocks that
    /// directly follow, `run` at most: these are their references. `None` when it was invalidated
    /// meanwhile: then it has to be referenced again.
    pub(super) fn fetch_run<'a>(
        &'a self,
        mut frames: MutexGuard<'a, Frames>,
        request: &Request<'_>,
        first: Missing,
        run: usize,
    ) -> io::Result<Option<Referenced<'a>>> {
        let ticket = frames.slot(first.frame).ticket;
        let slot = loop {
            match frames.equip(first.frame, first.pages, &self.slab) {
                Some(slot) => break slot,
                None => {
                    frames = self.sleep(frames);
                    if frames.slot(first.frame).ticket != ticket {
                        // Invalidated before it began.
                        frames.scheduler.demanded(ticket);
                        self.notify_prefetchers(&frames);
                        return Ok(None);
                    }
                }
            }
        };
        let mut fetching = Fetching { cache: self, missing: vec![Missing { slot, ..first }] };
        self.extend_run(&mut frames, request, &mut fetching.missing, run);
        self.await_departure(frames, ticket);
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

    /// Fetches pages of a block that holds others, run by run. `None` as for
    /// [`fetch_run`](Self::fetch_run).
    pub(super) fn fetch_more<'a>(
        &'a self,
        mut frames: MutexGuard<'a, Frames>,
        request: &Request<'_>,
        mut more: Missing,
    ) -> io::Result<Option<Reading<'a>>> {
        let Missing { block, frame, mut pages, .. } = more;
        while let Some(run) = pages.first_run() {
            more.pages = Pages::range(run);
            pages = pages & !more.pages;
            self.begin_more(&mut frames, request, &more);
            let fetching = Fetching { cache: self, missing: vec![more] };
            self.await_departure(frames, more.slot.ticket);
            let count = self.fetch(&**request.source, &fetching.missing);
            let reading = fetching.complete(&count).pop();
            count?;
            if pages.is_empty() {
                return Ok(reading);
            }
            frames = self.lock();
            let slot = frames.slot(frame);
            if slot.ticket != more.slot.ticket || slot.state != State::Ready {
                return Ok(None);
            }
            pages = slot.lacks(pages, self.cut);
            more.slot = slot;
        }
        debug_assert_eq!(frames.steward.lookup(block), Some(frame), "F1: {block} is in its frame");
        Ok(Some(self.reading(more.slot)))
    }

    /// From now on the slot is being filled, and readers of its block wait.
    fn begin_more(&self, frames: &mut Frames, request: &Request<'_>, more: &Missing) {
        let pages = more.slot.held | more.pages;
        frames.slot_mut(more.frame).state = State::Filling;
        self.slab.enter(more.slot.buffer);
        frames.buffers.back(more.slot.buffer, pages, &self.slab);
        frames.steward.pin(more.block);
        frames.steward.weigh(more.block, pages.count());
        self.demand(frames, request.owner, more.block, more.frame, 1);
        self.obey(frames, Some(request));
    }

    /// Demands wait for what departs before them, at most as long as a prefetch that has begun (Q).
    fn await_departure(&self, mut frames: MutexGuard<'_, Frames>, ticket: u64) {
        while !frames.scheduler.may_go(ticket) {
            self.prefetches.notify_all();
            frames = self.sleep(frames);
        }
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
                    if slot.state == State::Queued && !frames.scheduler.keeps_its_place(slot.ticket) =>
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
            let (frame, pages) = match (self.access(frames, request, block, None), queued) {
                (Some((Access::Miss(frame), part)), None) => (frame, part),
                // In flight, so it has not left; and it could not begin meanwhile. It was to come
                // as a whole.
                (Some((Access::Arriving(_), _)), Some(frame)) if frames.take_queued(frame) => {
                    (frame, self.cut.all())
                }
                _ => return,
            };
            match frames.equip(frame, pages, &self.slab) {
                Some(slot) => missing.push(Missing { slot, ..self.missing(request, block, frame, pages) }),
                None => return frames.discard(block, &self.slab),
            }
        }
    }

    /// Publishes what a fetch brought, and wakes the readers that wait. Its blocks are returned to
    /// be read, up to the first that was invalidated while its bytes were in flight: then they may
    /// be older than a write that has been acknowledged since.
    fn complete(&self, missing: &[Missing], count: &io::Result<usize>) -> Vec<Reading<'_>> {
        let mut frames = self.lock();
        // Of several the first is the demand; of the rest of one that failed nothing is known.
        frames.scheduler.demanded(missing[0].slot.ticket);
        self.notify_prefetchers(&frames);
        let mut readings = Vec::new();
        let mut left = *count.as_ref().unwrap_or(&0);
        for (position, one) in missing.iter().enumerate() {
            let came = one.range(self.cut).len().min(left);
            left -= came;
            frames.steward.brought(one.owner, one.block, came as u64);
            let (held, valid) = match count {
                Ok(_) => one.holds_with(came, self.cut),
                Err(_) => (one.slot.held, one.slot.valid),
            };
            self.slab.leave(one.slot.buffer);
            let slot = frames.slot(one.frame);
            if slot.ticket != one.slot.ticket {
                continue;
            }
            if position == readings.len() && count.is_ok() {
                readings.push(self.reading(Slot { valid, held, state: State::Ready, ..slot }));
            }
            if held.is_empty() {
                // Failed, or past the end of the file: there is nothing to keep.
                frames.discard(one.block, &self.slab);
                continue;
            }
            frames.publish(one.block, one.frame, held, valid, &self.slab);
            if one.slot.held.is_empty() {
                frames.steward.fetched(one.block);
            } else {
                frames.steward.unpin(one.block);
            }
        }
        self.obey(&mut frames, None);
        frames.release(&self.slab);
        self.wake(&frames);
        readings
    }
}
