//! A session as the control doors see it.
//!
//! A session for one run is one owner, and all hints of its user that name no owner mean this one.
//! Where runs join, each is an owner, and hints name it or come from a process of it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

use pantler_control::{
    Body, BodyInfo, BodyKind, BodyStat, ControlError, Counters, FILES_SHOWN, FileExplanation, FileNumber,
    FileStat, FileStory, Hint, HintAnswer, OpenedRing, OwnerSelector, OwnerStat, PrefetchStat, RunId,
    RunSpec, Speaker, TakingStat,
};
use pantler_pagecache::{Engine, FileKey};
use pantler_steward::{FileId, OwnerId};

use crate::lists;
use crate::shared::Shared;
use crate::steer::Steer;
use crate::steering::Steering;
use crate::watch;
use pantler_kernel::clock;
use pantler_kernel::group;
use pantler_kernel::pages::block_bytes;
use pantler_kernel::process::{family, lineage, threads_of, user_of};

/// Files that may have a priority before they are read; the bound of the steward holds besides.
const HINTED_FILES_MAX: usize = 4096;

/// A run behind the doors.
#[derive(Debug)]
pub(crate) struct SteerBody(Arc<Shared>);

impl Steer {
    /// The run as a body for the control doors. It answers after the run ended, too.
    pub fn body(&self) -> Arc<dyn Body> {
        Arc::new(SteerBody(Arc::clone(&self.shared)))
    }

    /// Everything that is counted, by owner, priority and file.
    pub fn stat(&self) -> BodyStat {
        SteerBody(Arc::clone(&self.shared)).full_stat()
    }
}

impl SteerBody {
    fn holds(&self, pid: u32) -> bool {
        let listed = |file: &std::path::PathBuf| {
            group::read(file).is_ok_and(|text| text.lines().any(|line| line.parse() == Ok(pid)))
        };
        let is_attached = || {
            let attached = self.0.attached();
            !attached.is_empty()
                && lineage(pid).iter().any(|member| attached.contains(&(member.pid, member.start)))
        };
        pid != std::process::id()
            && (self.0.group.program_files().first().is_some_and(listed) || is_attached())
    }

    /// The owners that a hint is about, at least one: without a name, where runs join, those of the
    /// speaker's user.
    fn owners(&self, speaker: &Speaker, selector: &OwnerSelector) -> Result<Vec<OwnerId>, ControlError> {
        let steering = self.0.steering();
        let owners = &steering.owners;
        if owners.session().is_some() {
            speaker.check_speaks_for(self.0.options.uid)?;
        }
        let is_of = |owner: &OwnerId, uid| owners.uid(*owner) == Some(uid);
        let found: Vec<OwnerId> = match selector {
            OwnerSelector::UserDefault => match owners.session() {
                Some(session) => vec![session],
                None => owners.all().filter(|owner| is_of(owner, speaker.uid)).collect(),
            },
            OwnerSelector::Name(name) => {
                let speaks_for =
                    |owner: &OwnerId| owners.uid(*owner).is_some_and(|uid| speaker.speaks_for(uid));
                let named: Vec<OwnerId> = owners.named(name).filter(speaks_for).collect();
                if named.len() > 1 {
                    let text =
                        format!("owner {name:?}: several users have one, expected a process of it instead");
                    return Err(ControlError::invalid(text));
                }
                named
            }
            OwnerSelector::Caller | OwnerSelector::Pid(_) => {
                let pid = if let OwnerSelector::Pid(pid) = selector { *pid } else { speaker.pid };
                let is_here = owners.session().is_none() || self.holds(pid);
                let found = owners.find(pid).filter(|_| is_here);
                let found =
                    found.ok_or_else(|| ControlError::not_found(format!("process {pid} in a run here")))?;
                speaker.check_speaks_for(owners.uid(found).unwrap_or(self.0.options.uid))?;
                vec![found]
            }
        };
        if found.is_empty() { Err(ControlError::not_found(selector.to_string())) } else { Ok(found) }
    }

    fn detach_owners(&self, owners: &[OwnerId], name: &str) -> Result<usize, ControlError> {
        let steering = &mut *self.0.steering();
        let runs: Vec<RunId> = owners.iter().flat_map(|&owner| steering.owners.attached(owner)).collect();
        if runs.is_empty() {
            return Err(not_attached(format!("owner {name:?}")));
        }
        let leave = |run| {
            let processes = steering.owners.processes(run);
            steering.detach(run, &processes);
            processes.len()
        };
        Ok(runs.into_iter().map(leave).sum())
    }

    fn detach_process(&self, speaker: &Speaker, pid: u32) -> Result<usize, ControlError> {
        let user = user_of(pid).ok_or_else(|| ControlError::not_found(format!("process {pid}")))?;
        speaker.check_speaks_for(user)?;
        let family = family(pid);
        let steering = &mut *self.0.steering();
        let owners = &steering.owners;
        let run = owners.run_of(pid);
        let run = run.ok_or_else(|| ControlError::not_found(format!("process {pid} in a run here")))?;
        // Also of a process of the speaker that another user attached.
        let user = owners.owner(run).and_then(|owner| owners.uid(owner));
        speaker.check_speaks_for(user.unwrap_or(self.0.options.uid))?;
        if !owners.is_attached(run) {
            return Err(not_attached(format!("process {pid}")));
        }
        let is_its = |process: &u32| owners.run_of(*process) == Some(run);
        let family: BTreeSet<u32> = family.iter().map(|it| it.pid).filter(is_its).collect();
        steering.detach(run, &family);
        Ok(family.len())
    }

    /// Whether a speaker may grant control to an owner: not if it belongs to that owner itself.
    fn check_may_grant(&self, speaker: &Speaker, owner: OwnerId) -> Result<(), ControlError> {
        if !self.0.options.takes_runs {
            // All processes in the control group of the run, children and orphans alike.
            return speaker.check_may_grant(self.0.options.uid, || self.holds(speaker.pid));
        }
        // The programs that it harmed are those of other users.
        let owners = &self.0.steering().owners;
        speaker.check_may_grant(self.0.options.uid, || owners.find(speaker.pid) == Some(owner))
    }

    /// The counters by owner, priority and file, without a check of the speaker.
    pub(crate) fn full_stat(&self) -> BodyStat {
        let steering = &mut *self.0.steering();
        let (shown, files_left_out) = files_shown(&steering.engine);
        shown.iter().for_each(|&file| steering.hands.files.name(file));
        let steering = &*steering;
        let engine = &steering.engine;
        let counters = engine.counters();
        // Without a count of the device for these programs alone: what came into the page cache.
        let counted = self.0.group.device_read_bytes().filter(|_| !self.0.is_charged_elsewhere());
        let fetched = |bytes| bytes + fetched_blocks(steering) * block_bytes();
        let read_bytes = counted.map_or(counters.brought_in * block_bytes(), fetched);
        let mut totals = engine.steward().totals();
        // Readahead by the kernel that the steward was told of too late is known here alone.
        totals.references = counters.references;
        let read = counters.brought_in.min(counters.references);
        totals.ahead_used = totals.ahead_used.min(read);
        totals.misses = read - totals.ahead_used;
        totals.hits = counters.references - read;
        totals.read_bytes = read_bytes;
        let mut body_counters: BTreeMap<String, u64> =
            counters.named().map(|(name, value)| (name.to_owned(), value)).collect();
        body_counters.insert("memory_peak_bytes".to_owned(), self.0.group.peak().unwrap_or(0));
        body_counters.insert("lru_misses".to_owned(), engine.lru().misses());
        body_counters.insert("lru_sampled_one_in".to_owned(), engine.lru().one_in().into());
        body_counters.insert("advice_missed".to_owned(), steering.advice_missed);
        body_counters.insert("descriptors_held".to_owned(), steering.hands.files.held() as u64);
        let files = file_stats(steering, &shown);
        BodyStat {
            totals,
            followed: engine.steward().followed(),
            prefetching: Some(PrefetchStat::new(engine.steward())),
            owners: self.owner_stats(steering, &totals),
            owners_left_out: 0,
            files,
            files_left_out,
            revocations: steering.revocations.stats(),
            takings: TakingStat::all(engine.steward(), |owner| {
                (steering.owners.name(owner), steering.owners.uid(owner))
            }),
            tiers: Vec::new(),
            body_counters,
            body: self.info(engine),
        }
    }

    fn owner_stats(&self, steering: &Steering, totals: &Counters) -> Vec<OwnerStat> {
        let Steering { engine, owners, .. } = steering;
        let mut stats = OwnerStat::all(engine.steward(), |id| owners.tell_of(id?));
        // Those that read nothing yet, or only what is not charged to them.
        let seen: HashSet<_> = engine.steward().owners().filter_map(|stat| stat.id).collect();
        let silent = owners.all().filter(|owner| self.0.options.takes_runs && !seen.contains(owner));
        stats.extend(silent.filter_map(|owner| owners.tell_of(owner)).map(OwnerStat::from));
        for OwnerStat { counters, .. } in &mut stats {
            if !self.0.options.takes_runs {
                // One owner has all that the run did.
                *counters = Counters { blocks: counters.blocks, ..*totals };
            } else {
                counters.read_bytes = (counters.misses + counters.ahead_used) * block_bytes();
            }
        }
        stats
    }

    fn info(&self, engine: &Engine) -> BodyInfo {
        let options = &self.0.options;
        BodyInfo {
            name: options.name.clone(),
            kind: BodyKind::Steer,
            uid: options.uid,
            pid: std::process::id(),
            capacity_blocks: u64::from(engine.capacity()),
            block_bytes: block_bytes() as u32,
            allocation: options.allocation.to_string(),
            ..BodyInfo::default()
        }
    }
}

impl Body for SteerBody {
    fn describe(&self) -> BodyInfo {
        self.info(&self.0.steering().engine)
    }

    fn hint(
        &self,
        speaker: &Speaker,
        selector: &OwnerSelector,
        hint: &Hint,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<HintAnswer, ControlError> {
        hint.check()?;
        let owners = self.owners(speaker, selector)?;
        self.0.catch_up_with(speaker.pid);
        if *hint == Hint::Grant {
            owners.iter().try_for_each(|&owner| self.check_may_grant(speaker, owner))?;
        }
        if !hint.asks() {
            self.0.steering().engine.want_hits();
        }
        if let Hint::ListFile { .. } = hint {
            // Now: if the beginning of a list is read unseen, it is followed late or not at all.
            watch::watch_hits(&self.0);
        }
        let mut steering = self.0.steering();
        let mut done = Err(ControlError::not_found(selector.to_string()));
        for owner in owners {
            // An owner over a bound of its own keeps what it has; the others follow.
            let answer = steering.hint(owner, speaker, hint, file);
            done = if done.is_ok() && answer.is_err() { done } else { answer };
        }
        steering.obey(clock::monotonic_ns());
        done
    }

    fn open_ring(&self, speaker: &Speaker, ring: OpenedRing) -> Result<(), ControlError> {
        let [owner] = self.owners(speaker, &OwnerSelector::Caller)?[..] else {
            return Err(ControlError::not_found(format!("process {} in a run here", speaker.pid)));
        };
        self.0.open_ring(speaker, owner, ring)
    }

    fn number_file(
        &self,
        speaker: &Speaker,
        number: FileNumber,
        path: &Path,
        file: BorrowedFd<'_>,
    ) -> Result<(), ControlError> {
        self.0.steering().number_file(speaker, number, path, file)
    }

    fn stat(&self, speaker: &Speaker) -> Result<BodyStat, ControlError> {
        // Counters may be asked for again: from now on they are complete.
        self.0.steering().engine.want_hits();
        self.peek(speaker)
    }

    fn peek(&self, speaker: &Speaker) -> Result<BodyStat, ControlError> {
        self.0.catch_up();
        let mut stat = self.full_stat();
        if !speaker.speaks_for(self.0.options.uid) {
            stat.files.clear();
            stat.files_left_out = 0;
        }
        Ok(stat)
    }

    fn has_owner_of(&self, uid: u32) -> bool {
        let owners = &self.0.steering().owners;
        owners.all().any(|owner| owners.uid(owner) == Some(uid))
    }

    fn explain(
        &self,
        speaker: &Speaker,
        path: &Path,
        file: BorrowedFd<'_>,
    ) -> Result<FileExplanation, ControlError> {
        speaker.check_speaks_for(self.0.options.uid)?;
        self.0.catch_up();
        let mut steering = self.0.steering();
        let Steering { engine, hands, owners, .. } = &mut *steering;
        let steward = engine.steward();
        let size = rustix::fs::fstat(file).map_err(std::io::Error::from)?.st_size;
        let body = self.info(engine);
        let known = hands.files.key_of_opened(file).and_then(|key| engine.files().find(key));
        let id = known.map(|slot| engine.files().id(slot));
        let story = id.map_or_else(FileStory::default, |id| FileStory::of(steward, id));
        // Where runs join, the first that has blocks of it.
        let owner = owners.session().or_else(|| story.first_owner()).unwrap_or(OwnerId(u64::MAX));
        let priority = id.map_or(0, |id| steward.priority(owner, id));
        // Of the version that the decision was about: the slot may be another file's by now.
        let files = RefCell::new(&mut hands.files);
        let path_of = |file: FileId| {
            let (slot, mut files) = (engine.number(file)?, files.borrow_mut());
            files.name(slot);
            Some(files.path(slot)?.display().to_string())
        };
        Ok(FileExplanation {
            body,
            path: path.to_path_buf(),
            blocks: (size as u64).div_ceil(block_bytes()),
            cached_blocks: story.cached_blocks,
            owners: story.owners(|owner| owners.name(owner)),
            holder: id.and_then(|id| story.holder(steward, id, |owner| owners.name(owner))),
            priority,
            policy: match steward.owner(owner) {
                Some(known) if known.in_control => steward.policy(owner, priority),
                _ => steward.followed(),
            },
            decisions: story.lines(path_of),
        })
    }

    fn begin_run(&self, speaker: &Speaker, run: &RunSpec) -> Result<Option<RunId>, ControlError> {
        if !self.0.options.takes_runs {
            return Ok(None);
        }
        speaker.check_speaks_for(run.uid)?;
        let user = user_of(run.leader);
        let user = user.ok_or_else(|| ControlError::not_found(format!("process {}", run.leader)))?;
        speaker.check_speaks_for(user)?;
        let threads = threads_of(run.leader);
        if run.is_steered {
            // Of a run within a run.
            self.0.steering().owners.leave(&threads);
            return Ok(None);
        }
        let begun = self.0.steering().begin_run(run, &threads)?;
        // Events come before the program goes on.
        watch::wake(&self.0).and_then(|()| self.0.list(&threads)).map_err(|error| {
            self.end_run(begun);
            ControlError::failed(error.to_string())
        })?;
        Ok(Some(begun))
    }

    fn take_in(&self, speaker: &Speaker, run: RunId, pid: u32) -> Result<usize, ControlError> {
        let Some(user) = user_of(pid) else { return Ok(0) };
        speaker.check_speaks_for(user)?;
        let add = |threads: &[u32]| self.0.steering().owners.take_in(run, threads);
        self.0.steering().owners.attach(run, pid);
        let family = self.0.list_family(pid, add).map_err(|error| ControlError::failed(error.to_string()))?;
        let owners = &self.0.steering().owners;
        Ok(family.iter().filter(|member| owners.run_of(member.pid) == Some(run)).count())
    }

    fn detach(&self, speaker: &Speaker, selector: &OwnerSelector) -> Result<usize, ControlError> {
        if !self.0.options.takes_runs {
            return Err(ControlError::unsupported("detaching from a session of one run"));
        }
        // What they read last is counted.
        self.0.catch_up();
        match selector {
            OwnerSelector::Name(name) => self.detach_owners(&self.owners(speaker, selector)?, name),
            OwnerSelector::Pid(pid) => self.detach_process(speaker, *pid),
            OwnerSelector::Caller | OwnerSelector::UserDefault => {
                Err(ControlError::invalid(format!("{selector}: expected the name of an owner, or a process")))
            }
        }
    }

    fn take_detached(&self, run: RunId) -> Option<Vec<u32>> {
        let taken = self.0.steering().owners.take_detached(run);
        taken.map(|processes| processes.into_iter().collect())
    }

    fn end_run(&self, run: RunId) {
        // What it read last is counted.
        self.0.catch_up();
        self.0.steering().end_run(run);
    }

    fn stop(&self, speaker: &Speaker) -> Result<(), ControlError> {
        speaker.check_speaks_for(self.0.options.uid)?;
        // The program goes on, unsteered; the process that started the run removes the rest when
        // the program ends.
        self.0.ask_to_stop();
        Ok(())
    }
}

impl Steering {
    /// Carries out a hint for one owner.
    fn hint(
        &mut self,
        owner: OwnerId,
        speaker: &Speaker,
        hint: &Hint,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<HintAnswer, ControlError> {
        match *hint {
            Hint::Grant => {
                if !self.engine.tell(|steward| steward.grant(owner)) {
                    let name = self.owners.name(owner);
                    return Err(ControlError::failed(format!("owner {name:?} has not lost control")));
                }
                self.revocations.grant(owner);
                Ok(HintAnswer::Done)
            }
            Hint::ListFile { ref path, ref ranges, append } => {
                let file = file.ok_or_else(|| ControlError::not_found(format!("file {}", path.display())))?;
                let now_ns = clock::monotonic_ns();
                self.list_file(owner, speaker, (path, file), ranges, append, now_ns).map(HintAnswer::List)
            }
            Hint::GetList => Ok(HintAnswer::List(self.list_answer(owner))),
            Hint::EndList => {
                self.engine.tell(|steward| steward.end_list(owner));
                Ok(HintAnswer::Done)
            }
            _ => {
                let file = hint.path().map(|path| self.hinted_file(path, file, hint)).transpose()?;
                self.carry_out(owner, hint, file)
            }
        }
    }

    /// Carries out what is for the steward to do.
    pub(crate) fn carry_out(
        &mut self,
        owner: OwnerId,
        hint: &Hint,
        file: Option<FileId>,
    ) -> Result<HintAnswer, ControlError> {
        let file = file.unwrap_or(FileId(0));
        let done = self.engine.tell(|steward| hint.carry_out(steward, owner, file));
        let answer = done.ok_or_else(|| ControlError::unsupported("this hint"))??;
        if matches!(hint, Hint::Clear) {
            self.owners.find_policy(&mut self.engine, owner);
        }
        if let (Hint::SetPriority { .. }, Some(number)) = (hint, self.engine.number(file)) {
            self.engine.keep_hinted(number);
        }
        Ok(answer)
    }

    /// The steward's name for a file that a hint is about.
    fn hinted_file(
        &mut self,
        path: &Path,
        file: Option<BorrowedFd<'_>>,
        hint: &Hint,
    ) -> Result<FileId, ControlError> {
        let file = file.ok_or_else(|| ControlError::not_found(format!("file {}", path.display())))?;
        lists::look_at_regular(path, file)?;
        let key = self.hands.files.key_of_opened(file);
        let key =
            key.ok_or_else(|| ControlError::not_found(format!("file {} on a mount", path.display())))?;
        self.hinted_key(key, hint)
    }

    /// The same for a regular file that was looked at.
    pub(crate) fn hinted_key(&mut self, key: FileKey, hint: &Hint) -> Result<FileId, ControlError> {
        let files = self.engine.files();
        let known = files.find(key);
        let is_new =
            known.is_none_or(|known| !files[known].is_hinted && matches!(hint, Hint::SetPriority { .. }));
        if is_new && files.iter().filter(|(_, file)| file.is_hinted).count() >= HINTED_FILES_MAX {
            return Err(ControlError::Bound { bound: format!("{HINTED_FILES_MAX} files with a priority") });
        }
        let slot = known.or_else(|| self.admit_file(key));
        let slot = slot.ok_or_else(|| ControlError::not_found("room for one more file"))?;
        Ok(self.engine.files().id(slot))
    }
}

fn not_attached(what: String) -> ControlError {
    ControlError::invalid(format!(
        "{what}: expected an attached program; one of `pantler run` leaves when it ends"
    ))
}

/// Blocks that came from other machines, which no device counts.
fn fetched_blocks(steering: &Steering) -> u64 {
    let Steering { engine, hands, .. } = steering;
    let remote = engine.files().iter().filter(|(_, file)| hands.files.is_remote(file.key.dev));
    remote.map(|(_, file)| file.brought_in).sum()
}

/// The files with most blocks, and how many are not among them.
fn files_shown(engine: &Engine) -> (Vec<u32>, u64) {
    let mut files: Vec<_> = engine.files().iter().filter(|(_, file)| file.references > 0).collect();
    files.sort_by_key(|(slot, file)| (std::cmp::Reverse(file.blocks), *slot));
    let left_out = files.len().saturating_sub(FILES_SHOWN) as u64;
    (files.into_iter().take(FILES_SHOWN).map(|(slot, _)| slot).collect(), left_out)
}

fn file_stats(steering: &Steering, shown: &[u32]) -> Vec<FileStat> {
    let Steering { engine, hands, .. } = steering;
    let ahead_used: HashMap<_, u64> =
        engine.steward().files().map(|stat| (stat.id, stat.traffic.ahead_used)).collect();
    let stat = |&slot: &u32| {
        let file = engine.file(slot);
        let FileKey { dev, ino } = file.key;
        let unnamed = || format!("device {}:{} inode {ino}", dev >> 20, dev & 0xf_ffff).into();
        let read = file.brought_in.min(file.references);
        let ahead_used = ahead_used.get(&engine.files().id(slot)).map_or(0, |&used| used.min(read));
        FileStat {
            path: hands.files.path(slot).map_or_else(unnamed, Path::to_path_buf),
            counters: Counters {
                references: file.references,
                hits: file.references - read,
                ahead_used,
                misses: read - ahead_used,
                read_bytes: file.brought_in * block_bytes(),
                blocks: file.blocks,
                ..Counters::default()
            },
        }
    };
    shown.iter().map(stat).collect()
}
