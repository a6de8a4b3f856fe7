//! Hints that come by the rings of programs.
//!
//! The reading thread takes each before the first reference that is later, by the clock of both.

use std::os::fd::BorrowedFd;
use std::path::Path;

use pantler_control::{ControlError, FileNumber, Given, HintAnswer, OpenedRing, Speaker};
use pantler_pagecache::FileKey;
use pantler_steward::OwnerId;

use crate::shared::Shared;
use crate::steering::Steering;

impl Steering {
    /// Carries out what programs said up to this time. What is decided is to be obeyed later.
    #[inline]
    pub(crate) fn take_hints(&mut self, until_ns: u64) {
        while let Some(given) = self.rings.next(until_ns) {
            self.carry_out_given(&given);
        }
    }

    #[cold]
    fn carry_out_given(&mut self, given: &Given<FileKey, OwnerId>) {
        if self.owners.uid(given.owner).is_none() {
            // Its run is over. If it is in another one by now it asks by the socket.
            return self.rings.end(given.pid);
        }
        self.engine.want_hits();
        if let Err(error) = self.give(given) {
            tracing::debug!(%error, pid = given.pid, "a hint of a ring is refused");
            self.rings.refuse(given);
        }
    }

    fn give(&mut self, given: &Given<FileKey, OwnerId>) -> Result<HintAnswer, ControlError> {
        let file = given.file.map(|key| self.hinted_key(key, &given.hint)).transpose()?;
        self.carry_out(given.owner, &given.hint, file)
    }

    /// From now on a file of a program has this number.
    pub(crate) fn number_file(
        &mut self,
        speaker: &Speaker,
        number: FileNumber,
        path: &Path,
        file: BorrowedFd<'_>,
    ) -> Result<(), ControlError> {
        let key = self.hands.files.key_of_opened(file);
        let key =
            key.ok_or_else(|| ControlError::not_found(format!("file {} on a mount", path.display())))?;
        self.rings.number_file(speaker, number, key)
    }
}

impl Shared {
    /// What a process said by its ring holds, in the order of the references that it made.
    pub(crate) fn catch_up_with(&self, pid: u32) {
        if !self.steering().rings.has_hints_of(pid) {
            return;
        }
        self.catch_up();
        // Of its user there was too much for a round, or nothing is steered any more.
        self.steering().rings.collect_of(pid);
        while self.take_hint_of(pid) {}
    }

    /// With the lock for one hint alone: others wait for no more.
    fn take_hint_of(&self, pid: u32) -> bool {
        let mut steering = self.steering();
        let given = steering.rings.next_of(pid);
        given.iter().for_each(|given| steering.carry_out_given(given));
        given.is_some()
    }

    /// Takes hints of a process by a ring.
    pub(crate) fn open_ring(
        &self,
        speaker: &Speaker,
        owner: OwnerId,
        ring: OpenedRing,
    ) -> Result<(), ControlError> {
        self.catch_up_with(speaker.pid);
        self.steering().rings.open(speaker, owner, ring)
    }
}
