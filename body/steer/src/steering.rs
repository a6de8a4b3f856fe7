//! What steers a run, behind one lock: the engine, its hands, and the owners of the threads.
//!
//! ```text
//!   trace::Event --with its owner--> Engine::event
//!   Engine::poll --Decision--> Hands --Answer--> Engine::answer
//! ```

use std::os::fd::BorrowedFd;

use pantler_control::{LIST_FILES_MAX, Revocations};
use pantler_pagecache::{Answer, Decision, Engine, Event, FileKey, Options, Origin, SteerCounters};
use pantler_steward::{Notice, OwnerId};

use crate::error::SteerError;
use crate::hands::Hands;
use crate::options::SteerOptions;
use crate::owners::RunOwners;
use crate::trace;

/// Events of our own threads and their children come from this instance, those of other programs
/// from the next.
const SOURCE_RUN: u8 = 0;

/// The engine of a run, and what translates for it.
#[derive(Debug)]
pub struct Steering {
    pub(crate) engine: Engine,
    pub(crate) hands: Hands,
    pub(crate) owners: RunOwners,
    pub(crate) revocations: Revocations,
    /// Events until then have been taken.
    pub(crate) taken_until_ns: u64,
    /// The owner of the last event: it has begun.
    last_owner: Option<OwnerId>,
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
            common_policy: options.common_policy,
            revocation: options.revocation,
            log: options.log,
            // Nothing streams lists into a run: what one may hold at once is what a mount holds in
            // all.
            list_entries: LIST_FILES_MAX as u32,
            finds_files_early: options.profile.as_ref().is_some_and(|profile| !profile.files.is_empty()),
            hits_are_watched: !options.starts_calm(),
            ..Options::new(options.budget_blocks())
        };
        let refused = |error: &dyn std::fmt::Display| SteerError::Options(error.to_string());
        let mut engine = Engine::new(&wanted, seed).map_err(|error| refused(&error))?;
        let owners = engine.tell(|steward| RunOwners::new(options, steward))?;
        Ok(Steering {
            engine,
            hands: Hands::default(),
            owners,
            revocations: Revocations::default(),
            taken_until_ns: 0,
            last_owner: None,
        })
    }

    /// Takes one event, in order of time.
    #[inline]
    pub fn event(&mut self, event: &trace::Event) {
        let origin = if event.source == SOURCE_RUN {
            let owner = self.owners.of(event.tid);
            if self.last_owner != Some(owner) {
                // A bound reached only means that the owner is served without its profile.
                let _ = self.engine.tell(|steward| self.owners.begin(steward, owner));
                self.last_owner = Some(owner);
            }
            Origin::Run { thread: event.tid, owner }
        } else {
            Origin::Outside
        };
        let event = Event {
            time_ns: event.time_ns,
            kind: event.kind,
            origin,
            file: FileKey { dev: event.dev, ino: event.ino },
            first: event.first,
            last: event.last,
        };
        if !self.engine.event(&event)
            && self.hands.files.find_mount(event.file.dev)
            && let Some(file) = self.engine.admit(&event)
        {
            self.hands.files.begin(file, event.file);
        }
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
        self.engine.begin_round(now_ns);
        self.obey(now_ns);
        self.engine.is_busy()
    }

    /// Slow work, a few times per second.
    pub fn tick(&mut self, now_ns: u64) {
        self.engine.tick(now_ns);
        self.obey(now_ns);
        self.hands.files.close_idle(now_ns);
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
                    self.revocations.note(owner, notice, name, Some(self.owners.uid()));
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
        if !self.hands.find(file, thread, now_ns) {
            return Answer::Unreachable;
        }
        let done_with = self.apply_profile(file);
        Answer::Found { size_blocks: self.hands.files.size_blocks(file), done_with }
    }

    /// A file was found, or told of: the profile's rule for it counts from now on. Returns the
    /// priority of its blocks that are done with.
    pub(crate) fn apply_profile(&mut self, file: u32) -> Option<i32> {
        let id = self.engine.files().id(file);
        let path = self.hands.files.path(file);
        self.engine.tell(|steward| self.owners.apply_profile(steward, file, id, path))
    }

    /// The number of an opened file, new if need be.
    pub(crate) fn file_of_opened(&mut self, file: BorrowedFd<'_>) -> Option<u32> {
        let key = self.hands.files.key_of_opened(file)?;
        if let Some(known) = self.engine.files().find(key) {
            return Some(known);
        }
        let number = self.engine.admit_file(key)?;
        self.hands.files.begin(number, key);
        Some(number)
    }

    /// What was counted.
    pub fn counters(&self) -> SteerCounters {
        self.engine.counters()
    }
}
