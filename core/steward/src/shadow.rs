//! The shadow: what owners without control would have missed if no owner had control (rule L7).
//!
//! It is a steward of its own to which no owner makes a call, so it decides as global LRU does (or
//! the policy of the common owner). It follows one block in 2^`shift`, chosen by hash, with as many
//! frames: all blocks of a small cache, and at most [`FRAMES`] frames of a large one. It is there
//! from the first overrule beside another live owner on.
//!
//! There is one for all owners: that LRU-SP harms none is promised against global LRU alone.
//!
//! ```text
//!                     cache misses          cache hits
//!   shadow misses     excess − share        excess − 1 − share       excess is never below 0
//!   shadow hits       excess + 1            excess
//! ```
//!
//! Whatever state the two begin with, a cache that harms no owner falls behind the shadow by one
//! miss for each frame at most: for a block that was in the shadow alone. So control is lost when
//! the excess passes that and `needed`.
//!
//! A sample can have too few blocks between two references of a block. So the shadow has an eighth
//! of its frames less where not all blocks are followed: by Chernoff's bound a reference that
//! misses under LRU then hits in the shadow with a probability of at most exp(−n/128) for n frames,
//! which is e^−16.
//!
//! Z1  Each owner of the shadow is without control, and nothing waits there.

use alloc::boxed::Box;
use core::cmp::Reverse;
use core::hash::BuildHasher;

use foldhash::fast::FixedState;

use crate::entry::Brought;
use crate::owners::{COMMON, OwnerRecord};
use crate::{Access, Action, Block, Lookahead, Notice, Options, OwnerId, Revocation, Steward};

/// Most frames of a shadow when it begins.
const FRAMES: u32 = 4096;

/// The cache without control.
#[derive(Clone, Debug)]
pub(crate) struct Shadow {
    steward: Steward,
    /// One block in 2^`shift` is followed.
    shift: u32,
    sampler: FixedState,
    /// Misses of owners without control in the cache, and in the shadow, since `excess` was last 0.
    missed: u64,
    without: u64,
    /// Misses more than the share allows, in hundredths.
    excess: u64,
}

impl Shadow {
    /// Over an empty cache, that of `options` but for what owners or lookahead choose. `None`
    /// without a frame.
    fn new(options: &Options, weighing: u32) -> Option<Box<Self>> {
        let shift = (0..u32::BITS).find(|shift| options.frames() >> shift <= FRAMES)?;
        let options = Options {
            capacity: frames(weighing, shift).max(options.block_pages),
            waiting: 0,
            lookahead: Lookahead::None,
            revocation: Revocation::NEVER,
            log: 0,
            ..options.clone()
        };
        // Not the hasher of the tables there, which would see blocks of similar hashes only.
        let sampler = FixedState::with_seed(!options.seed);
        let steward = Steward::new(options).ok()?;
        Some(Box::new(Self { steward, shift, sampler, missed: 0, without: 0, excess: 0 }))
    }

    #[inline]
    fn follows(&self, block: Block) -> bool {
        self.shift == 0 || self.sampler.hash_one(block) >> (u64::BITS - self.shift) == 0
    }

    /// Whether a cache of `frames` whole blocks can be followed as closely as when the shadow
    /// began, at the same cost.
    fn fits(&self, frames: u32) -> bool {
        let frames = frames >> self.shift;
        frames <= 2 * FRAMES && (self.shift == 0 || frames >= FRAMES / 4)
    }

    /// A reference there. Says whether it hit.
    fn reference(&mut self, owner: OwnerId, block: Block, pages: u32, weighing: u32) -> bool {
        let frames_wanted = frames(weighing, self.shift).max(self.steward.options.block_pages);
        if frames_wanted != self.steward.capacity() {
            // There is always a frame.
            let _ = self.steward.set_capacity(frames_wanted);
        }
        let access = self.steward.observed(owner, block);
        self.steward.weigh(block, pages);
        self.steward.actions.clear();
        !matches!(access, Access::Miss(_))
    }

    /// Takes in what one reference met in both. Says whether the cache fell too far behind.
    fn compare(&mut self, left: bool, hit: bool, limits: Revocation) -> bool {
        let share = if hit { 0 } else { 100 + u64::from(limits.share_percent) };
        self.missed += u64::from(!left);
        self.without += u64::from(!hit);
        self.excess = (self.excess + if left { 0 } else { 100 }).saturating_sub(share);
        if self.excess == 0 {
            (self.missed, self.without) = (0, 0);
        }
        self.excess > 100 * (u64::from(limits.needed) + u64::from(self.steward.options.frames()))
    }

    /// By how much of the cache an owner holds more than of the shadow, in units that depend on
    /// both only.
    fn surplus(&self, owner: OwnerId, record: &OwnerRecord, weighing: u32) -> i64 {
        let there = self.steward.owner_counters(owner).map_or(0, |counters| counters.blocks);
        i64::from(record.counters.blocks) * i64::from(self.steward.capacity())
            - i64::from(there) * i64::from(weighing)
    }

    pub(crate) fn validate(&self) {
        assert_eq!((self.steward.managers, self.steward.waiting()), (0, 0), "Z1");
        assert!(self.excess > 0 || (self.missed, self.without) == (0, 0), "misses of before count");
        self.steward.validate();
    }
}

/// Frames of the shadow beside a weighing room.
fn frames(weighing: u32, shift: u32) -> u32 {
    let frames = weighing >> shift;
    (if shift == 0 { frames } else { frames - frames / 8 }).max(1)
}

impl Steward {
    /// A reference, and the same in the shadow if there was one before.
    #[inline]
    pub(crate) fn shadowed(
        &mut self,
        owner: OwnerId,
        block: Block,
        reference: impl FnOnce(&mut Self) -> Access,
    ) -> Access {
        if !self.shadow.as_deref().is_some_and(|shadow| shadow.follows(block)) {
            return reference(self);
        }
        // What was prefetched, and is used only now, was not left by a reference: the shadow
        // fetches nothing ahead.
        let entry = self.entries.find(block).map(|frame| &self.entries[frame]);
        let left = entry.is_some_and(|entry| entry.brought == Brought::Reference);
        let access = reference(self);
        if access != Access::Full {
            self.follow_in_shadow(owner, block, left);
        }
        access
    }

    #[cold]
    #[inline(never)]
    fn follow_in_shadow(&mut self, owner: OwnerId, block: Block, left: bool) {
        let (weighing, limits) = (self.weighing_max(), self.options.revocation);
        let pages = self.entries.find(block).map_or(1, |frame| self.entries.pages(frame));
        let record = self.owners.find(owner).and_then(|key| self.owners.alive(key));
        // One that ever overruled answers for its own misses.
        let is_oblivious = record.is_none_or(|record| record.revoked || record.counters.overrules == 0);
        let Some(shadow) = self.shadow.as_deref_mut() else { return };
        let hit = shadow.reference(owner, block, pages, weighing);
        if is_oblivious && shadow.compare(left, hit, limits) {
            self.revoke();
        }
        let is_needed = |shadow: &Shadow| shadow.excess > 0 || self.managers > 0 && self.owners.live() > 1;
        let frames = self.options.frames();
        if self.shadow.as_deref().is_some_and(|shadow| !is_needed(shadow) || !shadow.fits(frames)) {
            self.shadow = None;
        }
    }

    /// Owners without control fell too far behind: of the owners in control the one with the
    /// largest surplus loses it. Then all is counted anew.
    fn revoke(&mut self) {
        let weighing = self.weighing_max();
        let Some(shadow) = self.shadow.as_deref_mut() else { return };
        let (missed, without) = (shadow.missed, shadow.without);
        (shadow.missed, shadow.without, shadow.excess) = (0, 0, 0);
        let in_control = self.owners.iter().filter_map(|(key, record)| {
            let id = record.id.filter(|_| key != COMMON && record.manager.is_some() && !record.revoked)?;
            Some((shadow.surplus(id, record, weighing), Reverse(id), key))
        });
        let worst = in_control.filter(|(surplus, ..)| *surplus > 0).max();
        let Some((_, Reverse(owner), key)) = worst else { return };
        if let Some(record) = self.owners.alive_mut(key) {
            record.revoked = true;
            record.counters.revocations += 1;
        }
        self.actions.push_back(Action::Notice { owner, notice: Notice::Revoked { missed, without } });
    }

    /// An owner overruled: whether it harms others is seen from now on, if there are any.
    pub(crate) fn begin_shadow(&mut self) {
        if self.options.revocation.needed != u32::MAX && self.owners.live() > 1 {
            self.shadow = Shadow::new(&self.options, self.weighing_max());
        }
    }

    /// What happens to blocks and owners from outside happens in the shadow, too.
    pub(crate) fn in_shadow(&mut self, event: impl FnOnce(&mut Self)) {
        if let Some(shadow) = self.shadow.as_deref_mut() {
            event(&mut shadow.steward);
            shadow.steward.actions.clear();
        }
    }
}
