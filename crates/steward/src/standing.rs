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

use crate::Notice;
use crate::options::Revocation;

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
