//! Looking for missing blocks in lower tiers, before the origin is asked for the rest.

use std::io::{self, IoSliceMut};
use std::sync::atomic::Ordering;

use pantler_origin::Source;
use pantler_steward::placement::Tier;
use pantler_steward::tiers::Sought;
use pantler_tier::{Key, Retrieve, Wanted};

use super::Cache;
use crate::frames::Missing;
use crate::lower::{Attached, Order, tier_of};

/// A block that this thread brings, and what is known of where it is.
struct Quest {
    /// Position among the missing blocks.
    position: usize,
    sought: Sought,
    /// The tier that had it.
    found: Option<Tier>,
}

impl Cache {
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
            let sought = if frames.awaits(one) { frames.steward.seek(one.block)? } else { return None };
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
        let wanted: Vec<Wanted> = asked
            .iter()
            .map(|&quest| {
                let Sought { label, keep } = quests[quest].sought;
                let how = match keep.map(|keep| keep.cmp(&tier)) {
                    Some(std::cmp::Ordering::Less) => Retrieve::Take,
                    Some(std::cmp::Ordering::Equal) => Retrieve::Keep,
                    Some(std::cmp::Ordering::Greater) | None => Retrieve::Read,
                };
                Wanted { key: label.into(), how }
            })
            .collect();
        let mut hits = 0;
        let mut read_bytes = 0;
        let result = one.tier.retrieve(&wanted, &mut |at, bytes| {
            let Some(&quest) = asked.get(at) else { return };
            let position = quests[quest].position;
            if bytes.len() > self.block_bytes() || bytes.is_empty() {
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
            frames.steward.found(one.block, quest.sought, quest.found);
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
