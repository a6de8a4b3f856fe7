//! Standing: whether an owner's choices count (rule L7).
//!
//! It is the owner's, not its manager's: it outlives wishes that are taken back, and a child is born with that of its
//! parent. Else an owner that lost control would have it back for the price of a call or of a fork.
//!
//! ```text
//!   in good standing --- mistakes exceed their share within a window ---> revoked
//!         ^                                                                  |
//!         +------------------------------ grant -----------------------------+
//! ```
//!
//! Why so: docs/decisions/0011-standing-of-owners.md.

use crate::options::Revocation;
use crate::owners::COMMON;
use crate::{Notice, OwnerId, Steward};

/// How one owner's overrules went.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standing {
    revoked: bool,
    overrules: u32,
    mistakes: u32,
}

impl Standing {
    /// Control was lost before anything was counted.
    pub(crate) const REVOKED: Self = Self { revoked: true, overrules: 0, mistakes: 0 };

    pub(crate) fn is_revoked(&self) -> bool {
        self.revoked
    }

    /// An overrule of the past was wrong (the fifth notice of C7). What to say if control is lost by it.
    pub(crate) fn placeholder_used(&mut self, revocation: Revocation) -> Option<Notice> {
        self.mistakes = self.mistakes.saturating_add(1);
        self.judge(revocation)
    }

    /// The victim was not the candidate. What to say if control is lost by it.
    pub(crate) fn overruled(&mut self, revocation: Revocation) -> Option<Notice> {
        // Without a window nothing starts anew.
        self.overrules = self.overrules.saturating_add(1);
        let notice = self.judge(revocation);
        if revocation.window != 0 && self.overrules >= revocation.window {
            (self.overrules, self.mistakes) = (0, 0);
        }
        notice
    }

    fn judge(&mut self, revocation: Revocation) -> Option<Notice> {
        let (overrules, mistakes) = (u64::from(self.overrules), u64::from(self.mistakes));
        let guilty = revocation.window != 0
            && overrules >= u64::from(revocation.needed)
            && mistakes * 100 > u64::from(revocation.share_percent) * overrules;
        self.revoked |= guilty;
        guilty.then_some(Notice::Revoked { overrules: self.overrules, mistakes: self.mistakes })
    }
}

impl Steward {
    /// `child` is new, and comes from `parent` by a fork: it is born with its parent's standing (L7), and nothing else of
    /// it. An owner that has lost control has it no more by forking.
    pub fn born(&mut self, child: OwnerId, parent: OwnerId) {
        let parent = self.owners.find(parent).and_then(|key| self.owners.alive(key));
        let Some(standing) = parent.map(|record| record.standing) else { return };
        self.set_standing(child, standing);
    }

    /// `owner` is new, and comes from one that had lost control and is gone: it begins without, as if it had lost it
    /// itself (L7).
    pub fn born_revoked(&mut self, owner: OwnerId) {
        self.set_standing(owner, Standing::REVOKED);
    }

    /// A revoked owner gets its control back, and a new window (L7). Says whether it was revoked.
    pub fn grant(&mut self, owner: OwnerId) -> bool {
        let record = self.owners.find(owner).and_then(|key| self.owners.alive_mut(key));
        let former = record.map(|record| core::mem::take(&mut record.standing));
        former.is_some_and(|standing| standing.is_revoked())
    }

    fn set_standing(&mut self, owner: OwnerId, standing: Standing) {
        let key = self.owners.key(owner);
        // Past the bound on owners nobody has control, and the common owner answers for nobody's mistakes.
        if key != COMMON
            && let Some(record) = self.owners.alive_mut(key)
        {
            record.standing = standing;
        }
    }
}
