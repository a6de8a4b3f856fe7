//! The owners of references: to which run a thread belongs, and what the run's profile says.
//!
//! Most sessions are for one run, and each thread that they see belongs to it. Where runs join and
//! leave, a thread belongs to the run of the thread that started it.
//!
//! ```text
//!   begin --> add --started--> more threads --ended--> fewer --> end: none
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use foldhash::fast::FixedState;
use pantler_control::{ControlError, KnownOwner, Profile, RunId, RunSpec};
use pantler_kernel::process::{lineage, process_of, threads_of};
use pantler_pagecache::Engine;
use pantler_steward::OwnerId;

use crate::options::SteerOptions;

/// The owner of a session for one run.
const SESSION: OwnerId = OwnerId(0);
/// Threads remembered before those that are gone are looked for.
const THREADS_MAX: usize = 1 << 16;
/// Runs at a time, where runs join.
const RUNS_MAX: usize = 1024;
/// Owners of a user that ended and may be continued; then its oldest one ends for good.
const KEPT_MAX: usize = 64;

/// What is known of an owner.
#[derive(Debug)]
struct Known {
    name: String,
    uid: u32,
    /// The process that began a run as this owner last.
    pid: u32,
    profile: Option<Profile>,
    /// Its name was given, and may be continued.
    keep: bool,
    /// Runs that go on as this owner.
    runs: u32,
    /// How many runs had begun when its last one ended.
    ended: u64,
}

/// A run that goes on.
#[derive(Debug)]
struct Run {
    owner: OwnerId,
    /// The process that began it.
    leader: u32,
    /// Programs that ran already were taken in.
    is_attached: bool,
    /// Some of them were detached: when the run ends, what it has is nobody's.
    has_detached: bool,
    /// Processes that were detached since [`Owners::take_detached`].
    detached: BTreeSet<u32>,
}

/// What is known of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Thread {
    /// Its run, while that goes on.
    run: Option<RunId>,
    /// The run that it was detached from, or the thread that started it: that takes it in no more.
    left: Option<RunId>,
    /// Its run has ended, and its owner had lost control (L7).
    fell: bool,
    /// The kernel's lists have it, or get it from the thread that started it.
    is_listed: bool,
}

/// The owners of a session.
#[derive(Debug)]
pub struct Owners {
    takes_runs: bool,
    known: BTreeMap<OwnerId, Known>,
    runs: HashMap<RunId, Run, FixedState>,
    /// Threads of runs that joined, also of those that have ended.
    threads: HashMap<u32, Thread, FixedState>,
    /// Until then the kernel's lists were being written: a thread that was started may be on none.
    pub(crate) lists_changed_ns: u64,
    /// With more of them those that are gone are looked for.
    threads_max: usize,
    begun: u64,
}

impl Owners {
    /// The owners of a new session; gives the owner of its run the policies of its profile.
    ///
    /// # Errors
    /// The profile names more than the steward's bounds allow.
    pub fn new(options: &SteerOptions, engine: &mut Engine) -> Result<Owners, ControlError> {
        let mut owners = Owners {
            takes_runs: options.takes_runs,
            known: BTreeMap::new(),
            runs: HashMap::default(),
            threads: HashMap::default(),
            lists_changed_ns: 0,
            threads_max: THREADS_MAX,
            begun: 0,
        };
        if !options.takes_runs {
            owners.begin(engine, &options.run())?;
        }
        Ok(owners)
    }

    /// What people call an owner.
    pub fn name(&self, owner: OwnerId) -> String {
        self.known.get(&owner).map_or_else(|| format!("owner {}", owner.0), |known| known.name.clone())
    }

    /// The user of an owner.
    pub fn uid(&self, owner: OwnerId) -> Option<u32> {
        self.known.get(&owner).map(|known| known.uid)
    }

    /// What is told of an owner; none of programs outside of all runs.
    pub fn tell_of(&self, owner: OwnerId) -> Option<KnownOwner> {
        self.known.get(&owner).map(|known| KnownOwner {
            name: known.name.clone(),
            uid: Some(known.uid),
            pid: self.takes_runs.then_some(known.pid),
            live: known.runs > 0,
        })
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = OwnerId> {
        self.known.keys().copied()
    }

    /// The owners of that name.
    pub fn named(&self, name: &str) -> impl Iterator<Item = OwnerId> {
        self.known.iter().filter(move |(_, known)| known.name == name).map(|(&owner, _)| owner)
    }

    /// The owner of a run that goes on.
    pub fn owner(&self, run: RunId) -> Option<OwnerId> {
        self.runs.get(&run).map(|run| run.owner)
    }

    /// The owner of the run that this session is for; none where runs join.
    pub fn session(&self) -> Option<OwnerId> {
        (!self.takes_runs).then_some(SESSION)
    }

    // Runs.

    /// Whether any run goes on.
    pub fn have_runs(&self) -> bool {
        !self.runs.is_empty()
    }

    /// How many runs have begun.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// A run begins: as the owner of that name and user, if there is one, else as a new one.
    ///
    /// # Errors
    /// A bound: that of runs, or of the steward for what the profile names.
    pub fn begin(&mut self, engine: &mut Engine, run: &RunSpec) -> Result<RunId, ControlError> {
        if self.runs.len() >= RUNS_MAX {
            return Err(ControlError::Bound { bound: format!("{RUNS_MAX} runs") });
        }
        let is_same = |known: &Known| known.name == run.name && known.uid == run.uid;
        let continued = self.known.iter().find(|(_, known)| is_same(known)).map(|(&owner, _)| owner);
        let owner = continued.unwrap_or(OwnerId(self.begun));
        // A run within another has no better standing than that one has, or had at its end (L7).
        let leader = if self.takes_runs { self.look(run.leader) } else { Thread::default() };
        let parent = leader.run.and_then(|run| self.owner(run));
        engine.tell(|steward| match parent {
            _ if leader.fell || parent.is_some_and(|parent| steward.is_revoked(parent)) => {
                steward.born_revoked(owner);
            }
            Some(parent) if continued.is_none() => steward.born(owner, parent),
            _ => {}
        });
        let begun = match &run.profile {
            Some(profile) => engine.tell(|steward| profile.begin(steward, owner)),
            None => {
                self.find_policy(engine, owner);
                Ok(())
            }
        };
        if let Err(error) = begun {
            if continued.is_none() {
                engine.exit(owner);
            }
            return Err(error.into());
        }
        let id = RunId(self.begun);
        self.begun += 1;
        let (is_attached, has_detached, detached) = (false, false, BTreeSet::new());
        let leader = run.leader;
        self.runs.insert(id, Run { owner, leader, is_attached, has_detached, detached });
        let runs = self.known.remove(&owner).map_or(0, |known| known.runs) + 1;
        let (name, uid, pid, ended) = (run.name.clone(), run.uid, run.leader, 0);
        let profile = run.profile.clone();
        self.known.insert(owner, Known { name, uid, pid, profile, keep: run.keep, runs, ended });
        Ok(id)
    }

    /// An owner says nothing, or nothing any more. Where runs join it finds its policy, unless an
    /// earlier run of it said something that holds.
    pub fn find_policy(&self, engine: &mut Engine, owner: OwnerId) {
        if self.takes_runs {
            engine.tell(|steward| steward.find_policy(owner));
        }
    }

    /// A run is over: its threads belong to none. Its owner exits, unless it may be continued or
    /// goes on in another run.
    pub fn end(&mut self, engine: &mut Engine, run: RunId) {
        let Some(Run { owner, has_detached, .. }) = self.runs.remove(&run) else { return };
        if has_detached && self.known.get(&owner).is_some_and(|known| known.runs == 1) {
            // Before it exits: the blocks of one that has exited have no owner.
            engine.disown(owner);
        }
        let fell = engine.steward().is_revoked(owner);
        for thread in self.threads.values_mut().filter(|thread| thread.run == Some(run)) {
            *thread = Thread { run: None, fell, ..*thread };
        }
        let Some(known) = self.known.get_mut(&owner) else { return };
        known.runs -= 1;
        if known.runs > 0 {
            return;
        }
        known.ended = self.begun;
        let (uid, keep) = (known.uid, known.keep);
        if !keep {
            return self.forget(engine, owner);
        }
        engine.tell(|steward| steward.end_list(owner));
        let kept = self.known.iter().filter(|(_, known)| known.uid == uid && known.runs == 0);
        let mut kept: Vec<(u64, OwnerId)> = kept.map(|(&owner, known)| (known.ended, owner)).collect();
        kept.sort_unstable();
        for &(_, first) in kept.iter().rev().skip(KEPT_MAX) {
            self.forget(engine, first);
        }
    }

    // Attached programs.

    /// A process that ran already was taken into a run. A run that goes on in a daemon started anew
    /// takes itself in: nothing of it was attached.
    pub fn attach(&mut self, run: RunId, process: u32) {
        if let Some(run) = self.runs.get_mut(&run) {
            run.is_attached |= process != run.leader;
        }
    }

    /// Whether programs of a run were attached.
    pub fn is_attached(&self, run: RunId) -> bool {
        self.runs.get(&run).is_some_and(|run| run.is_attached)
    }

    /// The runs of an owner with programs that were attached.
    pub fn attached(&self, owner: OwnerId) -> Vec<RunId> {
        let its = self.runs.iter().filter(|(_, run)| run.owner == owner && run.is_attached);
        its.map(|(&id, _)| id).collect()
    }

    /// The processes of a run that have not ended, without the one that began it.
    pub fn processes(&self, run: RunId) -> BTreeSet<u32> {
        let threads = self.threads.iter().filter(|(_, known)| known.run == Some(run));
        let mut processes: BTreeSet<u32> = threads.filter_map(|(&thread, _)| process_of(thread)).collect();
        processes.retain(|process| self.runs.get(&run).is_none_or(|run| run.leader != *process));
        processes
    }

    /// Processes of a run belong to none from now on. With the last of them the run is over, and
    /// unless its owner goes on in another, what it has is nobody's.
    pub fn detach(&mut self, engine: &mut Engine, run: RunId, processes: &BTreeSet<u32>) {
        let Some(owner) = self.owner(run) else { return };
        let fell = engine.steward().is_revoked(owner);
        for thread in processes.iter().flat_map(|&process| threads_of(process)) {
            let known = self.threads.entry(thread).or_default();
            *known = Thread { run: None, left: Some(run), fell: known.fell || fell, ..*known };
        }
        let is_over = self.processes(run).is_empty();
        let Some(known) = self.runs.get_mut(&run) else { return };
        known.detached.extend(processes);
        known.has_detached = true;
        if is_over {
            self.end(engine, run);
            // One that lost control is remembered, as after a run.
            if !fell && self.known.get(&owner).is_some_and(|known| known.runs == 0) {
                self.forget(engine, owner);
            }
        }
    }

    /// Whether a thread was detached, or started by one that was.
    pub fn has_left(&self, thread: u32) -> bool {
        self.threads.get(&thread).is_some_and(|known| known.run.is_none() && known.left.is_some())
    }

    /// Takes the processes of a run that were detached since the last call; none once it is over.
    pub fn take_detached(&mut self, run: RunId) -> Option<BTreeSet<u32>> {
        self.runs.get_mut(&run).map(|run| std::mem::take(&mut run.detached))
    }

    fn forget(&mut self, engine: &mut Engine, owner: OwnerId) {
        self.known.remove(&owner);
        engine.exit(owner);
    }

    // Threads.

    /// Threads of the process that begins a run belong to it from now on.
    pub fn add(&mut self, run: RunId, threads: &[u32]) {
        for &thread in threads {
            self.threads.entry(thread).or_default().run = Some(run);
        }
    }

    /// Threads that run already belong to a run that goes on from now on, but for those of another
    /// one that does, and those that were detached from this one.
    pub fn take_in(&mut self, run: RunId, threads: &[u32]) {
        if !self.runs.contains_key(&run) {
            return;
        }
        for &thread in threads {
            let known = self.threads.entry(thread).or_default();
            if known.left != Some(run) && known.run.is_none_or(|of| !self.runs.contains_key(&of)) {
                known.run = Some(run);
            }
        }
    }

    /// Threads belong to no run: a session of their own steers them.
    pub fn leave(&mut self, threads: &[u32]) {
        for &thread in threads {
            self.threads.entry(thread).or_default().run = None;
        }
    }

    /// A thread was started: it belongs to the run of the thread that started it.
    pub fn started(&mut self, by: u32, thread: u32, time_ns: u64) {
        let starter = self.threads.get(&by).copied();
        // A thread of this number has ended, whether or not that was told.
        self.threads.remove(&thread);
        let is_listed = time_ns > self.lists_changed_ns && starter.is_some_and(|starter| starter.is_listed);
        self.threads.extend(starter.map(|starter| (thread, Thread { is_listed, ..starter })));
        if self.threads.len() > self.threads_max {
            // The ends of some were lost.
            self.threads.retain(|&thread, _| process_of(thread).is_some());
            self.threads_max = THREADS_MAX.max(2 * self.threads.len());
        }
    }

    /// A thread ended.
    pub fn ended(&mut self, thread: u32) {
        self.threads.remove(&thread);
    }

    /// Threads of runs that the kernel's lists may not have.
    pub fn unlisted(&self) -> Vec<u32> {
        let unlisted = self.threads.iter().filter(|(_, known)| known.run.is_some() && !known.is_listed);
        unlisted.map(|(&thread, _)| thread).collect()
    }

    /// Both lists have these threads, and get those that they start from now on.
    pub fn listed(&mut self, threads: &[u32]) {
        for thread in threads {
            self.threads.entry(*thread).and_modify(|known| known.is_listed = true);
        }
    }

    /// Whether a thread that another instance than that of runs told of belongs to a run that
    /// joined.
    pub fn holds(&self, thread: u32) -> bool {
        self.threads.get(&thread).is_some_and(|known| known.run.is_some())
    }

    /// The owner of a thread of which an event tells; none where it belongs to no run.
    pub fn of(&mut self, thread: u32) -> Option<OwnerId> {
        if self.takes_runs && !self.threads.contains_key(&thread) && process_of(thread).is_some() {
            // That it was started was lost. It is looked for once.
            self.threads.insert(thread, self.look(thread));
        }
        self.find(thread)
    }

    /// The owner of a thread that a speaker names, or is.
    pub fn find(&self, thread: u32) -> Option<OwnerId> {
        if !self.takes_runs {
            return Some(SESSION);
        }
        self.owner(self.look(thread).run?)
    }

    /// The run of a process.
    pub fn run_of(&self, process: u32) -> Option<RunId> {
        self.look(process).run
    }

    /// A thread, or the nearest that is known of its process and its ancestors.
    fn look(&self, thread: u32) -> Thread {
        if let Some(&known) = self.threads.get(&thread) {
            return known;
        }
        let process = process_of(thread).unwrap_or(thread);
        let known = lineage(process).into_iter().find_map(|member| self.threads.get(&member.pid).copied());
        let siblings =
            || threads_of(process).into_iter().find_map(|thread| self.threads.get(&thread).copied());
        Thread { is_listed: false, ..known.or_else(siblings).unwrap_or_default() }
    }

    // Files.

    /// Whether rules are about names of files, or may be.
    pub fn need_names(&self) -> bool {
        let has_rules =
            |known: &Known| known.profile.as_ref().is_some_and(|profile| !profile.files.is_empty());
        self.takes_runs || self.known.values().any(has_rules)
    }

    /// A file was found, or told of: what the profiles of all owners say about it counts from now
    /// on.
    pub fn apply_profiles(&self, engine: &mut Engine, file: u32, path: &Path) {
        for &owner in self.known.keys() {
            self.apply_profile(engine, owner, file, path);
        }
    }

    /// The same for one owner.
    pub fn apply_profile(&self, engine: &mut Engine, owner: OwnerId, file: u32, path: &Path) {
        let Some(profile) = self.known.get(&owner).and_then(|known| known.profile.as_ref()) else { return };
        let id = engine.files().id(file);
        let applied = engine.tell(|steward| profile.apply(steward, [owner], id, path));
        engine.set_done_with(file, owner, applied.done_with);
    }
}
