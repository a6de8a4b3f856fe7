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

use crate::owners::{COMMON, OwnerKey, Owners};
use crate::{Access, Block, Lookahead, Notice, Options, OwnerId, Revocation, Steward};

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
    pub(crate) fn new(options: &Options, weighing: u32) -> Option<Box<Self>> {
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
    pub(crate) fn follows(&self, block: Block) -> bool {
        self.shift == 0 || self.sampler.hash_one(block) >> (u64::BITS - self.shift) == 0
    }

    /// Whether a cache of `frames` whole blocks still needs it, and can be followed as closely as
    /// when the shadow began, at the same cost.
    pub(crate) fn is_of_use(&self, owners: &Owners, frames: u32) -> bool {
        let is_needed = self.excess > 0 || owners.in_control() + owners.programs() > 0 && owners.live() > 1;
        let frames = frames >> self.shift;
        is_needed && frames <= 2 * FRAMES && (self.shift == 0 || frames >= FRAMES / 4)
    }

    /// A reference there. Says whether it hit.
    pub(crate) fn reference(&mut self, owner: OwnerId, block: Block, pages: u32, weighing: u32) -> bool {
        let frames_wanted = frames(weighing, self.shift).max(self.steward.options().block_pages);
        if frames_wanted != self.steward.capacity() {
            // There is always a frame.
            let _ = self.steward.set_capacity(frames_wanted);
        }
        let access = self.tell(|steward| {
            let access = steward.observed(owner, block);
            steward.weigh(block, pages);
            access
        });
        !matches!(access, Access::Miss(_))
    }

    /// Something else happens there, too. What it would have dropped is of no interest.
    pub(crate) fn tell<T>(&mut self, event: impl FnOnce(&mut Steward) -> T) -> T {
        let answer = event(&mut self.steward);
        self.steward.ignore_actions();
        answer
    }

    /// Takes in what one reference met in both. Says whether the cache fell too far behind.
    pub(crate) fn compare(&mut self, left: bool, hit: bool, limits: Revocation) -> bool {
        let share = if hit { 0 } else { 100 + u64::from(limits.share_percent) };
        self.missed += u64::from(!left);
        self.without += u64::from(!hit);
        self.excess = (self.excess + if left { 0 } else { 100 }).saturating_sub(share);
        if self.excess == 0 {
            (self.missed, self.without) = (0, 0);
        }
        self.excess > 100 * (u64::from(limits.needed) + u64::from(self.steward.options().frames()))
    }

    /// Owners without control fell too far behind: gives the owner in control with the largest
    /// surplus, if there is one, and what it is told. Then all is counted anew.
    pub(crate) fn accuse(&mut self, owners: &Owners, weighing: u32) -> Option<(OwnerKey, OwnerId, Notice)> {
        let notice = Notice::Revoked { missed: self.missed, without: self.without };
        (self.missed, self.without, self.excess) = (0, 0, 0);
        let in_control = owners.iter().filter_map(|(key, stat)| {
            let id = stat.id.filter(|_| key != COMMON && stat.in_control && !stat.revoked)?;
            Some((self.surplus(id, owners.held_by(key), weighing), Reverse(id), key))
        });
        let (_, Reverse(id), key) = in_control.filter(|(surplus, ..)| *surplus > 0).max()?;
        Some((key, id, notice))
    }

    /// By how much of the cache an owner holds more than of the shadow, in units that depend on
    /// both only.
    fn surplus(&self, owner: OwnerId, held: u32, weighing: u32) -> i64 {
        let there = self.steward.owner_counters(owner).map_or(0, |counters| counters.blocks);
        i64::from(held) * i64::from(self.steward.capacity()) - i64::from(there) * i64::from(weighing)
    }

    pub(crate) fn validate(&self) {
        assert_eq!((self.steward.managers(), self.steward.waiting()), (0, 0), "Z1");
        assert!(self.excess > 0 || (self.missed, self.without) == (0, 0), "misses of before count");
        self.steward.validate();
    }
}

/// Frames of the shadow beside a weighing room.
fn frames(weighing: u32, shift: u32) -> u32 {
    let frames = weighing >> shift;
    (if shift == 0 { frames } else { frames - frames / 8 }).max(1)
}
