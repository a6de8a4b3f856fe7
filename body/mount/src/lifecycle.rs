//! Owners that end or lose control: what the steward is told of them, and what it tells (L7).

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use pantler_control::Revocations;
use pantler_steward::{Notice, OwnerId};

use crate::content::Shelf;
use crate::lists::Lists;
use crate::owners::Owners;

/// What follows when programs end, and when the steward has something to tell.
pub(crate) struct Lifecycle {
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) owners: Arc<Owners>,
    pub(crate) lists: Lists,
    revocations: Mutex<Revocations>,
    /// Notes what programs did so far.
    catch_up: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Lifecycle {
    pub(crate) fn new(shelf: Arc<Shelf>, owners: Arc<Owners>, lists: Lists) -> Self {
        Self { shelf, owners, lists, revocations: Mutex::default(), catch_up: OnceLock::new() }
    }

    /// What programs did is told of later than they do it. `catch_up` is called before one of them
    /// is forgotten.
    pub(crate) fn before_exits(&self, catch_up: impl Fn() + Send + Sync + 'static) {
        self.catch_up.get_or_init(|| Box::new(catch_up));
    }

    /// Passes on what the steward has to tell: to the log, to `stat`, and to the lists of owners'
    /// children.
    pub(crate) fn pass_on_notices(&self) {
        for (id, notice) in self.shelf.cache.take_notices() {
            let program = || self.owners.programs().into_iter().find(|program| program.id == id);
            let owner = self.owners.get(id).or_else(program);
            let uid = owner.as_ref().map(|owner| owner.uid);
            let name = owner.map_or_else(|| format!("owner-{}", id.0), |owner| owner.name);
            match notice {
                Notice::ListLow => self.lists.refill(id),
                Notice::ListDiscarded => self.lists.discarded(id, &name),
                _ => {
                    self.revocations().note(id, notice, name, uid);
                    self.owners.fell(id);
                }
            }
        }
    }

    /// A watched process that began then ended. Says whether to look after groups now and then.
    pub(crate) fn exited(&self, process: u32, start: u64) -> bool {
        // While it can still be named.
        if let Some(catch_up) = self.catch_up.get() {
            catch_up();
        }
        self.pass_on_notices();
        self.end(self.owners.exited(process, start));
        self.owners.has_idle()
    }

    /// Looks after owners that are groups of processes. Says whether to come again.
    pub(crate) fn end_idle(&self) -> bool {
        self.end(self.owners.end_idle());
        self.owners.has_idle()
    }

    /// These owners are no more.
    pub(crate) fn end(&self, owners: impl IntoIterator<Item = OwnerId>) {
        for owner in owners {
            self.lists.forget(owner);
            self.shelf.cache.with_steward(|steward| steward.exit(owner));
        }
    }

    pub(crate) fn revocations(&self) -> MutexGuard<'_, Revocations> {
        self.revocations.lock().expect("revocations are in order")
    }
}
