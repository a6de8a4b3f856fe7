//! ULC: the client decides in which tier a block is kept, by how far back its last access was
//! (rules U1 to U4, U7).
//!
//! ```text
//!   youngest  [h 1] [g 3] [f 1] [e 2] [d 1] [c 3] [b out] [a 2]  oldest
//!                                      Y_1          Y_3 = c, Y_2 = a
//!   a reference to b, older than Y_1 and not older than Y_2, puts b into tier 2, and Y_2 leaves it
//! ```
//!
//! A block's place in the stack when it is referenced is the distance between its last two
//! accesses, which predicts the next one better than age alone. The first tiers are the client's
//! own; tiers behind them may be shared, and then choose their victims themselves, and tell (U5).
//!
//! C1  Each tier holds at most its frames, as far as the client believes: what is too much goes
//!     down from own ones, and cannot be in shared ones, or is given up where there is more room
//!     than the client may use.
//! C2  No uncached entry is older than Y_n, where the last tier holds anything; at most twice the
//!     frames of all tiers are in the stack, unless all of them are cached.
//!
//! Cost: O(1) amortised, see `stack`.
//!
//! Source: S. Jiang, K. Davis, X. Zhang, *Coordinated multilevel buffer cache management with
//! consistent access locality quantification*, IEEE Transactions on Computers 56(1), 2007. Unlike
//! the paper: recency statuses are not stored, the order of slots answers what they are for; the
//! stack is bounded by entries; a client without a block in a shared tier uses its oldest entry as
//! yardstick.

use alloc::vec::Vec;

use pantler_policy::Handle;

use super::slot_map::NO_SLOT;
use super::stack::Stack;
use super::tier::{Retrieval, Sizes, Step, TIERS_MAX, Tier};

/// One client of a hierarchy.
///
/// ```
/// use pantler_steward::placement::{Sizes, Tier, Ulc};
///
/// let mut ulc = Ulc::new(Sizes::new(&[2, 2])?);
/// let mut steps = Vec::new();
/// // A loop over four blocks: each is put into a tier once, and stays there.
/// for now in 0..100 {
///     ulc.reference(now as u32 % 4, now, &mut steps);
/// }
/// assert!(steps.is_empty());
/// assert_eq!(ulc.tier_of(0), Tier(1));
/// assert_eq!(ulc.tier_of(3), Tier(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Ulc {
    sizes: Sizes,
    /// Tiers of the client alone.
    own: Tier,
    /// What shared tiers last said of themselves.
    full: [bool; TIERS_MAX],
    /// Shared tiers that have more room than the client may use.
    wider: [bool; TIERS_MAX],
    stack: Stack,
    entries_max: u32,
}

impl Ulc {
    /// A client that has all tiers for itself.
    pub fn new(sizes: Sizes) -> Self {
        let own = Tier::at(sizes.tiers() - 1);
        Self::with_own(sizes, own)
    }

    /// A client that shares the tiers below `own` with others. `own` is at least 1, and a tier of
    /// `sizes`.
    pub fn with_own(sizes: Sizes, own: Tier) -> Self {
        assert!(own >= Tier::NEAREST && own < sizes.out(), "C1: the nearest tier is a client's own");
        let stack = Stack::new(sizes.out());
        // U4.
        let entries_max = sizes.total().saturating_mul(2);
        Self { sizes, own, full: [false; TIERS_MAX], wider: [false; TIERS_MAX], stack, entries_max }
    }

    /// Frames of the tiers.
    pub fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// Where the client believes a block of its is kept; `out` where it believes it in none.
    pub fn tier_of(&self, block: Handle) -> Tier {
        self.stack.find(block).map_or(self.sizes.out(), |(tier, _)| tier)
    }

    /// When a block of the stack was last accessed, in the caller's unit.
    pub fn time_of(&self, block: Handle) -> Option<u64> {
        self.stack.find(block).map(|(_, slot)| self.stack.time_at(slot))
    }

    /// Blocks that the client believes in a tier: of a shared tier, its share.
    pub fn blocks_in(&self, tier: Tier) -> u32 {
        self.stack.len(tier)
    }

    /// A whole reference, for a client that has all tiers for itself. `now` does not decrease. What
    /// follows from it is appended to `steps`.
    #[inline]
    pub fn reference(&mut self, block: Handle, now: u64, steps: &mut Vec<Step>) -> Retrieval {
        let retrieval = self.plan(block);
        self.commit(block, retrieval.keep, now, steps);
        self.forget_surplus(steps);
        retrieval
    }

    /// Rule U1: from which tier the client expects the block, and where it wants it kept.
    #[inline]
    pub fn plan(&self, block: Handle) -> Retrieval {
        let out = self.sizes.out();
        let found = self.stack.find(block);
        let from = found.map_or(out, |(tier, _)| tier);
        if from == out
            && let Some(keep) = self.first_not_full()
        {
            return Retrieval { from, keep };
        }
        let Some((_, slot)) = found else { return Retrieval { from, keep: out } };
        let mut keep = Tier::NEAREST;
        while keep < out && slot < self.yardstick(keep) {
            keep = keep.below();
        }
        debug_assert!(keep <= from, "U1: block {block} sinks from {from:?} to {keep:?}");
        Retrieval { from, keep }
    }

    /// The reference takes place: the block is at the top of the stack, kept in `keep`, and own
    /// tiers that are over their size pass their yardstick down (U3). With shared tiers, their
    /// answer to the request comes first.
    #[inline]
    pub fn commit(&mut self, block: Handle, keep: Tier, now: u64, steps: &mut Vec<Step>) {
        self.enter(block, keep, now);
        self.trim(keep, steps);
    }

    /// The first half of [`commit`](Self::commit): the block is at the top of the stack, kept in
    /// `keep`. For callers that choose the victims of the nearest tier otherwise:
    /// [`passed_down`](Self::passed_down) for each of them, then [`trim`](Self::trim).
    #[inline]
    pub fn enter(&mut self, block: Handle, keep: Tier, now: u64) {
        self.stack.touch(block, keep, now);
    }

    /// Own tiers from `tier` on that are over their size pass their yardstick down.
    #[inline]
    pub fn trim(&mut self, mut tier: Tier, steps: &mut Vec<Step>) {
        while tier <= self.own {
            while self.stack.len(tier) > self.sizes.of(tier) {
                let victim = self.stack.block_at(self.stack.yardstick(tier));
                // The level below the last tier is `out`.
                self.stack.set_level(victim, tier.below());
                steps.push(match tier.below() == self.sizes.out() {
                    true => Step::Drop { block: victim, from: tier },
                    false => Step::Demote { block: victim, from: tier },
                });
            }
            tier = tier.below();
        }
    }

    /// C1 of shared tiers, once what they told was heard.
    #[inline]
    fn doubt(&mut self, steps: &mut Vec<Step>) {
        let out = self.sizes.out();
        let mut tier = self.own.below();
        while tier < out {
            while self.stack.len(tier) > self.sizes.of(tier) {
                let phantom = self.stack.block_at(self.stack.yardstick(tier));
                self.stack.set_level(phantom, out);
                if self.wider[tier.index()] {
                    steps.push(Step::Drop { block: phantom, from: tier });
                }
            }
            tier = tier.below();
        }
    }

    /// Rule U4, once everything else of a reference was said: what the stack need not know leaves
    /// it.
    #[inline]
    pub fn forget_surplus(&mut self, steps: &mut Vec<Step>) {
        self.doubt(steps);
        let out = self.sizes.out();
        let last = self.stack.yardstick(Tier(out.0 - 1));
        loop {
            let oldest = self.stack.yardstick(out);
            let beyond = last != NO_SLOT && oldest < last || self.stack.entries() > self.entries_max;
            if oldest == NO_SLOT || !beyond {
                return;
            }
            let block = self.stack.block_at(oldest);
            self.stack.remove(block);
            steps.push(Step::Forget { block });
        }
    }

    /// A tier has another number of frames from now on, at least one. What is too much goes down;
    /// of a shared tier, it cannot be there.
    pub fn resize(&mut self, tier: Tier, frames: u32, steps: &mut Vec<Step>) {
        assert!(tier < self.sizes.out() && frames > 0, "C1: {tier:?} cannot have {frames} frames");
        self.sizes.set(tier, frames);
        self.entries_max = self.sizes.total().saturating_mul(2);
        self.trim(tier, steps);
        self.forget_surplus(steps);
    }

    /// A shared tier says with an answer whether all its frames are in use. Of an
    /// own tier: whether they are, by blocks that this client does not know of, too.
    pub fn set_full(&mut self, tier: Tier, full: bool) {
        self.full[tier.index()] = full;
    }

    /// Whether a shared tier has more room than its size: then what is more than that is there, and
    /// is dropped by this client. Else the tier drops what it has no room for.
    pub fn set_wider(&mut self, tier: Tier, wider: bool) {
        self.wider[tier.index()] = wider;
    }

    /// A block of this client left a tier without being asked to: a notice of rule U5, or the tier
    /// lost it. Says whether the client believed it there; else nothing changes, so that a loss
    /// counts once (U6).
    pub fn left(&mut self, block: Handle, from: Tier, to: Tier) -> bool {
        let believed = from < self.sizes.out() && self.tier_of(block) == from;
        if believed {
            self.stack.set_level(block, to);
        }
        believed
    }

    /// A block is put into a tier, because it was asked for before the client was told that it had
    /// gone. Says whether the client has taken it for gone.
    pub fn returned(&mut self, block: Handle, into: Tier, steps: &mut Vec<Step>) -> bool {
        let out = self.sizes.out();
        let was_gone = into < out && self.stack.find(block).is_some_and(|(tier, _)| tier == out);
        if was_gone {
            self.stack.set_level(block, into);
            self.trim(into, steps);
        }
        was_gone
    }

    /// A block of this client left `from` for the next tier, by the caller's choice instead of the
    /// yardstick's. U3 follows in own tiers below. Says whether the client believed it
    /// there; else nothing changes.
    pub fn passed_down(&mut self, block: Handle, from: Tier, steps: &mut Vec<Step>) -> bool {
        let believed = self.left(block, from, from.below());
        if believed {
            self.trim(from.below(), steps);
            // Before the block is there, so that there is never too much.
            if self.wider.contains(&true) {
                self.doubt(steps);
            }
        }
        believed
    }

    /// Rule U7: a tier holds these blocks of this client, the one used longest ago first, with the
    /// times of their last uses. Those that the client believes in no tier are there from now on,
    /// the youngest first, as far as the tier has frames: in their places, where the stack knows
    /// them, the others below everything that it knows. Takes O(n) for the whole stack.
    pub fn recall(&mut self, held: &[(Handle, u64)], tier: Tier, steps: &mut Vec<Step>) {
        let out = self.sizes.out();
        assert!(tier < out, "C1: no block is held out of all tiers");
        let mut free = self.sizes.of(tier).saturating_sub(self.stack.len(tier)) as usize;
        let mut forgotten = Vec::new();
        for &(block, time) in held.iter().rev() {
            if free == 0 {
                break;
            }
            match self.stack.find(block) {
                Some((level, _)) if level < out => continue,
                Some(_) => self.stack.set_level(block, tier),
                None => forgotten.push((block, time)),
            }
            free -= 1;
        }
        forgotten.reverse();
        self.stack.slide_under(&forgotten, tier);
        self.forget_surplus(steps);
    }

    /// Memory that the stack takes.
    pub fn bytes(&self) -> u64 {
        self.stack.bytes() as u64
    }

    /// Blocks of the stack with their tiers and times, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (Handle, Tier, u64)> + '_ {
        self.stack.iter()
    }

    /// Checks C1 and C2, and the stack.
    pub fn validate(&self) {
        self.stack.validate();
        for (tier, frames) in self.sizes.iter() {
            assert!(self.stack.len(tier) <= frames, "C1: {} blocks in {tier:?}", self.stack.len(tier));
        }
        let out = self.sizes.out();
        let (last, uncached) = (self.stack.yardstick(Tier(out.0 - 1)), self.stack.yardstick(out));
        assert!(last == NO_SLOT || uncached == NO_SLOT || last < uncached, "C2: an entry below Y_n");
        let cached = self.stack.entries() - self.stack.len(out);
        assert!(self.stack.entries() <= self.entries_max.max(cached), "C2: too many entries");
    }

    #[inline]
    fn first_not_full(&self) -> Option<Tier> {
        let mut tiers = self.sizes.iter();
        tiers
            .find(|&(tier, frames)| match tier <= self.own {
                true => self.stack.len(tier) < frames && !self.full[tier.index()],
                false => {
                    let is_used = self.wider[tier.index()] && self.stack.len(tier) >= frames;
                    !self.full[tier.index()] && !is_used
                }
            })
            .map(|(tier, _)| tier)
    }

    /// Slot of Y_k. Without a block, an own tier takes nothing by age, and a shared one everything
    /// the stack knows.
    #[inline]
    fn yardstick(&self, tier: Tier) -> u32 {
        match self.stack.yardstick(tier) {
            NO_SLOT if tier > self.own => self.stack.oldest(),
            slot => slot,
        }
    }
}
