//! Which owner gives up a frame: allocation, victims, overrules, placeholders (A1, A2, L1 to L6).

use super::*;

impl Twin {
    /// L1 and A1.
    pub(super) fn hit(&mut self, owner: OwnerId, block: Block) {
        self.placeholders.retain(|(_, to)| *to != block);
        self.g.retain(|b| *b != block);
        self.g.push(block);
        let controlled = self.manager(owner).is_some();
        match self.entry(block).whose {
            Whose::Manager(theirs) if theirs != owner => self.disown(block),
            Whose::Common(_) if controlled => self.disown(block),
            Whose::Common(Some(theirs)) if theirs != owner => self.entry(block).whose = Whose::Common(None),
            _ => {}
        }
        match self.entry(block).whose {
            Whose::Manager(owner) => self.manager(owner).unwrap().block_accessed(block),
            Whose::Common(_) | Whose::Orphan => self.common.block_accessed(block),
            Whose::Nobody => {}
        }
    }

    /// L2 with L5: makes room for `block`, which is outside the weighing room. Says whether it
    ///    could;
    /// if not, blocks were dropped as far as pins allowed.
    pub(super) fn allocate(&mut self, block: Block, pages: usize) -> bool {
        self.trim_weighing();
        if self.weighed() + pages <= self.weighing_pages() {
            self.placeholders.retain(|(from, _)| *from != block);
        }
        while self.weighed() + pages > self.weighing_pages() {
            if !self.replace_for(block) {
                return false;
            }
        }
        true
    }

    /// L2: one block leaves for `block`. Without one that may, `P[block]` stays for the next try.
    pub(super) fn replace_for(&mut self, block: Block) -> bool {
        let Some(oldest) = self.g.iter().copied().find(|b| !self.pinned(*b)) else { return false };
        let at = self.placeholders.iter().position(|(from, _)| *from == block);
        let to = at.map(|at| self.placeholders.remove(at).1);
        if let Some(to) = to {
            self.mistake(to);
        }
        self.replace(to.filter(|to| !self.pinned(*to)).unwrap_or(oldest));
        true
    }

    /// W5: a trim without a missing block takes L2's candidate from the LRU end.
    pub(super) fn trim_weighing(&mut self) {
        while self.weighed() > self.weighing_pages() {
            let Some(oldest) = self.g.iter().copied().find(|b| !self.pinned(*b)) else { return };
            self.replace(oldest);
        }
    }

    pub(super) fn trim_waiting(&mut self) {
        while self.waiting.len() > self.options.waiting as usize {
            let Some(oldest) = self.waiting.iter().copied().find(|b| !self.pinned(*b)) else { return };
            self.drop(oldest);
        }
    }

    /// L6: the one made first goes first.
    pub(super) fn trim_placeholders(&mut self) {
        let bound = self.options.placeholders.unwrap_or(self.options.frames()) as usize;
        while bound > 0 && self.placeholders.len() > bound {
            self.placeholders.remove(0);
        }
    }

    /// L3 and L4.
    pub(super) fn replace(&mut self, candidate: Block) {
        let victim = self.name_victim(candidate);
        if victim == candidate {
            self.placeholders.retain(|(_, to)| *to != candidate);
        } else {
            self.overrule(candidate, victim);
        }
        self.drop(victim);
    }

    /// Tells the body that `block` leaves, and remembers its owner in case it cannot.
    pub(super) fn drop(&mut self, block: Block) {
        let whose = self.whose(block).unwrap();
        self.dropped.retain(|(b, _)| *b != block);
        self.dropped.push((block, whose));
        self.remove(block);
        self.deeds.push(Deed::Drop(block));
    }

    pub(super) fn name_victim(&mut self, candidate: Block) -> Block {
        if self.options.allocation == Allocation::GlobalLru {
            return candidate;
        }
        let pins: Vec<Block> = self.cached.iter().filter(|c| c.pins > 0).map(|c| c.block).collect();
        let pinned = |b: Block| pins.contains(&b);
        if matches!(self.whose(candidate), Some(Whose::Manager(owner)) if self.revoked(owner)) {
            return candidate;
        }
        if let Some(Whose::Manager(owner)) = self.whose(candidate)
            && self.lists.iter().any(|list| list.owner == owner)
            && self.trusts(owner)
        {
            return self.name_by_list(owner).unwrap_or(candidate);
        }
        let manager = match self.whose(candidate).unwrap() {
            Whose::Nobody => return candidate,
            // With LRU the common owner's manager always agrees: exactly the paper.
            Whose::Common(_) | Whose::Orphan if self.common_policy() == PolicyName::Lru => return candidate,
            Whose::Common(_) | Whose::Orphan => &mut self.common,
            Whose::Manager(owner) => self.manager(owner).unwrap(),
        };
        manager.replace_block(&pinned).unwrap_or(candidate)
    }

    pub(super) fn overrule(&mut self, candidate: Block, victim: Block) {
        let manager = match self.whose(victim).unwrap() {
            Whose::Manager(owner) => Some(owner),
            _ => None,
        };
        self.overrules.push(Overrule { manager, candidate, victim });
        if self.options.allocation != Allocation::AllocLru {
            let (c, v) = (self.place(candidate), self.place(victim));
            self.g.swap(c, v);
        }
        if self.options.allocation == Allocation::LruSp {
            for (_, to) in self.placeholders.iter_mut().filter(|(_, to)| *to == victim) {
                *to = candidate;
            }
            self.placeholders.push((victim, candidate));
        }
        self.trim_placeholders();
        self.count(manager, |tally| tally.overrules += 1);
        if manager.is_some() {
            self.begin_shadow();
        }
    }

    /// L2: the placeholder of a missing block points to `to`; its owner erred.
    pub(super) fn mistake(&mut self, to: Block) {
        let manager = match self.whose(to).unwrap() {
            Whose::Nobody => return,
            Whose::Common(_) | Whose::Orphan if self.common_policy() == PolicyName::Lru => return,
            Whose::Common(_) | Whose::Orphan => None,
            Whose::Manager(owner) => Some(owner),
        };
        if manager.is_some_and(|owner| self.revoked(owner)) {
            return;
        }
        self.count(manager, |tally| tally.mistakes += 1);
    }

    /// L8: leaves otherwise than as victim.
    pub(super) fn leave(&mut self, block: Block) {
        self.placeholders.retain(|(_, to)| *to != block);
        if self.cached.iter().any(|c| c.block == block) {
            self.remove(block);
        }
    }

    pub(super) fn remove(&mut self, block: Block) {
        self.settle(block, false);
        self.waste(block);
        self.disown(block);
        self.cached.retain(|c| c.block != block);
        self.g.retain(|b| *b != block);
        self.waiting.retain(|b| *b != block);
    }

    pub(super) fn enter(&mut self, owner: OwnerId, block: Block) {
        // Also when it enters above the capacity: `P` maps blocks outside the weighing room only.
        self.placeholders.retain(|(from, _)| *from != block);
        self.g.push(block);
        self.adopt(owner, block);
    }

    pub(super) fn adopt(&mut self, owner: OwnerId, block: Block) {
        if let Some(manager) = self.manager(owner) {
            manager.new_block(block);
            self.entry(block).whose = Whose::Manager(owner);
        } else if !self.alive(owner) {
            self.adopt_for_all(block);
        } else {
            self.common.new_block(block);
            self.entry(block).whose = Whose::Common(Some(owner));
        }
    }

    pub(super) fn adopt_for_all(&mut self, block: Block) {
        self.common.new_block(block);
        self.entry(block).whose = Whose::Common(None);
    }

    pub(super) fn disown(&mut self, block: Block) {
        match self.entry(block).whose {
            Whose::Manager(owner) => drop(self.manager(owner).unwrap().remove(block)),
            Whose::Common(_) | Whose::Orphan => drop(self.common.remove(block)),
            Whose::Nobody => {}
        }
        self.entry(block).whose = Whose::Nobody;
    }
}
