//! Hints. `false` or `None` is the answer past a bound (C6), and then nothing has changed.

use super::*;

impl Twin {
    pub fn set_priority(&mut self, owner: OwnerId, file: FileId, priority: i32) -> bool {
        let limits = self.options.limits;
        let full = |m: &Manager| {
            let known = m.priorities.iter().any(|(f, _)| *f == file);
            !known && priority != 0 && m.priorities.len() >= limits.files_per_owner as usize
        };
        if !self.may_use(owner, priority) || self.wishes(owner).is_some_and(|m| full(&m)) {
            return false;
        }
        let Some(blocks) = self.controlled_blocks(owner) else { return true };
        let manager = self.manager(owner).unwrap();
        manager.priorities.retain(|(f, _)| *f != file);
        if priority != 0 {
            manager.priorities.push((file, priority));
        }
        let long_term = |b: &Block| b.file == file && !manager.member(*b).temporary;
        let group: Vec<Block> = blocks.into_iter().filter(long_term).collect();
        manager.move_group(&group, priority, false);
        true
    }

    pub fn set_policy(&mut self, owner: OwnerId, priority: i32, policy: PolicyName) -> bool {
        if !self.may_use(owner, priority) {
            return false;
        }
        if self.controlled_blocks(owner).is_some() {
            let manager = self.manager(owner).unwrap();
            if policy == PolicyName::Clock && manager.policy(priority) != PolicyName::Clock {
                // Marks of an earlier CLOCK are stale.
                manager.list(priority).iter_mut().for_each(|m| m.marked = false);
            }
            manager.policies.retain(|(p, _)| *p != priority);
            manager.policies.push((priority, policy));
        }
        true
    }

    /// How many blocks were marked.
    pub fn set_temporary_priority(
        &mut self,
        owner: OwnerId,
        file: FileId,
        first: u64,
        last: u64,
        priority: i32,
    ) -> Option<u64> {
        if first > last || !self.may_use(owner, priority) {
            return None;
        }
        let Some(blocks) = self.controlled_blocks(owner) else { return Some(0) };
        let named = |b: &Block| b.file == file && (first..=last).contains(&b.index);
        let group: Vec<Block> = blocks.into_iter().filter(named).collect();
        self.manager(owner).unwrap().move_group(&group, priority, true);
        Some(group.len() as u64)
    }

    /// Whether the block is the owner's, which is done with it.
    pub fn done_with(&mut self, owner: OwnerId, block: Block, priority: i32) -> Option<bool> {
        let is_own = self.set_temporary_priority(owner, block.file, block.index, block.index, priority)? > 0;
        if is_own {
            self.g.retain(|b| *b != block);
            self.g.insert(0, block);
        }
        Some(is_own)
    }

    /// Control is given up: the hints end, the blocks go back to the common owner in the order of
    /// `G`.
    pub fn release_control(&mut self, owner: OwnerId) {
        if self.manager(owner).is_none() {
            return;
        }
        self.end_list(owner);
        self.owners.iter_mut().find(|o| o.id == owner).unwrap().manager = None;
        for block in self.g.clone() {
            if self.whose(block) == Some(Whose::Manager(owner)) {
                self.adopt(owner, block);
            }
        }
    }

    /// Wishes for `old` become wishes for `new`, the blocks of `old` leave.
    pub fn supersede(&mut self, old: FileId, new: FileId) {
        if old == new {
            return;
        }
        for owner in self.owners.iter().map(|o| o.id).collect::<Vec<_>>() {
            let wish =
                self.manager(owner).and_then(|m| m.priorities.iter().find(|(f, _)| *f == old).copied());
            if let Some((_, priority)) = wish {
                self.manager(owner).unwrap().priorities.retain(|(f, _)| *f != old);
                self.set_priority(owner, new, priority);
            }
        }
        self.forget_file(old);
    }

    /// The owner's hints, or those it would begin with; none for an owner that cannot have any.
    pub(super) fn wishes(&self, owner: OwnerId) -> Option<Manager> {
        if self.options.allocation == Allocation::GlobalLru {
            return None;
        }
        let known = self.owners.iter().find(|o| o.id == owner);
        Some(known.and_then(|o| o.manager.clone()).unwrap_or_default())
    }

    /// C6: owners, owners in control and priorities in use are bounded.
    pub(super) fn may_use(&self, owner: OwnerId, priority: i32) -> bool {
        let Some(wishes) = self.wishes(owner) else { return true };
        let limits = self.options.limits;
        let known = self.owners.iter().find(|o| o.id == owner);
        let in_control = self.owners.iter().filter(|o| o.manager.is_some()).count();
        let owners_full = known.is_none() && self.owners.len() >= limits.owners as usize;
        let managers_full =
            known.is_none_or(|o| o.manager.is_none()) && in_control >= limits.managers as usize;
        let mut used: Vec<i32> = wishes.priorities.iter().map(|(_, p)| *p).collect();
        used.extend(wishes.policies.iter().filter(|(_, name)| *name != PolicyName::Lru).map(|(p, _)| *p));
        used.extend(wishes.lists.iter().filter(|(_, list)| !list.is_empty()).map(|(p, _)| *p));
        used.push(0);
        used.sort_unstable();
        used.dedup();
        let priorities_full = !used.contains(&priority) && used.len() >= limits.priorities_per_owner as usize;
        !owners_full && !managers_full && !priorities_full
    }

    /// C8: the owner's own blocks; a first control call takes them over from the common owner in
    ///     the order of `G`.
    /// None without managers.
    pub(super) fn controlled_blocks(&mut self, owner: OwnerId) -> Option<Vec<Block>> {
        self.know(owner);
        if self.options.allocation == Allocation::GlobalLru {
            return None;
        }
        if self.manager(owner).is_none() {
            let known = self.owners.iter_mut().find(|o| o.id == owner).unwrap();
            known.manager = Some(Manager::default());
            for block in self.g.clone() {
                if self.whose(block) == Some(Whose::Common(Some(owner))) {
                    self.common.remove(block);
                    self.adopt(owner, block);
                }
            }
        }
        Some(self.g.iter().copied().filter(|b| self.whose(*b) == Some(Whose::Manager(owner))).collect())
    }
}
