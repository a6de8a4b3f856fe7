//! A mount as the control doors see it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pantler_control::{
    Body, BodyInfo, BodyKind, BodyStat, ControlError, Counters, FILES_SHOWN, FileExplanation, FileNumber,
    FileStat, FileStory, Hint, HintAnswer, KnownOwner, OpenedRing, OwnerSelector, OwnerStat, PrefetchStat,
    RunId, RunSpec, Speaker, TakingStat,
};
use pantler_origin::{Attributes, Origin};
use pantler_steward::{Decision, FileId, OwnerId};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use crate::content::Content;
use crate::core::Core;
use crate::inodes::{FileKey, Inode};
use crate::lists::{Listing, open_as};
use crate::owners::Owner;
use crate::programs::{Subject, known_user};
use crate::watching::Due;

/// A mount behind the doors.
pub(crate) struct MountBody {
    core: Arc<Core>,
    mountpoint: PathBuf,
}

impl MountBody {
    pub(crate) fn new(core: Arc<Core>, mountpoint: PathBuf) -> Self {
        Self { core, mountpoint }
    }

    fn subject(
        &self,
        speaker: &Speaker,
        selector: &OwnerSelector,
        hint: &Hint,
    ) -> Result<Subject, ControlError> {
        let owner = match selector {
            OwnerSelector::UserDefault => return Ok(Subject::User(speaker.uid)),
            // The speaker's number, too, can be another's by now: a connection outlives the process
            // that made it.
            OwnerSelector::Caller => self.owner_of_process(speaker, speaker.pid, hint)?,
            OwnerSelector::Pid(pid) => self.owner_of_process(speaker, *pid, hint)?,
            OwnerSelector::Name(name) => {
                let mut found = self.core.programs.owners().named(name);
                found.retain(|owner| speaker.speaks_for(owner.uid));
                only(name, &found)?
            }
        };
        Ok(Subject::Owner(owner))
    }

    /// The owner of a process that the speaker may speak for.
    fn owner_of_process(&self, speaker: &Speaker, pid: u32, hint: &Hint) -> Result<OwnerId, ControlError> {
        let user = known_user(pid)?;
        speaker.check_speaks_for(user)?;
        let programs = &self.core.programs;
        Ok(if hint.is_wish() { programs.owner_apart(pid, user) } else { programs.owner_of(pid, user) })
    }

    /// The owner that a grant is for: any owner, but no user's default.
    fn granted(&self, selector: &OwnerSelector) -> Result<OwnerId, ControlError> {
        match selector {
            OwnerSelector::Pid(pid) => Ok(self.core.programs.owner_of(*pid, known_user(*pid)?)),
            OwnerSelector::Name(name) => only(name, &self.core.programs.owners().named(name)),
            _ => Err(ControlError::invalid("grant: expected the name of an owner, or one of its processes")),
        }
    }

    /// A hint about an access list: it is about one reader, so about one owner.
    fn hint_list(
        &self,
        speaker: &Speaker,
        selector: &OwnerSelector,
        hint: &Hint,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<HintAnswer, ControlError> {
        let core = &self.core;
        let Subject::Owner(owner) = self.subject(speaker, selector, hint)? else {
            let text = "owner: expected one that reads, by name or process; a list is not for all of a user";
            return Err(ControlError::invalid(text));
        };
        let is_own = *selector == OwnerSelector::Caller;
        if is_own && core.programs.is_process(owner) {
            let text = "owner: expected one that reads, by name or process, or to be asked from within a run";
            return Err(ControlError::invalid(text));
        }
        match hint {
            Hint::ListFile { path, ranges, append } => {
                let (key, mounted) = self.key(path, file)?;
                let inode = core.inodes.of_opened(key, mounted).filter(|inode| inode.content().is_ok());
                let inode = inode.ok_or_else(|| not_here(path))?;
                let (caller, file) = open_as(speaker, &inode).map_err(|error| naming(path, error))?;
                let content = inode.content()?;
                content.look(&core.shelf, inode.number, &file)?;
                let listed = Listing { caller: &caller, inode: &inode, file: &file };
                core.programs.lists().list_file(owner, &listed, ranges, *append).map(HintAnswer::List)
            }
            Hint::EndList => {
                core.programs.lists().end(owner);
                Ok(HintAnswer::Done)
            }
            _ => Ok(HintAnswer::List(core.programs.lists().answer(owner))),
        }
    }

    fn content(&self, path: &Path, file: Option<BorrowedFd<'_>>) -> Result<Arc<Content>, ControlError> {
        let (file, mounted) = self.key(path, file)?;
        self.core.inodes.content_of_opened(file, mounted).ok_or_else(|| not_here(path))
    }

    /// What file a descriptor is, and the device of this mount.
    fn key(&self, path: &Path, file: Option<BorrowedFd<'_>>) -> Result<(FileKey, u64), ControlError> {
        let file = identity(file.ok_or_else(|| not_here(path))?)?;
        let root = statx(CWD, &self.mountpoint, AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS);
        let root = root.map_err(std::io::Error::from)?;
        let mounted = rustix::fs::makedev(root.stx_dev_major, root.stx_dev_minor);
        Ok((file, mounted))
    }

    fn owner_stats(&self) -> Vec<OwnerStat> {
        let owners = self.owners();
        let known = |id: Option<OwnerId>| {
            let owner = id.and_then(|id| owners.get(&id));
            Some(KnownOwner {
                name: name_of(id, owner),
                uid: owner.map(|owner| owner.uid),
                pid: owner.and_then(|owner| owner.pid),
                live: owner.is_none_or(|owner| owner.live),
            })
        };
        self.core.cache().with_steward(|steward| OwnerStat::all(steward, known))
    }

    fn owners(&self) -> HashMap<OwnerId, Owner> {
        let owners = self.core.programs.owners();
        let shown = owners.all().into_iter().chain(owners.programs());
        shown.map(|owner| (owner.id, owner)).collect()
    }

    /// Refuses a speaker that named a file without the right to read it: what is cached of a file
    /// tells what others do with it. A file that no program knows by name is shown only to root and
    /// to the user that mounted.
    fn check_may_read(
        &self,
        speaker: &Speaker,
        path: &Path,
        file: BorrowedFd<'_>,
    ) -> Result<(), ControlError> {
        if Self::may_see_paths(speaker) {
            return Ok(());
        }
        let (key, mounted) = self.key(path, Some(file))?;
        let inode = self.core.inodes.of_opened(key, mounted).ok_or_else(|| not_here(path))?;
        open_as(speaker, &inode).map(drop).map_err(|error| naming(path, error))
    }

    /// Whether the speaker may see where files are. Directories above one may be closed to others
    /// than root and the user that mounts.
    fn may_see_paths(speaker: &Speaker) -> bool {
        speaker.speaks_for(rustix::process::geteuid().as_raw())
    }

    /// What the files of decisions are called, as far as the speaker may know.
    fn names(&self, speaker: &Speaker, decisions: &[Decision]) -> HashMap<FileId, String> {
        if decisions.is_empty() || !Self::may_see_paths(speaker) {
            return HashMap::new();
        }
        let files = |it: &Decision| [Some(it.candidate.file), it.newcomer.map(|block| block.file)];
        let wanted: HashSet<FileId> = decisions.iter().flat_map(files).flatten().collect();
        let name = |inode: &Arc<Inode>| {
            let file = inode.content().ok()?.file();
            let path = wanted.contains(&file).then(|| self.core.path(inode))??;
            Some((file, path.to_string_lossy().into_owned()))
        };
        self.core.inodes.files().iter().filter_map(name).collect()
    }

    /// The files with most blocks, and how many are not among them.
    fn file_stats(&self, speaker: &Speaker) -> (Vec<FileStat>, u64) {
        if !Self::may_see_paths(speaker) {
            return (Vec::new(), 0);
        }
        let mut stats = self.core.cache().with_steward(|steward| steward.files().collect::<Vec<_>>());
        stats.sort_by_key(|stat| (std::cmp::Reverse(stat.blocks), stat.id));
        let left_out = stats.len().saturating_sub(FILES_SHOWN) as u64;
        stats.truncate(FILES_SHOWN);
        let inodes = self.core.inodes.files();
        let by_file: HashMap<FileId, _> =
            inodes.iter().filter_map(|inode| Some((inode.content().ok()?.file(), inode))).collect();
        let path = |id| by_file.get(&id).and_then(|inode| self.core.path(inode));
        let stat = |stat: pantler_steward::FileStat| FileStat {
            path: path(stat.id).unwrap_or_else(|| format!("forgotten file {}", stat.id.0).into()),
            counters: Counters {
                references: stat.traffic.hits + stat.traffic.ahead_used + stat.traffic.misses,
                hits: stat.traffic.hits,
                ahead_used: stat.traffic.ahead_used,
                misses: stat.traffic.misses,
                read_bytes: stat.traffic.read_bytes,
                blocks: stat.blocks,
                ..Counters::default()
            },
        };
        (stats.into_iter().map(stat).collect(), left_out)
    }
}

impl Body for MountBody {
    fn describe(&self) -> BodyInfo {
        let options = &self.core.options;
        BodyInfo {
            name: self.mountpoint.to_string_lossy().into_owned(),
            kind: BodyKind::Mount,
            mount_point: Some(self.mountpoint.clone()),
            origin: Some(self.core.shelf.origin.path().to_owned()),
            uid: rustix::process::geteuid().as_raw(),
            pid: std::process::id(),
            capacity_blocks: u64::from(self.core.cache().capacity()),
            block_bytes: options.block_bytes as u32,
            allocation: options.allocation.to_string(),
            frames: Some(if self.core.lends() { "kernel" } else { "own" }.to_owned()),
            why_own: self.core.why_own.get().cloned(),
        }
    }

    fn hint(
        &self,
        speaker: &Speaker,
        selector: &OwnerSelector,
        hint: &Hint,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<HintAnswer, ControlError> {
        hint.check()?;
        self.core.catch_up_with(speaker.pid);
        if matches!(hint, Hint::ListFile { .. } | Hint::GetList | Hint::EndList) {
            return self.hint_list(speaker, selector, hint, file);
        }
        let content = hint.path().map(|path| self.content(path, file)).transpose()?;
        if *hint == Hint::Grant {
            self.core.programs.check_may_grant(speaker)?;
            let owner = self.granted(selector)?;
            return self.core.programs.grant(owner, &selector.to_string()).map(|()| HintAnswer::Done);
        }
        match self.subject(speaker, selector, hint)? {
            Subject::Owner(owner) => self.core.programs.hint_owner(owner, hint, content.as_ref()),
            Subject::User(uid) => self.core.programs.hint_user(uid, hint, content.as_ref()),
        }
    }

    fn open_ring(&self, speaker: &Speaker, ring: OpenedRing) -> Result<(), ControlError> {
        let user = known_user(speaker.pid)?;
        speaker.check_speaks_for(user)?;
        let owner = self.core.programs.owner_of(speaker.pid, user);
        self.core.open_ring(&Speaker { uid: user, ..speaker.clone() }, owner, ring)
    }

    fn number_file(
        &self,
        speaker: &Speaker,
        number: FileNumber,
        path: &Path,
        file: BorrowedFd<'_>,
    ) -> Result<(), ControlError> {
        let user = known_user(speaker.pid)?;
        speaker.check_speaks_for(user)?;
        let named = self.key(path, Some(file))?;
        self.core.number_file(&Speaker { uid: user, ..speaker.clone() }, number, path, named)
    }

    fn stat(&self, speaker: &Speaker) -> Result<BodyStat, ControlError> {
        self.core.catch_up();
        let traffic = self.core.cache().traffic();
        let (totals, prefetching) =
            self.core.cache().with_steward(|steward| (steward.totals(), PrefetchStat::new(steward)));
        let known = self.owners();
        let of_owner = |id: OwnerId| {
            let owner = known.get(&id);
            (name_of(Some(id), owner), owner.map(|owner| owner.uid))
        };
        let takings = self.core.cache().with_steward(|steward| TakingStat::all(steward, of_owner));
        let (descriptors_held, descriptors_refused) = self.core.descriptors.counts();
        let mut body_counters = BTreeMap::from([
            ("origin_reads".to_owned(), traffic.fetches),
            ("origin_reads_failed".to_owned(), traffic.failed),
            ("blocks_voided".to_owned(), traffic.voided),
            ("open_files".to_owned(), self.core.files.len() as u64),
            ("descriptors_held".to_owned(), descriptors_held),
            ("descriptors_refused".to_owned(), descriptors_refused),
            ("lists_discarded".to_owned(), self.core.programs.lists().discarded_count()),
        ]);
        if self.core.lends() {
            body_counters.insert("blocks_of_kernel".to_owned(), self.core.cache().lent_blocks());
        }
        if let Origin::Store(store) = &self.core.shelf.origin {
            body_counters.insert("keys_left_out".to_owned(), store.left_out());
        }
        let tiers = self.core.cache().tier_stats();
        if !tiers.is_empty() {
            body_counters.insert("tier_index_bytes".to_owned(), self.core.cache().tier_index_bytes());
        }
        let (files, files_left_out) = self.file_stats(speaker);
        Ok(BodyStat {
            body: self.describe(),
            totals: Counters { read_bytes: traffic.fetched_bytes, ..totals },
            followed: self.core.cache().with_steward(|steward| steward.followed()),
            prefetching: Some(prefetching),
            owners: self.owner_stats(),
            owners_left_out: 0,
            files,
            files_left_out,
            revocations: self.core.programs.revocations(),
            takings,
            tiers,
            body_counters,
        })
    }

    fn has_owner_of(&self, uid: u32) -> bool {
        self.owners().values().any(|owner| owner.uid == uid)
    }

    fn explain(
        &self,
        speaker: &Speaker,
        path: &Path,
        file: BorrowedFd<'_>,
    ) -> Result<FileExplanation, ControlError> {
        self.core.catch_up_with(speaker.pid);
        let content = self.content(path, Some(file))?;
        self.check_may_read(speaker, path, file)?;
        let id = content.file();
        let known = self.owners();
        let name = |id: OwnerId| name_of(Some(id), known.get(&id));
        let (story, holder) = self.core.cache().with_steward(|steward| {
            let story = FileStory::of(steward, id);
            let holder = story.holder(steward, id, name);
            (story, holder)
        });
        let names = self.names(speaker, &story.decisions);
        let priority = self.core.programs.defaults().priority(speaker.uid, &content).unwrap_or(0);
        let block_bytes = self.core.cache().block_bytes() as u64;
        Ok(FileExplanation {
            body: self.describe(),
            path: path.to_owned(),
            blocks: content.size().div_ceil(block_bytes),
            cached_blocks: story.cached_blocks,
            owners: story.owners(name),
            holder,
            priority,
            policy: self.core.programs.defaults().policy(speaker.uid, priority).unwrap_or_default(),
            decisions: story.lines(|file| names.get(&file).cloned()),
        })
    }

    fn begin_run(&self, speaker: &Speaker, run: &RunSpec) -> Result<Option<RunId>, ControlError> {
        self.core.programs.begin_run(speaker, run).map(Some)
    }

    fn end_run(&self, run: RunId) {
        // Events that come later have no owner.
        self.core.catch_up_by(Due::Now);
        self.core.programs.end_run(run);
    }

    fn stop(&self, speaker: &Speaker) -> Result<(), ControlError> {
        speaker.check_speaks_for(rustix::process::geteuid().as_raw())?;
        crate::stale::detach(&self.mountpoint).map_err(|error| ControlError::failed(error.to_string()))?;
        self.core.stop();
        Ok(())
    }
}

/// An error that says which file it is about.
fn naming(path: &Path, error: ControlError) -> ControlError {
    match error {
        ControlError::Denied { reason } => ControlError::denied(format!("file {}: {reason}", path.display())),
        other => other,
    }
}

fn not_here(path: &Path) -> ControlError {
    ControlError::not_found(format!("file {} on this mount", path.display()))
}

/// What file a descriptor is, as far as its kernel knows them without asking the server of the
/// file: a descriptor of a stranger's file system must not make us wait.
fn identity(file: BorrowedFd<'_>) -> Result<FileKey, ControlError> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::BTIME;
    let stat = statx(file, c"", flags, wanted).map_err(std::io::Error::from)?;
    Ok(FileKey::from(&Attributes::from(&stat)))
}

/// The one owner of that name. Which of several is meant is not guessed.
fn only(name: &str, found: &[Owner]) -> Result<OwnerId, ControlError> {
    match found {
        [] => Err(ControlError::not_found(format!("owner {name:?}"))),
        [owner] => Ok(owner.id),
        several => {
            let one = |owner: &Owner| match owner.pid {
                Some(pid) => format!("user {} (process {pid})", owner.uid),
                None => format!("user {}", owner.uid),
            };
            Err(ControlError::invalid(format!(
                "owner {name:?}: there is one of {}, expected the number of one of its processes instead",
                several.iter().map(one).collect::<Vec<_>>().join(" and of ")
            )))
        }
    }
}

fn name_of(id: Option<OwnerId>, known: Option<&Owner>) -> String {
    match (known, id) {
        (Some(owner), _) => owner.name.clone(),
        (None, None) => "common".to_owned(),
        (None, Some(OwnerId(0))) => "nobody".to_owned(),
        (None, Some(OwnerId(number))) => format!("owner-{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MountOptions;

    #[test]
    fn an_owner_of_several_users_is_told_apart_by_its_processes() {
        let folder = tempfile::tempdir().unwrap();
        let core = Core::new(MountOptions::new(folder.path(), folder.path())).unwrap();
        let leader = std::process::id();
        let (own, _) = core.programs.owners().begin_run("job", 5, leader);
        assert_eq!(only("job", &core.programs.owners().named("job")), Ok(own));
        core.programs.owners().begin_run("job", 6, 1);
        let error = only("job", &core.programs.owners().named("job")).unwrap_err();
        assert_eq!(error.exit_status(), 2);
        let text = error.to_string();
        for one in [format!("user 5 (process {leader})"), "user 6 (process 1)".to_owned()] {
            assert!(text.contains(&one), "{text}");
        }
        assert!(text.ends_with("expected the number of one of its processes instead"), "{text}");
        assert_eq!(only("jab", &core.programs.owners().named("jab")).unwrap_err().exit_status(), 1);
        core.programs.stop();
    }
}
