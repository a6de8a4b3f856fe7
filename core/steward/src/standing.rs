//! Standing: whether an owner's choices count (rule L7).
//!
//! It is the owner's, not its manager's: it outlives hints that are taken back, and a child is born
//! with that of its parent. Else a call or a fork would bring lost control back.
//!
//! ```text
//!   in good standing --- others fall behind the shadow because of it ---> revoked
//!         ^                                                                  |
//!         +------------------------------ grant -----------------------------+
//! ```
//!
//! Why so: docs/decisions/0011-standing-of-owners.md,
//! docs/decisions/0074-revocation-punishes-harm.md.

use crate::owners::COMMON;
use crate::{OwnerId, Steward};

impl Steward {
    /// `child` is new, and comes from `parent` by a fork: it is born with its parent's standing
    /// (L7), and nothing else of it. An owner that has lost control has it no more by forking.
    pub fn born(&mut self, child: OwnerId, parent: OwnerId) {
        let parent = self.owners.find(parent).and_then(|key| self.owners.alive(key));
        let Some(revoked) = parent.map(|record| record.revoked) else { return };
        self.set_standing(child, revoked);
    }

    /// `owner` is new, and comes from one that had lost control and is gone: it begins without, as
    /// if it had lost it itself (L7).
    pub fn born_revoked(&mut self, owner: OwnerId) {
        self.set_standing(owner, true);
    }

    /// A revoked owner gets its control back (L7). Says whether it was revoked.
    pub fn grant(&mut self, owner: OwnerId) -> bool {
        let record = self.owners.find(owner).and_then(|key| self.owners.alive_mut(key));
        record.is_some_and(|record| core::mem::take(&mut record.revoked))
    }

    fn set_standing(&mut self, owner: OwnerId, revoked: bool) {
        let key = self.owners.key(owner);
        // Past the bound on owners none has control, and the common owner answers for no other.
        if key != COMMON
            && let Some(record) = self.owners.alive_mut(key)
        {
            record.revoked = revoked;
        }
    }
}
