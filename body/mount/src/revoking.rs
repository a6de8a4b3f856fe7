//! Owners that lost control: where that is told (L7).

use std::sync::{Mutex, MutexGuard};

use pantler_cache::Cache;
use pantler_control::{RevocationStat, Revocations};
use pantler_steward::{Notice, OwnerId};

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
                Notice::ListLow => lists.refill(id),
                Notice::ListDiscarded => lists.discarded(id, &name),
                _ => {
                    self.lock().note(id, notice, name, uid);
                    owners.fell(id);
                }
            }
        }
    }

    /// The last ones, oldest first.
    pub(crate) fn stats(&self) -> Vec<RevocationStat> {
        self.lock().stats()
    }

    /// An owner has its control back.
    pub(crate) fn grant(&self, owner: OwnerId) {
        self.lock().grant(owner);
    }

    fn lock(&self) -> MutexGuard<'_, Revocations> {
        self.revocations.lock().expect("revocations are in order")
    }
}
