//! Runs that continue on a mount, and the profiles that speak for their programs.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use pantler_control::{Applied, ControlError, DONE_WITH, Profile, RunId, RunSpec, Speaker};
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
        let begin = |profile: &Profile| core.cache().with_steward(|steward| profile.begin(steward, owner));
        let set = run.profile.as_ref().map_or(Ok(()), begin);
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

    /// An owner opened a file: applies the rule of its profile about it. Says what is left to the
    /// caller. The owner is looked for only where any run has rules.
    pub(crate) fn apply_rule(&self, core: &Core, owner: impl FnOnce() -> OwnerId, inode: &Inode) -> Applied {
        if !self.has_rules.load(Ordering::Acquire) {
            return Applied::default();
        }
        let owner = owner();
        let profile = {
            let running = self.running();
            running.iter().find(|running| running.owner == owner).and_then(|running| running.profile.clone())
        };
        let (Some(profile), Some(path), Ok(content)) = (profile, core.path(inode), inode.content()) else {
            return Applied::default();
        };
        core.cache().with_steward(|steward| profile.apply(steward, [owner], content.file(), &path))
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

    /// docs/PROFILES.md: the same profile means the same on a mount and in a steered run.
    #[test]
    fn both_bodies_apply_a_profile_alike() {
        let full: String = (0..64).map(|priority| format!("{priority} = \"mru\"\n")).collect();
        let over: String = (0..65).map(|priority| format!("{priority} = \"mru\"\n")).collect();
        let rule = "[[file]]\nglob = \"data\"\n";
        let temporary =
            |priority: i32| format!("temporary = {{ first = 0, last = 3, priority = {priority} }}\n");
        for (text, begins) in [
            (format!("[policies]\n0 = \"mru\"\n{rule}priority = 3\ndone-with = true\n"), true),
            (format!("{rule}priority = -2\n{}", temporary(5)), true),
            ("[[file]]\nglob = \"other\"\npriority = 3\ndone-with = true\n".into(), true),
            // The owner has all priorities that it may have: one wish is refused, another counts.
            (format!("[policies]\n{full}{rule}priority = 100\ndone-with = true\n"), true),
            (format!("[policies]\n{full}{rule}priority = 7\n{}", temporary(100)), true),
            (format!("[policies]\n{over}{rule}priority = 3\n"), false),
        ] {
            let profile = Profile::parse("test", &text).unwrap();
            let (on_mount, steered) = (on_a_mount(&profile), in_a_steered_run(&profile));
            assert_eq!(on_mount.is_some(), begins, "{text}");
            assert_eq!(on_mount, steered, "{text}");
        }
    }

    /// What holds for a file named `data`: its priority, the policies of its owner, and the
    /// priority of its blocks that are done with. `None` where the run is refused.
    type Outcome = Option<(i32, Vec<PolicyName>, Option<i32>)>;

    fn policies(steward: &pantler_steward::Steward, owner: OwnerId) -> Vec<PolicyName> {
        (-3..70).map(|priority| steward.policy(owner, priority)).collect()
    }

    fn on_a_mount(profile: &Profile) -> Outcome {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("data"), [7; 20_000]).unwrap();
        let core = Core::new(MountOptions::new(folder.path(), folder.path())).unwrap();
        let (leader, uid) = (std::process::id(), rustix::process::geteuid().as_raw());
        let speaker = Speaker { uid, gid: uid, groups: Vec::new(), pid: leader };
        let profile = Some(profile.clone());
        let run = RunSpec { name: "job".into(), keep: false, leader, uid, profile };
        let outcome = core.runs.begin(&core, &speaker, &run).ok().map(|_| {
            let owner = core.owners.named("job")[0].id;
            let root = core.inodes.get(crate::inodes::ROOT).unwrap();
            let node = root.node.lookup("data".as_ref()).unwrap();
            let (inode, _) = core.enter(node, || core.descriptors.take(0)).unwrap();
            let applied = core.runs.apply_rule(&core, || owner, &inode);
            let file = inode.content().unwrap().file();
            core.cache().with_steward(|steward| {
                (steward.priority(owner, file), policies(steward, owner), applied.done_with)
            })
        });
        core.janitor.stop();
        outcome
    }

    fn in_a_steered_run(profile: &Profile) -> Outcome {
        let mut options = pantler_steer::SteerOptions::new("job", 1 << 20);
        options.profile = Some(profile.clone());
        let mut steward = pantler_steward::Steward::new(pantler_steward::Options::new(100)).unwrap();
        let mut owners = pantler_steer::owners::RunOwners::new(&options, &mut steward).ok()?;
        let file = pantler_steward::FileId(9);
        let path = Some(std::path::Path::new("/some/data"));
        let done_with = owners.apply_profile(&mut steward, 4, file, path);
        let owner = owners.run();
        Some((steward.priority(owner, file), policies(&steward, owner), done_with))
    }
}
