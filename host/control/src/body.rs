//! What a running steer session or mount offers to the control doors.

use serde::{Deserialize, Serialize};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use crate::{
    BodyStat, ControlError, FileExplanation, FileNumber, Hint, HintAnswer, OpenedRing, OwnerSelector, RunId,
    RunSpec, Speaker,
};

/// Which kind of body it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum BodyKind {
    /// The kernel's page cache, steered.
    #[default]
    Steer,
    /// A FUSE mount with its own frames.
    Mount,
}

/// What a body is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BodyInfo {
    /// Name of a run, or the mount point of a mount: what `--on` takes. Unique within a host.
    pub name: String,
    /// The kind.
    pub kind: BodyKind,
    /// Where it is mounted, for a mount.
    #[serde(serialize_with = "crate::text::optional")]
    pub mount_point: Option<PathBuf>,
    /// The directory behind a mount.
    #[serde(serialize_with = "crate::text::optional")]
    pub origin: Option<PathBuf>,
    /// User that started it.
    pub uid: u32,
    /// Process that hosts it.
    pub pid: u32,
    /// Capacity in blocks.
    pub capacity_blocks: u64,
    /// Block size in bytes.
    pub block_bytes: u32,
    /// Allocation by name: `lru-sp`, `global-lru` and so on.
    pub allocation: String,
    /// Of a mount where its blocks are: `kernel`, in the page cache, or `own`.
    #[serde(default)]
    pub frames: Option<String>,
    /// Why the kernel does not have them, where it was to have them if it can.
    #[serde(default)]
    pub why_own: Option<String>,
}

/// A body, seen from a control door.
///
/// The doors have checked the values ([`Hint::check`]) and attested the speaker. The body checks
/// the meant owner: a speaker may name its own owners, root any ([`Speaker::check_speaks_for`]).
/// A refused call has no effect. Calls come from any thread and must not wait for I/O of the cache
/// itself.
///
/// `file` is a descriptor that the speaker opened, perhaps with `O_PATH`: identify the file by
/// `fstat`, never by resolving the path.
pub trait Body: Send + Sync {
    /// What this body is.
    fn describe(&self) -> BodyInfo;

    /// Carries out one hint for the owner that `owner` selects.
    fn hint(
        &self,
        speaker: &Speaker,
        owner: &OwnerSelector,
        hint: &Hint,
        file: Option<BorrowedFd<'_>>,
    ) -> Result<HintAnswer, ControlError>;

    /// From now on hints of the speaking process come by this ring, too. Of too many the one that
    /// it opened first ends. Calls of the speaker find what its rings said before.
    ///
    /// # Errors
    /// A process that the body does not hold, and bounds of rings. Refused by default.
    fn open_ring(&self, speaker: &Speaker, ring: OpenedRing) -> Result<(), ControlError> {
        let _ = (speaker, ring);
        Err(ControlError::unsupported("a ring"))
    }

    /// Entries of that ring of the speaker name this file by a number from now on.
    ///
    /// # Errors
    /// No ring, or no file of this body. Refused by default.
    fn number_file(
        &self,
        speaker: &Speaker,
        number: FileNumber,
        path: &Path,
        file: BorrowedFd<'_>,
    ) -> Result<(), ControlError> {
        let _ = (speaker, number, path, file);
        Err(ControlError::unsupported("a ring"))
    }

    /// Counters by owner, priority and file. Paths of files are shown to root and to the user of
    /// the owner only.
    fn stat(&self, speaker: &Speaker) -> Result<BodyStat, ControlError>;

    /// The same, and the body counts no more than before for being asked. As `stat` by default.
    fn peek(&self, speaker: &Speaker) -> Result<BodyStat, ControlError> {
        self.stat(speaker)
    }

    /// Whether a user has an owner here, of which something may be counted. True by default.
    fn has_owner_of(&self, uid: u32) -> bool {
        let _ = uid;
        true
    }

    /// What is cached of a file, for which owner, and the last decisions about it.
    fn explain(
        &self,
        speaker: &Speaker,
        path: &Path,
        file: BorrowedFd<'_>,
    ) -> Result<FileExplanation, ControlError>;

    /// From now on the process `run.leader`, and all that it starts, are one owner called
    /// `run.name`, steered by `run.profile`. If the name belongs to an owner of the same user that
    /// ended, that owner continues.
    ///
    /// `None` where the body takes no further run, as the default: a session for one run *is* that
    /// run.
    fn begin_run(&self, speaker: &Speaker, run: &RunSpec) -> Result<Option<RunId>, ControlError> {
        let _ = (speaker, run);
        Ok(None)
    }

    /// A process that runs already, with all that it started and will start, belongs to the run
    /// from now on, but for processes of another run. Returns how many these are; none if it is
    /// gone, and by default.
    fn take_in(&self, speaker: &Speaker, run: RunId, pid: u32) -> Result<usize, ControlError> {
        let _ = (speaker, run, pid);
        Ok(0)
    }

    /// Programs that were attached are steered no more: a process with all that it started, or all
    /// of an owner. What is cached stays, and is nobody's once all of an owner have left. Returns
    /// how many processes these are. Refused by default.
    ///
    /// # Errors
    /// Programs of another user, and those that are not attached here.
    fn detach(&self, speaker: &Speaker, owner: &OwnerSelector) -> Result<usize, ControlError> {
        let _ = (speaker, owner);
        Err(ControlError::unsupported("detaching"))
    }

    /// Takes the processes of a run that were detached since the last call. `None` once all of it
    /// were; nothing is detached by default.
    fn take_detached(&self, run: RunId) -> Option<Vec<u32>> {
        let _ = run;
        Some(Vec::new())
    }

    /// The run is over: its owner exits, unless its name was given to be continued.
    fn end_run(&self, run: RunId) {
        let _ = run;
    }

    /// Ends the body: unmounts, or stops steering. Returns once new requests are refused; the host
    /// waits for the rest.
    fn stop(&self, speaker: &Speaker) -> Result<(), ControlError>;
}
