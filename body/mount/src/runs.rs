//! Runs that continue on a mount, and the profiles that speak for their programs.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use fuser::Request;
use pantler_control::{ControlError, DONE_WITH, Prefetch, Profile, RunId, RunSpec, Speaker};
use pantler_pagecache::ReadThrough;
use pantler_steward::OwnerId;

use crate::core::Core;
use crate::inodes::Inode;
use crate::owners::Inherits;
use pantler_kernel::process::user_of;

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

struct Running {
    id: RunId,
    /// Runs of one name are one owner.
    owner: OwnerId,
    leader: u32,
    keep: bool,
    profile: Option<Arc<Profile>>,
}

/// The rule of a profile for an opened file.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Applied {
    /// Its blocks are done with once they are read.
    pub(crate) done_with: bool,
    /// It is read from start to end.
    pub(crate) sequential: bool,
}

impl Runs {
    fn running(&self) -> MutexGuard<'_, Vec<Running>> {
        self.running.lock().expect("runs are in order")
    }

    pub(crate) fn begin(&self, core: &Core, speaker: &Speaker, run: &RunSpec) -> Result<RunId, ControlError> {
        speaker.check_speaks_for(run.uid)?;
        let leader = run.leader;
        let user = user_of(leader).ok_or_else(|| ControlError::not_found(format!("process {leader}")))?;
        // Else a user could declare another's process, or all there are, to be a run of theirs.
        speaker.check_speaks_for(user)?;
        let mut running = self.running();
        if running.len() >= RUNS_MAX {
            return Err(ControlError::Bound { bound: format!("{RUNS_MAX} runs on a mount") });
        }
        let former = core.owners.former(leader);
        let (owner, is_new) = core.owners.begin_run(&run.name, run.uid, leader);
        let what = if is_new { Inherits::All } else { Inherits::Nothing };
        core.inherit(owner, what, leader, run.uid, former);
        core.wishes.apply_defaults(core, run.uid, owner);
        let mut policies = run.profile.iter().flat_map(|profile| &profile.policies);
        let set = policies.try_for_each(|(&priority, &policy)| core.set_policy(owner, priority, policy));
        if let Err(error) = set {
            end_owner(core, owner, leader, run.keep);
            return Err(error.into());
        }
        let profile = run
            .profile
            .clone()
            .filter(|profile| !profile.files.is_empty() || profile.prefetch.is_some())
            .map(Arc::new);
        if profile.is_some() {
            self.has_rules.store(true, Ordering::Release);
        }
        let id = RunId(self.begun.fetch_add(1, Ordering::Relaxed));
        running.push(Running { id, owner, leader, keep: run.keep, profile });
        Ok(id)
    }

    pub(crate) fn end(&self, core: &Core, run: RunId) {
        let mut running = self.running();
        let Some(position) = running.iter().position(|running| running.id == run) else { return };
        let ended = running.remove(position);
        let has_rules = running.iter().any(|running| running.profile.is_some());
        self.has_rules.store(has_rules, Ordering::Release);
        drop(running);
        end_owner(core, ended.owner, ended.leader, ended.keep);
    }

    /// Whether a run goes on as that owner.
    pub(crate) fn holds(&self, owner: OwnerId) -> bool {
        self.running().iter().any(|running| running.owner == owner)
    }

    /// The owner of a request opened a file: applies the rule of its profile about it. Says what is
    /// left to the caller.
    pub(crate) fn apply_rule(&self, core: &Core, request: &Request, inode: &Inode) -> Applied {
        if !self.has_rules.load(Ordering::Acquire) {
            return Applied::default();
        }
        let owner = core.owner(request);
        let profile = {
            let running = self.running();
            running.iter().find(|running| running.owner == owner).and_then(|running| running.profile.clone())
        };
        let (Some(profile), Some(path), Ok(content)) = (profile, core.path(inode), inode.content()) else {
            return Applied::default();
        };
        let sequential = profile.prefetch == Some(Prefetch::Sequential);
        let Some(rule) = profile.rule(&path) else { return Applied { done_with: false, sequential } };
        let sequential = sequential || rule.prefetch == Some(Prefetch::Sequential);
        // A wish past a bound has no effect, as everywhere.
        let _ = core.cache().with_steward(|steward| rule.apply(steward, owner, content.file()));
        Applied { done_with: rule.done_with, sequential }
    }

    /// Bytes were read of a file with blocks that are done with once they are read to their end.
    pub(crate) fn note_read(
        &self,
        core: &Core,
        read: &pantler_cache::Request<'_>,
        progress: &Mutex<ReadThrough>,
        count: usize,
    ) {
        let bytes = read.offset..read.offset + count as u64;
        let block_bytes = core.cache().block_bytes() as u64;
        let mut progress = progress.lock().expect("progress is in order");
        for block in progress.read(block_bytes, read.size, bytes) {
            // A bound reached only means that the block stays at its priority.
            let _ = core
                .cache()
                .with_steward(|s| s.set_temporary_priority(read.owner, read.file, block, block, DONE_WITH));
        }
    }
}

fn end_owner(core: &Core, owner: OwnerId, leader: u32, keep: bool) {
    for owner in core.owners.end_run(owner, leader, keep) {
        core.lists.forget(owner);
        core.cache().with_steward(|steward| steward.exit(owner));
    }
}

impl Core {
    /// The path of an inode as programs see it, below the mount point. Of a file with several names
    /// it is the one by which it was found; a file without name has none.
    pub(crate) fn path(&self, inode: &Inode) -> Option<PathBuf> {
        let below = inode.node.path_below(self.shelf.origin.path())?;
        Some(self.options.mountpoint.join(below))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MountOptions;
    use pantler_control::PolicyName;

    #[test]
    fn a_run_that_is_refused_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let core = Core::new(MountOptions::new(folder.path(), folder.path())).unwrap();
        let leader = std::process::id();
        let uid = rustix::process::geteuid().as_raw();
        let speaker = Speaker { uid, gid: uid, groups: Vec::new(), pid: leader };
        // More priorities than an owner may have.
        let policies = (0..100).map(|priority| (priority, PolicyName::Mru)).collect();
        let profile = Some(Profile { policies, ..Profile::default() });
        let run = RunSpec { name: "many".into(), keep: false, leader, uid, profile };
        let error = core.runs.begin(&core, &speaker, &run).unwrap_err();
        assert!(matches!(error, ControlError::Bound { .. }), "{error}");
        assert!(core.owners.named("many").is_empty());
        core.owner_of(leader, uid);
        assert!(core.owners.named("many").is_empty(), "its process is no run");
        core.janitor.stop();
    }
}
