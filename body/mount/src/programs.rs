//! The programs that use a mount: the owners they are charged to, and what was said for them.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use pantler_cache::Cache;
use pantler_control::{
    Applied, ControlError, Hint, HintAnswer, Profile, RevocationStat, RunId, RunSpec, Speaker,
};
use pantler_kernel::process::{status_numbers, user_of};
use pantler_origin::OpenFile;
use pantler_steward::{Block, FileId, OwnerId};

use crate::content::{Content, Shelf};
use crate::defaults::UserDefaults;
use crate::descent::Descent;
use crate::handles::DoneWith;
use crate::lifecycle::Lifecycle;
use crate::lists::Lists;
use crate::owners::{Inherits, NewOwner, Owners};
use crate::reaper::Reaper;
use crate::runs::Runs;
use crate::{MountOptions, OwnerBy};

/// What a mount knows of the programs that use it.
pub(crate) struct Programs {
    by: OwnerBy,
    runs: Runs,
    lifecycle: Arc<Lifecycle>,
    reaper: Reaper,
}

/// The owner that a hint is about.
pub(crate) enum Subject {
    Owner(OwnerId),
    /// All owners of a user, present and future.
    User(u32),
}

impl Programs {
    /// None so far. Starts the thread that sees them end.
    pub(crate) fn start(shelf: &Arc<Shelf>, options: &MountOptions) -> io::Result<Self> {
        let owners = Owners::new(options.owner_by.clone());
        let lists = Lists::new(Arc::clone(shelf), Arc::clone(&owners), options.interpose.clone());
        let lifecycle = Arc::new(Lifecycle::new(Arc::clone(shelf), owners, lists));
        let reaper = Reaper::start(Arc::clone(&lifecycle))?;
        shelf.cache.ring_for_notices(reaper.bell());
        Ok(Self { by: options.owner_by.clone(), runs: Runs::default(), lifecycle, reaper })
    }

    fn cache(&self) -> &Cache {
        &self.lifecycle.shelf.cache
    }

    pub(crate) fn owners(&self) -> &Owners {
        &self.lifecycle.owners
    }

    pub(crate) fn defaults(&self) -> &UserDefaults {
        &self.owners().defaults
    }

    pub(crate) fn runs(&self) -> &Runs {
        &self.runs
    }

    pub(crate) fn lists(&self) -> &Lists {
        &self.lifecycle.lists
    }

    /// Has what was written to a file brought to the device, and taken out of the page cache.
    pub(crate) fn write_out_and_drop(&self, file: Arc<OpenFile>) {
        self.reaper.write_out_and_drop(file);
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.reaper.stop();
    }

    /// The owner that a thread or process of a user is charged to.
    pub(crate) fn owner_of(&self, id: u32, uid: u32) -> OwnerId {
        self.owners().of(id, uid, |new| self.begin_owner(new))
    }

    /// The same of one that reads.
    pub(crate) fn reader_of(&self, id: u32, uid: u32) -> OwnerId {
        let owner = self.owner_of(id, uid);
        self.begins_to_read(id);
        owner
    }

    fn begins_to_read(&self, id: u32) {
        if let Some(owner) = self.owners().begins_to_read(id) {
            self.join_program(owner);
        }
    }

    /// Has `catch_up` called before a process is forgotten that ended.
    pub(crate) fn before_exits(&self, catch_up: impl Fn() + Send + Sync + 'static) {
        self.lifecycle.before_exits(catch_up);
    }

    /// The owner of a thread that was seen to read pages. `None` where the thread is gone, and its
    /// owner with it.
    pub(crate) fn owner_seen(&self, id: u32) -> Option<OwnerId> {
        // As requests have it: the user by whose rights the thread uses files.
        let user = || status_numbers(id, "Uid:").get(3).copied();
        let owner = self.owners().last_of(id).or_else(|| user().map(|uid| self.owner_of(id, uid)));
        self.begins_to_read(id);
        owner
    }

    /// The owner that a process means with a hint for itself.
    pub(crate) fn owner_apart(&self, id: u32, uid: u32) -> OwnerId {
        let owner = self.owner_of(id, uid);
        if !self.defaults().has(uid) {
            return owner;
        }
        self.owners().set_apart(id);
        self.owner_of(id, uid)
    }

    fn begin_owner(&self, new: NewOwner) {
        self.inherit(new.id, new.inherits, new.process, new.uid, new.former);
        if new.is_owner_new {
            self.join_program(new.id);
            self.defaults().apply(self.cache(), new.uid, new.id);
        }
        if let Some(watch) = new.watch {
            self.reaper.watch(watch);
        }
    }

    /// An owner is learnt of together with others that run the same.
    fn join_program(&self, owner: OwnerId) {
        let (program, ended) = self.owners().program_of(owner);
        self.cache().with_steward(|steward| {
            ended.into_iter().for_each(|program| steward.exit(program));
            if let Some(program) = program {
                steward.join_program(owner, program);
            }
        });
    }

    pub(crate) fn hint_owner(
        &self,
        owner: OwnerId,
        hint: &Hint,
        content: Option<&Arc<Content>>,
    ) -> Result<HintAnswer, ControlError> {
        let file = content.map_or(FileId(0), |content| content.file());
        let done = self.cache().with_steward(|steward| hint.carry_out(steward, owner, file));
        Ok(done.ok_or_else(|| ControlError::unsupported("this hint"))??)
    }

    /// A hint for all owners of a user. It is kept for those to come, and answered from what is
    /// kept.
    pub(crate) fn hint_user(
        &self,
        uid: u32,
        hint: &Hint,
        content: Option<&Arc<Content>>,
    ) -> Result<HintAnswer, ControlError> {
        match (hint, content) {
            (Hint::SetPriority { priority, .. }, Some(content)) => {
                self.defaults().set_priority(uid, content, Some(*priority))?;
            }
            (Hint::GetPriority { .. }, Some(content)) => {
                return Ok(HintAnswer::Priority(self.defaults().priority(uid, content).unwrap_or(0)));
            }
            (Hint::SetPolicy { priority, policy }, _) => {
                self.defaults().set_policy(uid, *priority, Some(*policy))?;
            }
            (Hint::GetPolicy { priority }, _) => {
                return Ok(HintAnswer::Policy(self.defaults().policy(uid, *priority).unwrap_or_default()));
            }
            (Hint::Clear, _) => {
                self.defaults().clear(uid);
                self.owners().part(uid);
            }
            _ => {}
        }
        let marked = self.hint_owners_of(uid, hint, content);
        let is_counted = matches!(hint, Hint::SetTemporaryPriority { .. } | Hint::DoneWith { .. });
        Ok(if is_counted { HintAnswer::Marked(marked) } else { HintAnswer::Done })
    }

    /// Takes back a user's default for a file or a priority. `hint` tells present owners what holds
    /// without it.
    pub(crate) fn take_default_back(
        &self,
        uid: u32,
        hint: &Hint,
        content: &Arc<Content>,
    ) -> Result<(), ControlError> {
        match *hint {
            Hint::SetPolicy { priority, .. } => self.defaults().set_policy(uid, priority, None)?,
            _ => self.defaults().set_priority(uid, content, None)?,
        }
        if !self.defaults().has(uid) {
            self.owners().part(uid);
        }
        self.hint_owners_of(uid, hint, Some(content));
        Ok(())
    }

    /// A hint for all present owners of a user. Says how many blocks were marked.
    fn hint_owners_of(&self, uid: u32, hint: &Hint, content: Option<&Arc<Content>>) -> u64 {
        let mut marked = 0;
        for owner in self.owners().of_user(uid) {
            // An owner over a bound of its own keeps what it has; the others follow.
            if let Ok(HintAnswer::Marked(count)) = self.hint_owner(owner, hint, content) {
                marked += count;
            }
        }
        marked
    }

    /// L7: an owner that appeared through a process of user `uid` begins with the standing of the
    ///     owner that it comes from.
    /// `former` is the owner that the process belonged to before.
    fn inherit(&self, owner: OwnerId, what: Inherits, process: u32, uid: u32, former: Option<OwnerId>) {
        if what == Inherits::Nothing {
            return;
        }
        // Control cannot have been lost where no owner has it. Looking at all ancestors costs some
        // files of /proc.
        if !self.owners().have_fallen() && self.cache().with_steward(|steward| steward.managers()) == 0 {
            return;
        }
        let descent = self.owners().descent(process, uid, former);
        self.cache().with_steward(|steward| match descent {
            Descent::Of(parent) if parent == owner => {}
            Descent::Of(parent) if what == Inherits::All => steward.born(owner, parent),
            Descent::Of(parent) if steward.is_revoked(parent) => steward.born_revoked(owner),
            Descent::OfFallen => steward.born_revoked(owner),
            Descent::Of(_) | Descent::Unknown => {}
        });
    }

    /// A run goes on here as one owner.
    pub(crate) fn begin_run(&self, speaker: &Speaker, run: &RunSpec) -> Result<RunId, ControlError> {
        speaker.check_speaks_for(run.uid)?;
        let leader = run.leader;
        let user = known_user(leader)?;
        // Else a user could declare another's process, or all there are, to be a run of theirs.
        speaker.check_speaks_for(user)?;
        self.runs.begin(run, || {
            let former = self.owners().former(leader);
            let (owner, is_new) = self.owners().begin_run(&run.name, run.uid, leader);
            let what = if is_new { Inherits::All } else { Inherits::Nothing };
            self.inherit(owner, what, leader, run.uid, former);
            self.join_program(owner);
            self.defaults().apply(self.cache(), run.uid, owner);
            let begin =
                |profile: &Profile| self.cache().with_steward(|steward| profile.begin(steward, owner));
            let begun = run.profile.as_ref().map_or(Ok(()), begin);
            begun.inspect_err(|_| self.end_owner(owner, leader, run.keep))?;
            Ok(owner)
        })
    }

    pub(crate) fn end_run(&self, run: RunId) {
        if let Some(ended) = self.runs.end(run) {
            self.end_owner(ended.owner, ended.leader, ended.keep);
        }
    }

    fn end_owner(&self, owner: OwnerId, leader: u32, keep: bool) {
        self.lifecycle.end(self.owners().end_run(owner, leader, keep));
    }

    /// An owner opened a file: applies the rule of its profile about it. Says what is left to the
    /// caller.
    pub(crate) fn apply_rule(
        &self,
        owner: impl FnOnce() -> OwnerId,
        path: impl FnOnce() -> Option<PathBuf>,
        content: &Content,
    ) -> Applied {
        let Some((owner, profile)) = self.runs.rules(owner) else { return Applied::default() };
        let Some(path) = path() else { return Applied::default() };
        self.cache().with_steward(|steward| profile.apply(steward, [owner], content.file(), &path))
    }

    /// Bytes were read of a file with blocks that are done with once they are read to their end.
    pub(crate) fn note_read(&self, read: &pantler_cache::Request<'_>, done_with: &DoneWith, count: usize) {
        let bytes = read.offset..read.offset + count as u64;
        let block_bytes = self.cache().block_bytes() as u64;
        let mut progress = done_with.progress.lock().expect("progress is in order");
        for index in progress.read(block_bytes, read.size, bytes) {
            let block = Block::new(read.file, index);
            // A bound reached only means that the block stays at its priority.
            let _ =
                self.cache().with_steward(|steward| steward.done_with(read.owner, block, done_with.priority));
        }
    }

    /// The last revocations, oldest first.
    pub(crate) fn revocations(&self) -> Vec<RevocationStat> {
        self.lifecycle.pass_on_notices();
        self.lifecycle.revocations().stats()
    }

    /// Refuses speakers that may not grant control.
    pub(crate) fn check_may_grant(&self, speaker: &Speaker) -> Result<(), ControlError> {
        self.lifecycle.pass_on_notices();
        let mounter = rustix::process::geteuid().as_raw();
        speaker.check_may_grant(mounter, || self.is_judge_in_own_cause(speaker))
    }

    /// Gives an owner its control back. `called` is what the speaker called it.
    pub(crate) fn grant(&self, owner: OwnerId, called: &str) -> Result<(), ControlError> {
        if !self.cache().with_steward(|steward| steward.grant(owner)) {
            return Err(ControlError::failed(format!("{called} has not lost control")));
        }
        self.owners().rose(owner);
        self.lifecycle.revocations().grant(owner);
        Ok(())
    }

    /// Whether the owner is a single process.
    pub(crate) fn is_process(&self, owner: OwnerId) -> bool {
        let has_process = || self.owners().get(owner).is_some_and(|owner| owner.pid.is_some());
        self.by == OwnerBy::Process && !self.runs.holds(owner) && has_process()
    }

    /// Whether the speaker belongs to an owner that lost control. Where all programs of a user are
    /// one owner, root's commands would be, too: root may.
    fn is_judge_in_own_cause(&self, speaker: &Speaker) -> bool {
        let own = self.owner_of(speaker.pid, speaker.uid);
        let is_told_apart = self.is_process(own) || self.runs.holds(own);
        (speaker.uid != 0 || is_told_apart) && self.cache().with_steward(|steward| steward.is_revoked(own))
    }
}

/// The user of a process that is there.
pub(crate) fn known_user(pid: u32) -> Result<u32, ControlError> {
    user_of(pid).ok_or_else(|| ControlError::not_found(format!("process {pid}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MountOptions;
    use crate::core::Core;
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
        let run = RunSpec { name: "many".into(), keep: false, leader, uid, profile, is_steered: false };
        let error = core.programs.begin_run(&speaker, &run).unwrap_err();
        assert!(matches!(error, ControlError::Bound { .. }), "{error}");
        assert!(core.programs.owners().named("many").is_empty());
        core.programs.owner_of(leader, uid);
        assert!(core.programs.owners().named("many").is_empty(), "its process is no run");
        core.programs.stop();
    }

    /// docs/PROFILES.md: the same profile means the same on a mount and in a steered run.
    #[test]
    fn both_bodies_apply_a_profile_alike() {
        let full: String = (0..64).map(|priority| format!("{priority} = \"mru\"\n")).collect();
        let over: String = (0..65).map(|priority| format!("{priority} = \"mru\"\n")).collect();
        let rule = "[[file]]\nglob = \"data\"\n";
        for (text, begins) in [
            (format!("[policies]\n0 = \"mru\"\n{rule}priority = 3\ndone-with = true\n"), true),
            (format!("{rule}priority = -2\n"), true),
            ("[[file]]\nglob = \"other\"\npriority = 3\ndone-with = true\n".into(), true),
            // An owner may have no more priorities: the priority is refused, done-with counts.
            (format!("[policies]\n{full}{rule}priority = 100\ndone-with = true\n"), true),
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
        let run = RunSpec { name: "job".into(), keep: false, leader, uid, profile, is_steered: false };
        let outcome = core.programs.begin_run(&speaker, &run).ok().map(|_| {
            let owner = core.programs.owners().named("job")[0].id;
            let root = core.inodes.get(crate::inodes::ROOT).unwrap();
            let node = root.node().unwrap().lookup("data".as_ref()).unwrap();
            let found = (&root, "data".as_ref());
            let (inode, _) = core.enter(found, node, || core.descriptors.take_for_name(0)).unwrap();
            let applied = core.programs.apply_rule(|| owner, || core.path(&inode), inode.content().unwrap());
            let file = inode.content().unwrap().file();
            core.cache().with_steward(|steward| {
                (steward.priority(owner, file), policies(steward, owner), applied.done_with)
            })
        });
        core.programs.stop();
        outcome
    }

    fn in_a_steered_run(profile: &Profile) -> Outcome {
        use pantler_pagecache::{Engine, FileKey, Options};
        let mut options = pantler_steer::SteerOptions::new("job", 1 << 20);
        options.profile = Some(profile.clone());
        let mut engine = Engine::new(&Options::new(256), 1).unwrap();
        let owners = pantler_steer::owners::Owners::new(&options, &mut engine).ok()?;
        let file = engine.admit_file(FileKey { dev: 1, ino: 9 })?;
        owners.apply_profiles(&mut engine, file, std::path::Path::new("/some/data"));
        let owner = owners.session()?;
        let (id, done_with) = (engine.files().id(file), engine.file(file).done_with(owner));
        Some((engine.steward().priority(owner, id), policies(engine.steward(), owner), done_with))
    }
}
