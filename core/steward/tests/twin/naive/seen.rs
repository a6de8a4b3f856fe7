//! What the tests look at.

use super::*;

impl Twin {
    pub fn deeds(&mut self) -> Vec<Deed> {
        std::mem::take(&mut self.deeds)
    }

    pub fn whose(&self, block: Block) -> Option<Whose> {
        self.cached.iter().find(|c| c.block == block).map(|c| c.whose)
    }

    /// What is known of a cached block; the frame is the body's business.
    pub fn explain(&self, block: Block) -> Option<Known> {
        let cached = self.cached.iter().find(|c| c.block == block)?;
        let manager = match cached.whose {
            Whose::Manager(owner) => {
                self.owners.iter().find(|o| o.id == owner).and_then(|o| o.manager.as_ref())
            }
            Whose::Common(_) | Whose::Orphan if self.common_policy() != PolicyName::Lru => Some(&self.common),
            _ => None,
        };
        Some(Known {
            owner: match cached.whose {
                Whose::Manager(owner) => Some(owner),
                Whose::Common(owner) => owner,
                Whose::Nobody | Whose::Orphan => None,
            },
            waits: self.waiting.contains(&block),
            priority: manager.and_then(|m| m.find(block)).map(|(priority, _)| priority),
            temporary: manager.is_some_and(|m| m.member(block).temporary),
            pinned: cached.pins > 0,
            arriving: cached.arriving,
        })
    }

    pub fn used(&self) -> usize {
        self.cached.len()
    }

    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub fn placeholders(&self) -> usize {
        self.placeholders.len()
    }

    /// The cached blocks of a file, in order of arrival.
    pub fn cached_of(&self, file: FileId) -> Vec<Block> {
        self.cached.iter().map(|c| c.block).filter(|b| b.file == file).collect()
    }

    pub fn owners(&self) -> Vec<OwnerId> {
        self.owners.iter().map(|o| o.id).collect()
    }

    pub fn tally(&self, owner: OwnerId) -> Option<Tally> {
        self.owners.iter().find(|o| o.id == owner).map(|o| o.tally)
    }

    /// Blocks charged to an owner, or only to the common owner.
    pub fn blocks_of(&self, owner: Option<OwnerId>) -> usize {
        let charged = |whose| match owner {
            Some(owner) => whose == Whose::Manager(owner) || whose == Whose::Common(Some(owner)),
            None => whose == Whose::Common(None),
        };
        self.cached.iter().filter(|c| charged(c.whose)).count()
    }

    pub fn in_control(&self, owner: OwnerId) -> bool {
        self.owners.iter().any(|o| o.id == owner && o.manager.is_some())
    }

    pub fn revoked(&self, owner: OwnerId) -> bool {
        self.owners.iter().any(|o| o.id == owner && o.revoked)
    }

    pub fn priority(&self, owner: OwnerId, file: FileId) -> i32 {
        let manager = self.owners.iter().find(|o| o.id == owner).and_then(|o| o.manager.as_ref());
        manager.map_or(0, |m| m.priority(file))
    }

    pub fn policy(&self, owner: OwnerId, priority: i32) -> PolicyName {
        let manager = self.owners.iter().find(|o| o.id == owner).and_then(|o| o.manager.as_ref());
        manager.map_or(PolicyName::Lru, |m| m.policy(priority))
    }

    pub(super) fn common_policy(&self) -> PolicyName {
        // Without managers the common owner has none either.
        if self.options.allocation == Allocation::GlobalLru {
            PolicyName::Lru
        } else {
            self.options.common_policy.policy_name().expect("online")
        }
    }
}
