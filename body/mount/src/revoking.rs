//! Owners that lost control: where that is told, and how it is given back (L7).

use std::sync::{Mutex, MutexGuard};

use pantler_cache::Cache;
use pantler_control::{ControlError, RevocationStat, Revocations, Speaker};
use pantler_steward::{Notice, OwnerId};

use crate::OwnerBy;
use crate::core::Core;
use crate::lists::Lists;
use crate::owners::Owners;

/// What a mount remembers of revocations.
#[derive(Default)]
pub(crate) struct Revoking {
    revocations: Mutex<Revocations>,
}

impl Revoking {
    /// Passes on what the steward has to tell: to the log, to `stat`, and to the lists of owners'
    /// children.
    pub(crate) fn pass_on(&self, cache: &Cache, owners: &Owners, lists: &Lists) {
        for (id, notice) in cache.take_notices() {
            let owner = owners.get(id);
            let uid = owner.as_ref().map(|owner| owner.uid);
            let name = owner.map_or_else(|| format!("owner-{}", id.0), |owner| owner.name);
            match notice {
                Notice::ListLow => lists.refill(cache, id),
                Notice::ListDiscarded => lists.discarded(id, &name),
                _ => {
                    self.lock().note(id, notice, name, uid);
                    owners.fell(id);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Revocations> {
        self.revocations.lock().expect("revocations are in order")
    }
}

impl Core {
    /// The last revocations, oldest first.
    pub(crate) fn revocations(&self) -> Vec<RevocationStat> {
        self.revoking.pass_on(self.cache(), &self.owners, &self.lists);
        self.revoking.lock().stats()
    }

    /// Refuses speakers that may not grant control.
    pub(crate) fn check_may_grant(&self, speaker: &Speaker) -> Result<(), ControlError> {
        self.revoking.pass_on(self.cache(), &self.owners, &self.lists);
        let mounter = rustix::process::geteuid().as_raw();
        speaker.check_may_grant(mounter, || self.is_judge_in_own_cause(speaker))
    }

    /// Gives an owner its control back. `called` is what the speaker called it.
    pub(crate) fn grant(&self, owner: OwnerId, called: &str) -> Result<(), ControlError> {
        if !self.cache().with_steward(|steward| steward.grant(owner)) {
            return Err(ControlError::failed(format!("{called} has not lost control")));
        }
        self.owners.rose(owner);
        self.revoking.lock().grant(owner);
        Ok(())
    }

    /// Whether the speaker belongs to an owner that lost control. Where all programs of a user are
    /// one owner, root's commands would be, too: root may.
    fn is_judge_in_own_cause(&self, speaker: &Speaker) -> bool {
        let own = self.owner_of(speaker.pid, speaker.uid);
        let is_told_apart = self.options.owner_by == OwnerBy::Process || self.runs.holds(own);
        (speaker.uid != 0 || is_told_apart) && self.cache().with_steward(|steward| steward.is_revoked(own))
    }
}
