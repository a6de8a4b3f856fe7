//! Hints that come by the rings of programs.
//!
//! They are taken before a read is served, and where the kernel keeps pages, each before the first
//! reference that is later.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pantler_control::{ControlError, FileNumber, Given, HintAnswer, OpenedRing, Rings, Speaker};
use pantler_steward::OwnerId;

use crate::core::Core;
use crate::inodes::FileKey;

/// A file, and the device of the mount.
pub(crate) type Named = (FileKey, u64);

/// The rings of the programs of a mount, with the owner that each had when it opened its ring.
#[derive(Default)]
pub(crate) struct MountRings(Mutex<Rings<Named, OwnerId>>);

impl MountRings {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Rings<Named, OwnerId>> {
        // A panic elsewhere has lost a hint at worst.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    /// Carries out what programs said by their rings until now.
    pub(crate) fn take_all_hints(&self) {
        let mut rings = self.rings.lock();
        rings.collect();
        self.take_hints(&mut rings, u64::MAX);
    }

    /// Carries out what was collected up to this time.
    #[inline]
    pub(crate) fn take_hints(&self, rings: &mut Rings<Named, OwnerId>, until_ns: u64) {
        while let Some(given) = rings.next(until_ns) {
            self.carry_out_given(rings, &given);
        }
    }

    /// All that a process said by its ring holds.
    pub(crate) fn catch_up_with(&self, pid: u32) {
        self.catch_up();
        // Of its user there was too much for one turn.
        self.rings.lock().collect_of(pid);
        while self.take_hint_of(pid) {}
    }

    /// With the lock for one hint alone: others wait for no more.
    fn take_hint_of(&self, pid: u32) -> bool {
        let mut rings = self.rings.lock();
        let given = rings.next_of(pid);
        given.iter().for_each(|given| self.carry_out_given(&mut rings, given));
        given.is_some()
    }

    fn carry_out_given(&self, rings: &mut Rings<Named, OwnerId>, given: &Given<Named, OwnerId>) {
        if let Err(error) = self.give(rings, given) {
            tracing::debug!(%error, pid = given.pid, "a hint of a ring is refused");
            rings.refuse(given);
        }
    }

    fn give(
        &self,
        rings: &Rings<Named, OwnerId>,
        given: &Given<Named, OwnerId>,
    ) -> Result<HintAnswer, ControlError> {
        let programs = &self.programs;
        let present = || match given.hint.is_wish() {
            true => programs.owner_apart(given.pid, given.uid),
            false => programs.owner_of(given.pid, given.uid),
        };
        // Asked afterwards, too: if it goes on then, the number was its own.
        let present = rings.goes_on(given).then(present).filter(|_| rings.goes_on(given));
        let owner = match present {
            Some(owner) => owner,
            None => {
                let known = programs.owners().get(given.owner).filter(|owner| owner.live);
                known.ok_or_else(|| ControlError::not_found(format!("process {}", given.pid)))?.id
            }
        };
        let content = given.file.map(|(key, mounted)| {
            let content = self.inodes.content_of_opened(key, mounted);
            content.ok_or_else(|| ControlError::not_found("the file of a ring on this mount"))
        });
        programs.hint_owner(owner, &given.hint, content.transpose()?.as_ref())
    }

    /// Takes hints of a process by a ring.
    pub(crate) fn open_ring(
        &self,
        speaker: &Speaker,
        owner: OwnerId,
        ring: OpenedRing,
    ) -> Result<(), ControlError> {
        self.catch_up_with(speaker.pid);
        self.rings.lock().open(speaker, owner, ring)
    }

    /// From now on a file of a program has this number.
    pub(crate) fn number_file(
        &self,
        speaker: &Speaker,
        number: FileNumber,
        path: &Path,
        named: Named,
    ) -> Result<(), ControlError> {
        let not_here = || ControlError::not_found(format!("file {} on this mount", path.display()));
        self.inodes.content_of_opened(named.0, named.1).ok_or_else(not_here)?;
        self.rings.lock().number_file(speaker, number, named)
    }
}
