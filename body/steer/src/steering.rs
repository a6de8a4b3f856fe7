//! What steers a run, behind one lock: the engine, its hands, and the owners of the threads.
//!
//! ```text
//!   pantler_watch::Event --with its owner--> Engine::event
//!   Engine::poll --Decision--> Hands --Answer--> Engine::answer
//! ```

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;

use pantler_control::{ControlError, LIST_FILES_MAX, Revocations, Rings, RunId, RunSpec};
use pantler_kernel::pages::block_bytes;
use pantler_pagecache::{
    Answer, Belief, Decision, Engine, Event, FileKey, Kind, Options, Origin, SteerCounters,
};
use pantler_steward::{Notice, OwnerId};

use crate::error::SteerError;
use crate::hands::Hands;
use crate::lister::Awaited;
use crate::options::SteerOptions;
use crate::owners::Owners;
use crate::recorder::Recorder;

/// Events of our own threads and their children come from this instance, those of other programs
/// from the next.
pub(crate) const SOURCE_RUN: u8 = 0;

/// The engine of a run, and what translates for it.
#[derive(Debug)]
pub struct Steering {
    pub(crate) engine: Engine,
    pub(crate) hands: Hands,
    pub(crate) owners: Owners,
    pub(crate) revocations: Revocations,
    /// The rings of programs, with the owner of each.
    pub(crate) rings: Rings<FileKey, OwnerId>,
    /// Callers that wait until the kernel tells of threads.
    pub(crate) awaited: Awaited,
    /// Events until then have been taken.
    pub(crate) taken_until_ns: u64,
    recorder: Option<Recorder>,
    /// Calls of this round that advised.
    pub(crate) advice_looks: u32,
    /// Calls that advised about a descriptor which was closed, or no regular file, when it was
    /// looked up, or which came when too many had been looked up.
    pub(crate) advice_missed: u64,
    /// The thread of the last event of a run, and its owner.
    last: Option<(u32, OwnerId)>,
}

impl Steering {
    /// Steers a run that has nothing cached. What is drawn is drawn from `seed`.
    ///
    /// # Errors
    /// Options that make no sense.
    pub fn new(options: &SteerOptions, seed: u64) -> Result<Steering, SteerError> {
        options.check()?;
        let wanted = Options {
            allocation: options.allocation,
            common_policy: options.policy(),
            revocation: options.revocation,
            log: options.log,
            // Nothing streams lists into a run: what one may hold at once is what a mount holds in
            // all.
            list_entries: LIST_FILES_MAX as u32,
            // Runs with rules about files may join.
            finds_files_early: options.takes_runs
                || options.profile.as_ref().is_some_and(|profile| !profile.files.is_empty()),
            hits_are_watched: !options.starts_calm(),
            is_alone: !options.takes_runs,
            keeps_shared: !options.takes_runs,
            ..Options::of_blocks(options.budget_blocks(), block_bytes() as u32)
        };
        let refused = |error: &dyn std::fmt::Display| SteerError::Options(error.to_string());
        let mut engine = Engine::new(&wanted, seed).map_err(|error| refused(&error))?;
        let recorder = options.record.as_ref().map(|file| file.try_clone().map(Recorder::new));
        let owners = Owners::new(options, &mut engine).map_err(|error| refused(&error))?;
        Ok(Steering {
            engine,
            hands: Hands::default(),
            owners,
            revocations: Revocations::default(),
            rings: Rings::default(),
            awaited: Awaited::default(),
            taken_until_ns: 0,
            recorder: recorder.transpose().map_err(|error| SteerError::call("dup of the record", error))?,
            advice_looks: 0,
            advice_missed: 0,
            last: None,
        })
    }

    /// Takes what the kernel told, in order of time.
    #[inline]
    pub fn told(&mut self, told: &pantler_watch::Told) {
        match told {
            pantler_watch::Told::Pages(event) => self.event(event),
            pantler_watch::Told::Started { by, thread, time_ns } => {
                self.awaited.started(*by);
                self.hands.files.forget_thread(*thread);
                self.last = self.last.filter(|(last, _)| last != thread);
                self.owners.started(*by, *thread, *time_ns);
            }
            pantler_watch::Told::Advised { time_ns, thread, descriptor, advice } => {
                self.advised(*time_ns, *thread, *descriptor, *advice);
            }
            // Not asked for.
            pantler_watch::Told::Written { .. } => {}
            pantler_watch::Told::Ended { thread, .. } => {
                self.hands.files.forget_thread(*thread);
                self.last = self.last.filter(|(last, _)| last != thread);
                self.owners.ended(*thread);
            }
        }
    }

    #[inline]
    fn event(&mut self, event: &pantler_watch::Event) {
        let owner = match self.last {
            Some((thread, owner)) if thread == event.tid => Some(owner),
            // In any thread, also in one that has ended.
            _ if event.kind == Kind::Gone => None,
            _ => self.owner_of(event.tid, event.source),
        };
        let origin = match owner {
            Some(owner) if event.source == SOURCE_RUN => Origin::Run { thread: event.tid, owner },
            // The other instance tells of threads that joined until its list has them.
            Some(_) => return,
            // A thread of a run that has ended: it is steered no more, and is no stranger. One that
            // was detached goes on beside runs, and is.
            None if event.source == SOURCE_RUN
                && Kind::REFERENCES.contains(&event.kind)
                && !self.owners.has_left(event.tid) =>
            {
                return;
            }
            None => Origin::Outside,
        };
        let event = Event {
            time_ns: event.time_ns,
            kind: event.kind,
            origin,
            file: FileKey { dev: event.dev, ino: event.ino },
            first: event.first,
            last: event.last,
        };
        if !self.engine.event(&event) {
            if !self.hands.files.are_steered(event.file.dev) {
                return;
            }
            let Some(file) = self.engine.admit(&event) else { return };
            self.hands.files.begin(file, event.file);
        }
        // Of a file that is in memory because of others nothing will be dropped.
        if let (Kind::Fault | Kind::Mapped, Origin::Run { thread, .. }) = (event.kind, event.origin)
            && let Some(file) = self.engine.files().find(event.file)
            && self.engine.file(file).blocks != 0
        {
            self.hands.files.note_mapped(file, thread);
        }
        if self.recorder.is_some() {
            self.record(&event);
        }
    }

    /// Records a reference. Mapped pages that others brought in are those of programs and libraries
    /// that others hold: no run drops them, and the model would.
    fn record(&mut self, event: &Event) {
        let (Origin::Run { thread, .. }, Some(recorder)) = (event.origin, &mut self.recorder) else { return };
        let blocks = self.engine.referenced_last();
        if event.kind == Kind::Read {
            recorder.reference(event.time_ns, thread, event.file, &blocks);
        } else if let Some(file) = self.engine.files().find(event.file) {
            let is_meant = |index| self.engine.ledger().belief(file, index) != Belief::Unknown;
            let mut rest = blocks;
            while let Some(first) = rest.find(|&index| is_meant(index)) {
                let end = rest.find(|&index| !is_meant(index)).unwrap_or(rest.end);
                recorder.reference(event.time_ns, thread, event.file, &(first..end));
            }
        }
    }

    /// The owner of the thread of an event; none of a program outside of all runs.
    #[cold]
    pub(crate) fn owner_of(&mut self, thread: u32, source: u8) -> Option<OwnerId> {
        if source != SOURCE_RUN && !self.owners.holds(thread) {
            return None;
        }
        let owner = self.owners.of(thread)?;
        self.last = Some((thread, owner));
        Some(owner)
    }

    /// The rules of a run count for files that are known.
    fn apply_to_known_files(&mut self, run: RunId) {
        let Some(owner) = self.owners.owner(run) else { return };
        let numbers: Vec<u32> = self.engine.files().iter().map(|(number, _)| number).collect();
        for number in numbers {
            if let Some(path) = self.hands.files.path(number) {
                self.owners.apply_profile(&mut self.engine, owner, number, path);
            }
        }
    }

    /// A run begins, with these threads.
    ///
    /// # Errors
    /// See [`Owners::begin`].
    pub(crate) fn begin_run(&mut self, run: &RunSpec, threads: &[u32]) -> Result<RunId, ControlError> {
        let begun = self.owners.begin(&mut self.engine, run)?;
        self.last = None;
        self.owners.add(begun, threads);
        if run.profile.is_some() {
            self.engine.want_hits();
            self.apply_to_known_files(begun);
        }
        Ok(begun)
    }

    /// A run is over.
    pub(crate) fn end_run(&mut self, run: RunId) {
        self.last = None;
        let is_its = |process| self.owners.run_of(process) == Some(run);
        self.hands.restore(is_its);
        self.hands.files.forget_mappers(is_its);
        self.owners.end(&mut self.engine, run);
    }

    /// Processes of a run that were attached belong to none from now on.
    pub(crate) fn detach(&mut self, run: RunId, processes: &BTreeSet<u32>) {
        self.last = None;
        let is_its = |process| processes.contains(&process);
        self.hands.restore(is_its);
        self.hands.files.forget_mappers(is_its);
        self.owners.detach(&mut self.engine, run, processes);
    }

    /// Events were lost because we were slow: asks the kernel about every block that is believed to
    /// be cached.
    pub fn lost(&mut self, events: u64, now_ns: u64) {
        self.engine.lost(events);
        self.obey(now_ns);
    }

    /// Carries out what the events of a round asked for. Returns whether that should soon be
    /// followed up.
    pub fn round(&mut self, now_ns: u64) -> bool {
        self.advice_looks = 0;
        self.engine.begin_round(now_ns);
        self.obey(now_ns);
        self.engine.is_busy()
    }

    /// Slow work, a few times per second.
    pub fn tick(&mut self, now_ns: u64) {
        self.engine.tick();
        self.obey(now_ns);
        self.hands.files.close_idle(now_ns);
        self.hands.files.look_at_mounts();
        self.hands.end_look();
        self.recorded();
    }

    /// What was read until now is in the record.
    pub(crate) fn recorded(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.flush();
        }
    }

    /// Drops what runs brought in and no other program used.
    pub(crate) fn give_up_blocks(&mut self, now_ns: u64) {
        for span in self.engine.ledger().unshared_spans() {
            self.hands.give_up(span, now_ns);
        }
    }

    /// Carries out what is decided.
    pub(crate) fn obey(&mut self, now_ns: u64) {
        while let Some(decision) = self.engine.poll() {
            let answer = match decision {
                Decision::Find { file, thread, .. } => self.find(file, thread, now_ns),
                Decision::Tell { owner, notice } => {
                    let name = self.owners.name(owner);
                    if notice == Notice::ListDiscarded {
                        tracing::info!(
                            owner = name,
                            "a list was discarded: what is read is not what it says"
                        );
                    }
                    self.revocations.note(owner, notice, name, self.owners.uid(owner));
                    Answer::Done
                }
                decision => self.hands.carry_out(decision, now_ns),
            };
            for (file, size_blocks) in self.hands.files.take_resized() {
                self.engine.set_size(file, size_blocks);
            }
            self.engine.answer(decision, answer);
        }
    }

    fn find(&mut self, file: u32, thread: u32, now_ns: u64) -> Answer {
        if !self.owners.need_names()
            && let Some(size_blocks) = self.hands.reach(file, now_ns)
            && !self.engine.is_large(size_blocks)
        {
            return Answer::Found { size_blocks };
        }
        let maps_are_told = !self.engine.is_calm() && !self.engine.wants_hits();
        if !self.hands.find(file, thread, maps_are_told, now_ns) {
            return Answer::Unreachable;
        }
        self.apply_profiles(file);
        Answer::Found { size_blocks: self.hands.files.size_blocks(file) }
    }

    /// A file was found, or told of: rules for it count from now on.
    pub(crate) fn apply_profiles(&mut self, file: u32) {
        if let Some(path) = self.hands.files.path(file) {
            self.owners.apply_profiles(&mut self.engine, file, path);
        }
    }

    /// The number of an opened file, new if need be.
    pub(crate) fn file_of_opened(&mut self, file: BorrowedFd<'_>) -> Option<u32> {
        let key = self.hands.files.key_of_opened(file)?;
        self.engine.files().find(key).or_else(|| self.admit_file(key))
    }

    /// A number for a file that has none.
    pub(crate) fn admit_file(&mut self, key: FileKey) -> Option<u32> {
        let number = self.engine.admit_file(key)?;
        self.hands.files.begin(number, key);
        Some(number)
    }

    /// What was counted.
    pub fn counters(&self) -> SteerCounters {
        self.engine.counters()
    }
}
