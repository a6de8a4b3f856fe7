//! Misses: one read for a run of missing blocks, however many readers wait for them. It asks lower
//! tiers first, and the origin for the rest.

use std::io::{self, IoSliceMut};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use pantler_origin::{READ_BUFFERS_MAX, Source};
use pantler_steward::placement::Tier;
use pantler_steward::tiers::Sought;
use pantler_steward::{Access, Block, Frame, OwnerId, Why};
use pantler_tier::{Key, Retrieve};

use super::{Cache, Reading, Referenced, Request};
use crate::frames::{EMPTY, Frames, Missing, Slot, State};
use crate::lower::{Attached, Order, tier_of};
use crate::pages::Pages;
use crate::scheduler::Wanted;

/// Blocks that this thread promised to bring. Should the origin's answer never come because asking
/// for it panics, they fail, so that no reader waits for them for ever.
struct Fetching<'a> {
    cache: &'a Cache,
    missing: Vec<Missing>,
}

/// A block that this thread brings, and what is known of where it is.
struct Quest {
    /// Position among the missing blocks.
    position: usize,
    sought: Sought,
    /// The tier that had it.
    found: Option<Tier>,
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
        frames.scheduler_mut().demand(owner, wanted, run as u32, self.cut.offset(block));
    }

    /// Pages of `block` that `request` waits for, in a frame that has nothing yet.
    pub(super) fn missing(&self, request: &Request<'_>, block: Block, frame: Frame, pages: Pages) -> Missing {
        let extent = self.cut.extent(block, request.size);
        Missing { block, frame, slot: EMPTY, pages, extent, is_new: true, owner: request.owner }
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
                        frames.scheduler_mut().completed(ticket);
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

    /// Fetches those pages of a block that are not here, run by run, while others are, or the
    /// kernel has them. `None` as for [`fetch_run`](Self::fetch_run).
    pub(super) fn fetch_more<'a>(
        &'a self,
        mut frames: MutexGuard<'a, Frames>,
        request: &Request<'_>,
        mut more: Missing,
    ) -> io::Result<Option<Reading<'a>>> {
        let wanted = more.pages;
        loop {
            let missing = more.slot.lacks(wanted, self.cut);
            let Some(run) = missing.first_run() else {
                // Without a buffer the file became shorter meanwhile: it has to be asked for again.
                return Ok(more.slot.has_buffer().then(|| self.reading(more.slot)));
            };
            more.pages = Pages::range(run);
            if let Some(slot) = self.begin_more(&mut frames, request, &more) {
                more.slot = slot;
                let fetching = Fetching { cache: self, missing: vec![more] };
                self.await_departure(frames, more.slot.ticket);
                let count = self.fetch(&**request.source, &fetching.missing);
                let reading = fetching.complete(&count).pop();
                count?;
                if (missing & !more.pages).is_empty() {
                    return Ok(reading);
                }
                frames = self.lock();
            } else {
                frames = self.sleep(frames);
            }
            // Unless it left, or another thread fills it.
            let slot = frames.slot(more.frame);
            if slot.ticket != more.slot.ticket || slot.state != State::Ready {
                return Ok(None);
            }
            more.slot = slot;
        }
    }

    /// From now on the slot is being filled, and readers of its block wait. `None` while no buffer
    /// is idle.
    fn begin_more(&self, frames: &mut Frames, request: &Request<'_>, more: &Missing) -> Option<Slot> {
        let slot = frames.refill(more.frame, more.pages, &self.slab)?;
        let pages = slot.held | more.pages | frames.lent(more.frame);
        frames.steward_mut().pin(more.block);
        frames.steward_mut().weigh(more.block, pages.count());
        self.demand(frames, request.owner, more.block, more.frame, 1);
        self.obey(frames, Some(request));
        Some(slot)
    }

    /// Demands wait for what departs before them, at most as long as a prefetch that has begun (Q).
    fn await_departure(&self, mut frames: MutexGuard<'_, Frames>, ticket: u64) {
        while !frames.scheduler_mut().take_turn(ticket) {
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
                    if slot.state == State::Queued && !frames.scheduler().keeps_its_place(slot.ticket) =>
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
        frames.scheduler_mut().completed(missing[0].slot.ticket);
        self.notify_prefetchers(&frames);
        let mut readings = Vec::new();
        let mut left = *count.as_ref().unwrap_or(&0);
        for (position, one) in missing.iter().enumerate() {
            let came = one.range(self.cut).len().min(left);
            left -= came;
            frames.steward_mut().brought(one.owner, one.block, came as u64);
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
            let lent = if one.is_new { Pages::NONE } else { frames.lent(one.frame) };
            if (held | lent).is_empty() {
                // Failed, or past the end of the file: there is nothing to keep.
                frames.discard(one.block, &self.slab);
                continue;
            }
            frames.publish(one.block, one.frame, held, valid, &self.slab);
            if one.is_new {
                frames.steward_mut().fetched(one.block);
            } else {
                frames.steward_mut().unpin(one.block);
            }
        }
        self.obey(&mut frames, None);
        frames.release(&self.slab);
        self.wake(&frames);
        readings
    }

    // Where bytes come from.

    /// Brings the blocks, which lie side by side, into their buffers: from the tiers that have
    /// them, the others from the origin. Counts bytes from the first on, as the origin does. The
    /// lock is not held.
    pub(super) fn fetch(&self, source: &dyn Source, missing: &[Missing]) -> io::Result<usize> {
        if self.attached.is_empty() {
            return self.fetch_from_origin(source, missing);
        }
        let mut quests = self.quests(missing);
        let mut valid: Vec<Option<usize>> = vec![None; missing.len()];
        for (number, one) in self.attached.iter().enumerate() {
            self.ask_tier(number, one, missing, &mut quests, &mut valid);
        }
        self.note_found(missing, &quests);
        let gaps = self.fetch_gaps(source, missing, &mut valid);
        // What comes before a gap can be had.
        if valid.first().is_none_or(Option::is_none) {
            gaps?;
        }
        Ok(self.count(&valid))
    }

    /// A block that was invalidated meanwhile is not looked for: its frame may be another block's.
    fn quests(&self, missing: &[Missing]) -> Vec<Quest> {
        let mut frames = self.lock();
        let quest = |(position, one): (usize, &Missing)| {
            let sought =
                if frames.awaits(one) { frames.steward_mut().seek(one.block)? } else { return None };
            Some(Quest { position, sought, found: None })
        };
        missing.iter().enumerate().filter_map(quest).collect()
    }

    /// B4: a tier that does not work is not asked.
    fn ask_tier(
        &self,
        number: usize,
        one: &Attached,
        missing: &[Missing],
        quests: &mut [Quest],
        valid: &mut [Option<usize>],
    ) {
        let tier = tier_of(number);
        for quest in quests.iter_mut() {
            if valid[quest.position].is_none() {
                valid[quest.position] = self.take_going(one, quest.sought, tier, &missing[quest.position]);
                quest.found = valid[quest.position].map(|_| tier);
            }
        }
        let asked: Vec<usize> =
            (0..quests.len()).filter(|&quest| valid[quests[quest].position].is_none()).collect();
        if asked.is_empty() {
            return;
        }
        if one.breaker.is_open() {
            return one.count(|counts| counts.skipped += asked.len() as u64);
        }
        let wanted: Vec<pantler_tier::Wanted> = asked
            .iter()
            .map(|&quest| {
                let Sought { label, keep } = quests[quest].sought;
                let how = match keep.map(|keep| keep.cmp(&tier)) {
                    Some(std::cmp::Ordering::Less) => Retrieve::Take,
                    Some(std::cmp::Ordering::Equal) => Retrieve::Keep,
                    Some(std::cmp::Ordering::Greater) | None => Retrieve::Read,
                };
                pantler_tier::Wanted { key: label.into(), how }
            })
            .collect();
        let mut hits = 0;
        let mut read_bytes = 0;
        let result = one.tier.retrieve(&wanted, &mut |at, bytes| {
            let Some(&quest) = asked.get(at) else { return };
            let position = quests[quest].position;
            // A tier may have been given an outgrown block, too (F5).
            let least = (missing[position].extent as usize).max(1);
            if !(least..=self.block_bytes()).contains(&bytes.len()) {
                return;
            }
            // SAFETY: this thread is the buffer's only user, and its slot is not ready (M1).
            let buffer = unsafe { self.slab.bytes_mut(missing[position].slot.buffer) };
            buffer[..bytes.len()].copy_from_slice(bytes);
            valid[position] = Some(bytes.len());
            quests[quest].found = Some(tier);
            hits += 1;
            read_bytes += bytes.len() as u64;
        });
        one.count(|counts| {
            counts.hits += hits;
            counts.read_bytes += read_bytes;
            counts.misses += if result.is_ok() { asked.len() as u64 - hits } else { 0 };
        });
        if let Err(error) = result {
            self.tier_failed(one, &error);
        }
        self.listen(number, one);
    }

    /// Copies a block that is still on its way down to `tier`. Says how many bytes it has.
    fn take_going(&self, one: &Attached, sought: Sought, tier: Tier, missing: &Missing) -> Option<usize> {
        let key = Key::from(sought.label);
        let going = one.going(&key, |buffer| self.slab.enter(buffer))?;
        let length = going.length as usize;
        if length < missing.extent as usize {
            self.slab.leave(going.buffer);
            return None;
        }
        // SAFETY: this thread is a user of the one buffer, so that no other writes to it, and the
        // only user of the other, which belongs to a slot that is not ready (M1). They differ: the
        // other was idle.
        unsafe {
            let from = self.slab.bytes(going.buffer, 1, 0..length);
            self.slab.bytes_mut(missing.slot.buffer)[..length].copy_from_slice(from);
        }
        self.slab.leave(going.buffer);
        if sought.keep.is_some_and(|keep| keep < tier) {
            // It comes to the tier first: its worker keeps the order.
            let _ = one.order(Order::Remove { key }, 0);
        }
        one.count(|counts| counts.hits += 1);
        Some(length)
    }

    pub(super) fn tier_failed(&self, one: &Attached, error: &pantler_tier::TierError) {
        if one.breaker.trip() {
            tracing::warn!(%error, "left alone until it works again");
        }
    }

    pub(super) fn listen(&self, number: usize, one: &Attached) {
        let news = one.tier.news();
        self.tell_steward(|below, steward| below.listen(steward, number, news));
    }

    fn note_found(&self, missing: &[Missing], quests: &[Quest]) {
        let mut frames = self.lock();
        for quest in quests {
            let one = &missing[quest.position];
            if !frames.awaits(one) {
                continue;
            }
            frames.steward_mut().found(one.block, quest.sought, quest.found);
        }
        frames.obey(&self.slab);
    }

    /// Reads what no tier had, in as few pieces as there are gaps.
    fn fetch_gaps(
        &self,
        source: &dyn Source,
        missing: &[Missing],
        valid: &mut [Option<usize>],
    ) -> io::Result<()> {
        let mut start = 0;
        while start < missing.len() {
            if valid[start].is_some() {
                start += 1;
                continue;
            }
            let end = (start..missing.len()).find(|&at| valid[at].is_some()).unwrap_or(missing.len());
            let count = self.fetch_from_origin(source, &missing[start..end])?;
            for (number, valid) in valid[start..end].iter_mut().enumerate() {
                let before = number * self.block_bytes();
                *valid = Some(count.saturating_sub(before).min(self.block_bytes()));
            }
            start = end;
        }
        Ok(())
    }

    /// Bytes from the first block on, up to the first block that is not full.
    fn count(&self, valid: &[Option<usize>]) -> usize {
        let mut count = 0;
        for valid in valid {
            let valid = valid.unwrap_or(0);
            count += valid;
            if valid < self.block_bytes() {
                break;
            }
        }
        count
    }

    /// Reads the blocks, which lie side by side, from the origin. The lock is not held.
    fn fetch_from_origin(&self, source: &dyn Source, missing: &[Missing]) -> io::Result<usize> {
        let offset = self.cut.offset(missing[0].block) + missing[0].range(self.cut).start as u64;
        let mut buffers: Vec<IoSliceMut<'_>> = missing
            .iter()
            .map(|one| {
                // SAFETY: the slot is being filled by this thread, and does not hold these pages,
                // so that no reader looks at them before `complete` (M1). The buffers of different
                // slots are different (F1).
                IoSliceMut::new(unsafe { self.slab.part_mut(one.slot.buffer, one.range(self.cut)) })
            })
            .collect();
        self.read_origin(source, offset, &mut buffers)
    }

    /// One read of the origin, counted.
    pub(super) fn read_origin(
        &self,
        source: &dyn Source,
        offset: u64,
        buffers: &mut [IoSliceMut<'_>],
    ) -> io::Result<usize> {
        self.fetches.fetch_add(1, Ordering::Relaxed);
        let count = source.read_at(offset, buffers);
        match &count {
            Ok(count) => self.fetched_bytes.fetch_add(*count as u64, Ordering::Relaxed),
            Err(_) => self.failed.fetch_add(1, Ordering::Relaxed),
        };
        count
    }
}
