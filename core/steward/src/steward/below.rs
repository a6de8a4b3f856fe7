//! Lower tiers: where a block is kept by its references, and where it goes when it leaves.
//!
//! B1  The frames are `base`, and one more for each block that passes. Of those that are here there
//!     are no more than may pass, and these are pinned: they are no candidates of LRU-SP. So
//!     neither takes a frame from the other, however many requests there are.
//! B2  A block goes to a tier only under the version that its file has now, and not while the file
//!     changes.

use alloc::boxed::Box;
use alloc::vec::Vec;

use pantler_policy::Handle;

use super::Steward;
use crate::decision::{Decision, Rule};
use crate::placement::Tier;
use crate::tiers::{Hierarchy, Leaving, Sought, Tiers, WayDown};
use crate::{Access, Action, Block, FileId, Frame, Kept, Label, Options, OptionsError, OwnerId, Version};

impl Steward {
    /// A steward over lower tiers. `options` say how many frames tier 1 has, those for blocks that
    /// pass among them; a block has one page.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] when the options leave no frame, or the tiers make no hierarchy.
    pub fn with_tiers(options: Options, hierarchy: &Hierarchy<'_>) -> Result<Self, OptionsError> {
        if options.block_pages != 1 {
            return Err(OptionsError::BlockPages(options.block_pages));
        }
        options.check()?;
        let tiers = Tiers::new(options.capacity, hierarchy, options.seed).map_err(OptionsError::Tiers)?;
        let mut steward = Self::new(Options { capacity: tiers.frames(0), ..options })?;
        steward.tiers = Some(Box::new(tiers));
        Ok(steward)
    }

    /// The time in microseconds, which does not go back, and whether what leaves can be sent down:
    /// said before references, and before anything else that is told of tiers.
    pub fn tell_tiers(&mut self, now_us: u64, way_down: WayDown) {
        if let Some(tiers) = &mut self.tiers {
            tiers.tell(now_us, way_down);
        }
    }

    /// What a version of a file is called in lower tiers from now on. `None`: it is not shared,
    /// because it changes just now, may change without a trace, or is no more (B2).
    pub fn share(&mut self, file: FileId, version: Option<Version>) {
        if let Some(tiers) = &mut self.tiers {
            tiers.share(file, version);
        }
    }

    /// What a missing block is to be looked for by in lower tiers, and where it is to be kept. The
    /// body looks now, and says what it [`found`](Self::found).
    pub fn seek(&mut self, block: Block) -> Option<Sought> {
        let frame = self.entries.find(block)?;
        self.tiers.as_mut()?.seek(block, frame)
    }

    /// The block that was [sought](Self::seek) is in this tier, or in none. Can queue actions.
    pub fn found(&mut self, block: Block, sought: Sought, found: Option<Tier>) {
        if let (Some(tiers), Some(frame)) = (&mut self.tiers, self.entries.find(block)) {
            tiers.found(frame, sought, found);
            self.order();
        }
    }

    /// A block is not where it was believed: in `tier`, or wherever it was. The tier lost it, gave
    /// it up, or never got it. Can queue actions.
    pub fn left(&mut self, label: Label, tier: Option<Tier>) {
        if let Some(tiers) = &mut self.tiers {
            tiers.left(label, tier);
            self.order();
        }
    }

    /// A shared tier says whether all its frames are used, or nothing (U5).
    pub fn tier_is_full(&mut self, tier: Tier, full: Option<bool>) {
        if let Some(tiers) = &mut self.tiers {
            tiers.tell_full(tier, full);
        }
    }

    /// A tier works that did not, or was not known: it has `frames` frames, and room `beyond` those
    /// if it would keep more than this client may use. It holds these blocks of this client, the
    /// one used longest ago first, with the times of their last uses where it knows them (U7). Can
    /// queue actions.
    pub fn tier_came(&mut self, tier: Tier, frames: u32, beyond: bool, held: &[(Label, Option<u64>)]) {
        let Some(tiers) = &mut self.tiers else { return };
        tiers.resize(tier, frames, beyond);
        let unkept = tiers.recall(tier, held);
        if beyond {
            tiers.orders.extend(unkept.into_iter().map(|label| Action::Remove { label, from: tier }));
        }
        self.order();
    }

    /// Blocks that are believed in a tier.
    pub fn blocks_in(&self, tier: Tier) -> u32 {
        self.tiers.as_ref().map_or(0, |tiers| tiers.blocks_in(tier))
    }

    /// Memory of what is known of blocks in tiers.
    pub fn tier_index_bytes(&self) -> u64 {
        self.tiers.as_ref().map_or(0, |tiers| tiers.bytes())
    }

    /// Blocks that had to leave tier 1 for nowhere, because too much was pinned.
    pub fn crowded_out(&self) -> u64 {
        self.tiers.as_ref().map_or(0, |tiers| tiers.crowded_out)
    }

    /// One reference: where its block is kept, and which blocks pass from then on.
    pub(super) fn over_tiers(
        &mut self,
        owner: OwnerId,
        block: Block,
        reference: impl FnOnce(&mut Self) -> Access,
    ) -> Access {
        let (frame, waiting_max) = (self.entries.find(block), self.waiting_max());
        let plan = self.tiers.as_mut().and_then(|tiers| tiers.plan(block, frame, waiting_max));
        if plan.is_some_and(|plan| plan.needs_way) {
            self.make_way(1);
        }
        let access = reference(self);
        let (Access::Hit(frame) | Access::Arriving(frame) | Access::Miss(frame)) = access else {
            if let (Some(tiers), Some(plan)) = (&mut self.tiers, plan) {
                tiers.give_up(plan);
            }
            return access;
        };
        if let (Some(tiers), Some(plan)) = (&mut self.tiers, plan) {
            // Blocks fetched because of it may have replaced it.
            if self.entries.find(block) == Some(frame.0) {
                let passed = tiers.passes(frame.0);
                let keep = tiers.place(owner, block, plan, frame.0, access);
                // Pinned, it is no candidate: it leaves once it has passed (B1).
                match (passed, tiers.passes(frame.0)) {
                    (false, true) => drop(self.pin(block)),
                    (true, false) => {
                        // One more is kept: not this one leaves for it, which is read now.
                        self.fit(0);
                        self.unpin(block);
                    }
                    _ => {}
                }
                if let Some(keep) = keep.filter(|&keep| keep > Tier::NEAREST) {
                    self.log_placing(block, Some(owner), Rule::Passes, Some(keep));
                }
            } else {
                tiers.give_up(plan);
            }
            self.order();
            if let Access::Hit(_) = access {
                // Prefetched, and kept elsewhere.
                self.bytes_came(block);
            }
        }
        access
    }

    /// B1: `more` blocks are going to pass.
    fn make_way(&mut self, more: u32) {
        let surplus = self.tiers.as_ref().map(|tiers| tiers.surplus(more as usize));
        surplus.into_iter().flatten().for_each(|block| self.forget(block));
        self.fit(more);
    }

    /// B1: as many frames as are kept and pass, and `more`.
    fn fit(&mut self, more: u32) {
        let Some(frames) = self.tiers.as_ref().map(|tiers| tiers.frames(more)) else { return };
        if self.capacity() != frames {
            // At least one: the base is.
            let _ = self.set_capacity(frames);
        }
    }

    /// The bytes of a block are here: a copy of them may go down.
    pub(super) fn bytes_came(&mut self, block: Block) {
        let Some(tiers) = &mut self.tiers else { return };
        if let Some(frame) = self.entries.find(block) {
            let to = tiers.arrived(block, frame);
            self.order();
            self.actions.extend(to.map(|to| Action::Put { frame: Frame(frame), to }));
        }
        self.make_way(0);
    }

    /// A block leaves its frame, with its bytes if the body `has` them. Says what goes down: where
    /// to is decided when the body asks, after all that the same reference moves.
    #[inline]
    pub(super) fn leave(&mut self, frame: Handle, has: bool) -> Option<Kept> {
        if self.tiers.is_none() { None } else { self.leave_for_tiers(frame, has) }
    }

    fn leave_for_tiers(&mut self, frame: Handle, has: bool) -> Option<Kept> {
        let owner = self.tiers.as_ref()?.owner_of(frame);
        let entry = &self.entries[frame];
        let (block, has_come) = (entry.block, has && !entry.arriving);
        let is_wanted = owner.is_none_or(|owner| self.priority(owner, block.file) >= 0);
        let destination = self.tiers.as_mut()?.leave(Leaving { block, frame, has_come, is_wanted });
        self.order();
        match destination? {
            Ok(label) => Some(Kept { label, tier: Tier::NEAREST, accessed_us: 0 }),
            Err(rule) => {
                self.log_placing(block, owner, rule, None);
                None
            }
        }
    }

    /// What follows in lower tiers is queued.
    fn order(&mut self) {
        let Some(tiers) = &mut self.tiers else { return };
        self.actions.extend(tiers.orders.drain(..));
        while let Some(frame) = self.tiers.as_mut().and_then(|tiers| tiers.crowded.pop()) {
            self.forget(self.entries[frame].block);
        }
    }

    /// Where a block goes that left is decided here (U3). What it displaces goes first, so that
    /// there is never too much.
    pub(super) fn poll_over_tiers(&mut self) -> Option<Action> {
        loop {
            let Some(action) = self.actions.pop_front() else {
                // More or fewer blocks pass now, and another may leave for that.
                self.fit(0);
                if !self.actions.is_empty() {
                    continue;
                }
                self.tiers.as_mut()?.trim();
                self.order();
                if self.actions.is_empty() {
                    return None;
                }
                continue;
            };
            let Action::Drop { block, frame, to: Some(Kept { label, tier: Tier::NEAREST, .. }) } = action
            else {
                return Some(action);
            };
            let tiers = self.tiers.as_mut()?;
            let to = tiers.pass_down(label);
            let displaced: Vec<Action> = tiers.orders.drain(..).collect();
            let rule = if to.is_some() { Rule::Demoted } else { Rule::TooOld };
            self.log_placing(block, None, rule, to.map(|kept| kept.tier));
            self.actions.push_front(Action::Drop { block, frame, to });
            displaced.into_iter().rev().for_each(|action| self.actions.push_front(action));
        }
    }

    fn log_placing(&mut self, block: Block, owner: Option<OwnerId>, rule: Rule, to: Option<Tier>) {
        if !self.log.is_on() {
            return;
        }
        let to = to.and_then(|tier| self.tiers.as_ref()?.within(tier));
        self.log.push(Decision {
            sequence: 0,
            victim: block,
            victim_owner: owner,
            candidate: block,
            newcomer: None,
            newcomer_owner: None,
            rule,
            to,
        });
    }
}
