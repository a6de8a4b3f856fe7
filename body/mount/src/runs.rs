//! Runs that continue on a mount, and the profiles that speak for their programs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use pantler_control::{ControlError, Profile, RunId, RunSpec};
use pantler_steward::OwnerId;

/// Runs at a time.
const RUNS_MAX: usize = 1024;

/// The runs under way.
#[derive(Default)]
pub(crate) struct Runs {
    running: Mutex<Vec<Running>>,
    /// Runs begun so far: the number of each.
    begun: AtomicU64,
    /// Whether any run has rules about files: opening a file need not look otherwise.
    has_rules: AtomicBool,
}

/// A run under way.
pub(crate) struct Running {
    id: RunId,
    /// Runs of one name are one owner.
    pub(crate) owner: OwnerId,
    pub(crate) leader: u32,
    pub(crate) keep: bool,
    profile: Option<Arc<Profile>>,
}

impl Runs {
    fn running(&self) -> MutexGuard<'_, Vec<Running>> {
        self.running.lock().expect("runs are in order")
    }

    /// Takes a run up, if `begin` finds it an owner.
    pub(crate) fn begin(
        &self,
        run: &RunSpec,
        begin: impl FnOnce() -> Result<OwnerId, ControlError>,
    ) -> Result<RunId, ControlError> {
        let mut running = self.running();
        if running.len() >= RUNS_MAX {
            return Err(ControlError::Bound { bound: format!("{RUNS_MAX} runs on a mount") });
        }
        let owner = begin()?;
        let has_rules = |profile: &&Profile| !profile.files.is_empty() || profile.prefetch.is_some();
        let profile = run.profile.as_ref().filter(has_rules).cloned().map(Arc::new);
        if profile.is_some() {
            self.has_rules.store(true, Ordering::Release);
        }
        let id = RunId(self.begun.fetch_add(1, Ordering::Relaxed));
        running.push(Running { id, owner, leader: run.leader, keep: run.keep, profile });
        Ok(id)
    }

    /// The run is over. `None` for one that is unknown.
    pub(crate) fn end(&self, run: RunId) -> Option<Running> {
        let mut running = self.running();
        let position = running.iter().position(|running| running.id == run)?;
        let ended = running.remove(position);
        let has_rules = running.iter().any(|running| running.profile.is_some());
        self.has_rules.store(has_rules, Ordering::Release);
        Some(ended)
    }

    /// Whether a run goes on as that owner.
    pub(crate) fn holds(&self, owner: OwnerId) -> bool {
        self.running().iter().any(|running| running.owner == owner)
    }

    /// The profile of an owner, if it has rules about files. The owner is looked for only where any
    /// run has rules.
    pub(crate) fn rules(&self, owner: impl FnOnce() -> OwnerId) -> Option<(OwnerId, Arc<Profile>)> {
        if !self.has_rules.load(Ordering::Acquire) {
            return None;
        }
        let owner = owner();
        let running = self.running();
        let profile = running.iter().find(|running| running.owner == owner)?.profile.clone()?;
        Some((owner, profile))
    }
}
