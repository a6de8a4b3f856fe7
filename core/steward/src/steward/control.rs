//! How owners begin, control their blocks, lose control, and end (rules C1 to C3, C6, C8 to C10,
//! L7).
//!
//! A call affects the caller's blocks only, and either happens as a whole or changes nothing.

use alloc::vec::Vec;

use pantler_policy::{Handle, Links, PolicyName};

use super::Steward;
use crate::entry::{Brought, Entries, Entry, Room};
use crate::manager::Manager;
use crate::owners::{COMMON, NOBODY, OwnerKey};
use crate::shadow::Shadow;
use crate::{Access, Action, Block, FileId, HintError, Options, OwnerId, OwnerStat};

impl Steward {
    // Owners.

    /// `child` is new, and comes from `parent` by a fork: it is born with its parent's standing
    /// (L7), and nothing else of it. An owner that has lost control has it no more by forking.
    pub fn born(&mut self, child: OwnerId, parent: OwnerId) {
        if let Some(parent) = self.owner(parent) {
            self.owners.begin(child, parent.revoked);
        }
    }

    /// `owner` is new, and comes from one that had lost control and is gone: it begins without, as
    /// if it had lost it itself (L7).
    pub fn born_revoked(&mut self, owner: OwnerId) {
        self.owners.begin(owner, true);
    }

    /// A revoked owner gets its control back (L7). Says whether it was revoked.
    pub fn grant(&mut self, owner: OwnerId) -> bool {
        self.owners.grant(owner)
    }

    /// `owner` is no more: its blocks have no owner (A1), its control ends.
    ///
    /// With a policy of its own the common owner keeps the blocks of owners that exit from it.
    pub fn exit(&mut self, owner: OwnerId) {
        let Some(key) = self.owners.find(owner) else { return };
        self.end_program(key);
        for frame in self.disband(key) {
            self.owners.charge(&mut self.entries[frame], NOBODY);
        }
        self.owners.bury(key);
        self.in_shadow(|shadow| shadow.exit(owner));
    }

    fn disband(&mut self, key: OwnerKey) -> Vec<Handle> {
        self.lists.remove(key);
        self.owners.disband(key, &mut self.entries)
    }

    // Control.

    /// C1: sets the long-term priority of a file for `owner`. Its cached blocks move at once, but
    /// for those under a temporary priority.
    ///
    /// # Errors
    ///
    /// [`HintError`] past a bound.
    pub fn set_priority(&mut self, owner: OwnerId, file: FileId, priority: i32) -> Result<(), HintError> {
        let limits = self.options.limits;
        let wished = self.wish(owner, |manager, _, _| manager.set_priority(file, priority, &limits))?;
        let Some((key, level)) = wished else { return Ok(()) };
        let frames = self.own_frames(key, file, |entry| !entry.temporary);
        self.move_frames(key, &frames, level);
        Ok(())
    }

    /// C1: the long-term priority of a file for `owner`.
    pub fn priority(&self, owner: OwnerId, file: FileId) -> i32 {
        self.manager_of(owner).map_or(0, |manager| manager.priority(file))
    }

    /// C2: sets the policy of a priority for `owner`. The blocks there keep their order; what
    /// another policy knew of them beyond that is lost.
    ///
    /// # Errors
    ///
    /// [`HintError`] past a bound.
    pub fn set_policy(&mut self, owner: OwnerId, priority: i32, policy: PolicyName) -> Result<(), HintError> {
        let limits = self.options.limits;
        self.wish(owner, |manager, links, entries| {
            manager.set_policy(links, entries, priority, policy.spec(), &limits)
        })?;
        Ok(())
    }

    /// `owner` is a program that says nothing of what it reads: it gets `auto` for its own, so that
    /// what it reads is told apart from what others do, and LRU-SP protects them from it. Past the
    /// bound of owners in control it goes on as one without.
    pub fn find_policy(&mut self, owner: OwnerId) {
        if self.manager_of(owner).is_none() && self.set_policy(owner, 0, PolicyName::Auto).is_ok() {
            let key = self.owners.key(owner);
            let Options { seed, block_pages, .. } = self.options;
            if let Some((manager, _)) = self.owners.manager_mut(key) {
                manager.is_silent = true;
                // Blocks count as frames.
                if block_pages == 1 {
                    manager.watch_for_scans(seed, self.options.capacity);
                }
            }
        }
    }

    /// `owner` runs `program` and says nothing of what it reads: while it has no control its blocks
    /// are kept by the `auto` of that program. A program that is unknown begins. It ends by
    /// [`exit`](Self::exit), and not with the last that runs it.
    ///
    /// Nothing changes where the common owner's policy is another than `auto`, for that was chosen
    /// for all; over tiers, where what leaves goes down in one order; and past the bound of
    /// managers.
    pub fn join_program(&mut self, owner: OwnerId, program: OwnerId) {
        let policy = self.options.common_policy;
        let finds = policy.policy_name() == Some(PolicyName::Auto) && self.tiers.is_none();
        if !finds || !self.options.allocation.has_managers() {
            return;
        }
        let known = self.owners.find(program).is_some_and(|key| self.owners.is_program(key));
        if !known && self.owners.programs() + self.managers() >= self.options.limits.managers {
            return;
        }
        let (key, program) = (self.owners.key(owner), self.owners.key(program));
        if key == COMMON || program == COMMON || key == program || self.owners.program_of(key) == program {
            return;
        }
        if self.owners.is_program(key) || !known && self.owners.stat(program).is_some_and(was_an_owner) {
            return;
        }
        if !known {
            self.owners.begin_program(program, Manager::of_program(self.options.seed, policy));
        }
        let is_in_control = self.owners.is_in_control(key);
        let frames = if is_in_control { Vec::new() } else { self.own_blocks_in_order(key) };
        frames.iter().for_each(|&frame| self.unmanage(frame));
        self.owners.join(key, program);
        frames.iter().for_each(|&frame| self.manage(frame));
    }

    /// The common owner gets what a program's manager keeps, in the order in which that got it.
    fn end_program(&mut self, program: OwnerKey) {
        if !self.owners.is_program(program) {
            return;
        }
        let mut frames: Vec<Handle> = self.owners.listed(program).collect();
        frames.sort_unstable_by_key(|&frame| self.owners.stamp(frame));
        frames.iter().for_each(|&frame| self.unmanage(frame));
        self.owners.end_program(program);
        for frame in frames {
            if self.entries[frame].owner == program {
                self.owners.charge(&mut self.entries[frame], COMMON);
            }
            self.manage(frame);
        }
    }

    /// Whether an owner in control has said something.
    pub fn has_hints(&self, owner: OwnerId) -> bool {
        self.manager_of(owner).is_some_and(|manager| !manager.is_silent)
    }

    /// C2: the policy of a priority for `owner`.
    pub fn policy(&self, owner: OwnerId, priority: i32) -> PolicyName {
        self.manager_of(owner).map_or(PolicyName::Lru, |manager| manager.policy(priority))
    }

    /// C3: gives the cached blocks `first..=last` of a file another priority until each is next
    /// referenced or replaced. Returns how many blocks of `owner` that are.
    ///
    /// # Errors
    ///
    /// [`HintError`] past a bound, or when `last` comes before `first`.
    pub fn set_temporary_priority(
        &mut self,
        owner: OwnerId,
        file: FileId,
        first: u64,
        last: u64,
        priority: i32,
    ) -> Result<u64, HintError> {
        if last < first {
            return Err(HintError::EmptyRange { first, last });
        }
        let limits = self.options.limits;
        let wished = self.wish(owner, |manager, _, _| manager.level(priority, &limits))?;
        let Some((key, level)) = wished else { return Ok(0) };
        let frames: Vec<Handle> = if first == last {
            let frame = self.entries.find(Block::new(file, first));
            frame.filter(|&frame| self.is_own(key, frame)).into_iter().collect()
        } else {
            self.own_frames(key, file, |entry| (first..=last).contains(&entry.block.index))
        };
        self.move_frames(key, &frames, level);
        for &frame in &frames {
            self.entries[frame].temporary = true;
        }
        Ok(frames.len() as u64)
    }

    /// C9: `owner` is done with a cached block of its own, which gets this priority as by
    /// [`set_temporary_priority`](Self::set_temporary_priority). It is the next candidate, so that
    /// no other owner gives a frame for what `owner` reads on. Says whether the block is the
    /// owner's.
    ///
    /// # Errors
    ///
    /// [`HintError`] past a bound.
    pub fn done_with(&mut self, owner: OwnerId, block: Block, priority: i32) -> Result<bool, HintError> {
        let is_own = self.set_temporary_priority(owner, block.file, block.index, block.index, priority)? > 0;
        if let Some(frame) = self.entries.find(block).filter(|_| is_own) {
            self.rooms.retire(frame);
        }
        Ok(is_own)
    }

    /// C10: `owner` advised that it is done with a cached block of its own, which needs no control.
    /// It is the next candidate, and has no owner: no manager names another block in its place. The
    /// next reference makes it new. Says whether the block is the owner's, and was used.
    pub fn retire(&mut self, owner: OwnerId, block: Block) -> bool {
        let Some(key) = self.owners.find(owner) else { return false };
        let own = self.entries.find(block).filter(|&frame| self.is_own(key, frame));
        let Some(frame) = own.filter(|&frame| self.entries[frame].brought == Brought::Reference) else {
            return false;
        };
        self.unmanage(frame);
        self.owners.charge(&mut self.entries[frame], NOBODY);
        self.entries[frame].brought = Brought::Retired;
        self.rooms.retire(frame);
        true
    }

    /// `owner` gives up control: its hints end, and its blocks go back to the common owner. Its
    /// standing stays: one that was revoked is so still when it makes its next call (L7).
    pub fn release_control(&mut self, owner: OwnerId) {
        let Some(key) = self.owners.find(owner) else { return };
        if self.disband(key).is_empty() {
            return;
        }
        for frame in self.own_blocks_in_order(key) {
            self.manage(frame);
        }
    }

    /// The hints of all owners for `old` go over to `new`: another version of the same file. The
    /// blocks of `old` leave as by [`forget_file`](Steward::forget_file).
    pub fn supersede(&mut self, old: FileId, new: FileId) {
        if old == new {
            return;
        }
        let wishes = self.owners.managers().map(|(key, manager)| (key, manager.priority(old)));
        let wishes: Vec<(OwnerKey, i32)> = wishes.filter(|(_, priority)| *priority != 0).collect();
        self.forget_file(old);
        let limits = self.options.limits;
        for (key, priority) in wishes {
            // One hint went and one comes, for a priority that is in use: no bound can be passed.
            let manager = self.owners.manager_mut(key);
            let level = manager.and_then(|(manager, _)| manager.set_priority(new, priority, &limits).ok());
            if let Some(level) = level {
                let frames = self.own_frames(key, new, |entry| !entry.temporary);
                self.move_frames(key, &frames, level);
            }
        }
    }

    /// Files of which a body keeps nothing any more, not even a name: all hints for them end, so
    /// that they do not count towards any bound (C6). None of their blocks is cached.
    pub fn forget_wishes(&mut self, is_gone: impl Fn(FileId) -> bool) {
        self.owners.managers_mut().for_each(|manager| manager.forget_files(&is_gone));
    }

    /// Takes control for `owner` if it has none, and tells its manager a wish. `None` without
    /// managers (`global-lru`), where calls are accepted and change nothing.
    fn wish<T>(
        &mut self,
        owner: OwnerId,
        wish: impl Fn(&mut Manager, &mut Links, &Entries) -> Result<T, HintError>,
    ) -> Result<Option<(OwnerKey, T)>, HintError> {
        if !self.options.allocation.has_managers() {
            self.owners.key(owner);
            return Ok(None);
        }
        if self.manager_of(owner).is_none() {
            // C6: a first call that passes a bound leaves no trace, so it is tried on a spare
            // manager.
            wish(&mut Manager::new(self.options.seed), &mut Links::default(), &self.entries)?;
        }
        let key = self.take_control(owner)?;
        let Some((manager, managed)) = self.owners.manager_mut(key) else { return Ok(None) };
        let wished = wish(manager, managed, &self.entries)?;
        manager.is_told();
        Ok(Some((key, wished)))
    }

    /// C8: the first control call of an owner moves its blocks from the common owner to its own
    /// manager, in the order of `G`.
    pub(super) fn take_control(&mut self, owner: OwnerId) -> Result<OwnerKey, HintError> {
        let limits = self.options.limits;
        if self.manager_of(owner).is_none() && self.managers() >= limits.managers {
            return Err(HintError::TooManyOwners(limits.managers));
        }
        let key = self.owners.key(owner);
        if key == COMMON || self.owners.is_program(key) {
            return Err(HintError::TooManyOwners(limits.owners));
        }
        if self.owners.is_in_control(key) {
            return Ok(key);
        }
        let frames = self.own_blocks_in_order(key);
        frames.iter().for_each(|&frame| self.unmanage(frame));
        self.owners.take_control(key, self.options.seed);
        frames.iter().for_each(|&frame| self.manage(frame));
        Ok(key)
    }

    /// Blocks of an owner in the order of `G`.
    fn own_blocks_in_order(&self, key: OwnerKey) -> Vec<Handle> {
        let own = |&frame: &Handle| self.entries[frame].owner == key;
        self.rooms.in_order().filter(own).take(self.owners.blocks(key) as usize).collect()
    }

    /// Blocks of a file that an owner's manager lists and `wanted` accepts, in order of their
    /// stamps (C5).
    fn own_frames(&self, key: OwnerKey, file: FileId, wanted: impl Fn(&Entry) -> bool) -> Vec<Handle> {
        let own = |&frame: &Handle| self.is_own(key, frame) && wanted(&self.entries[frame]);
        let mut frames: Vec<Handle> = self.files.frames(file).filter(own).collect();
        frames.sort_unstable_by_key(|&frame| self.owners.stamp(frame));
        frames
    }

    fn is_own(&self, key: OwnerKey, frame: Handle) -> bool {
        let entry = &self.entries[frame];
        entry.owner == key && entry.room == Room::Weighing
    }

    fn move_frames(&mut self, key: OwnerKey, frames: &[Handle], level: u16) {
        if let Some((manager, managed)) = self.owners.manager_mut(key) {
            manager.move_group(managed, &mut self.entries, frames, level);
        }
    }

    pub(super) fn manager_of(&self, owner: OwnerId) -> Option<&Manager> {
        self.owners.manager(self.owners.find(owner)?)
    }

    // The shadow, and revocation (L7).

    /// A reference, and the same in the shadow if there was one before.
    #[inline]
    pub(super) fn shadowed(
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
        let left = entry.is_some_and(|entry| entry.brought.was_used());
        let access = reference(self);
        if access != Access::Full {
            self.follow_in_shadow(owner, block, left);
        }
        access
    }

    #[cold]
    #[inline(never)]
    fn follow_in_shadow(&mut self, owner: OwnerId, block: Block, left: bool) {
        let weighing = self.rooms.weighing_max();
        let pages = self.entries.find(block).map_or(1, |frame| self.entries.pages(frame));
        // One that overruled by its own word answers for its own misses.
        let is_silent = self.manager_of(owner).is_some_and(|manager| manager.is_silent);
        let overruled_none = self.owner(owner).is_none_or(|it| it.revoked || it.counters.overrules == 0);
        // An owner that gave frames because it scans misses some by that.
        let has_given = self.owners.find(owner).is_some_and(|key| self.owners.has_given(key));
        let is_oblivious = (is_silent || overruled_none) && !has_given;
        // There a program is one owner: what it holds is compared as a whole.
        let program = self.owners.find(owner).map(|key| self.owners.program_of(key));
        let owner = program.and_then(|program| self.owners.id(program)).unwrap_or(owner);
        let Some(shadow) = self.shadow.as_deref_mut() else { return };
        let hit = shadow.reference(owner, block, pages, weighing);
        if is_oblivious
            && shadow.compare(left, hit, self.options.revocation)
            && let Some((key, owner, notice)) = shadow.accuse(&self.owners, weighing)
        {
            self.owners.revoke(key);
            self.actions.push_back(Action::Notice { owner, notice });
        }
        if !shadow.is_of_use(&self.owners, self.options.frames()) {
            self.shadow = None;
        }
    }

    /// An owner overruled: whether it harms others is seen from now on, if there are any.
    pub(super) fn begin_shadow(&mut self) {
        if self.options.revocation.needed != u32::MAX && self.owners.live() > 1 {
            self.shadow = Shadow::new(&self.options, self.rooms.weighing_max());
        }
    }

    /// What happens to blocks and owners from outside happens in the shadow, too.
    pub(super) fn in_shadow(&mut self, event: impl FnOnce(&mut Self)) {
        if let Some(shadow) = self.shadow.as_deref_mut() {
            shadow.tell(event);
        }
    }
}

/// Whether it did what owners do, so that it is no new program.
fn was_an_owner(stat: OwnerStat) -> bool {
    stat.in_control || stat.revoked || stat.counters != Default::default()
}
