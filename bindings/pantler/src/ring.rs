//! The rings of this process: hints that have no answer go there, without a system call.
//!
//! ```text
//!   one call --socket--> and one more within a second: a ring is opened
//!   calls --ring--> for a second after the last answer; then one --socket--> again
//! ```
//!
//! So a program that hints seldom has an answer to each hint, and one that hints often learns once
//! per second whether its run or mount is still there.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, BorrowedFd};

use pantler_control::ring::{Entry, FILES_MAX, RingWriter};
use pantler_control::{ControlError, Hint};
use rustix::fs::{AtFlags, StatxFlags, statx};

/// How long an answer is believed.
const BELIEVED_NS: u64 = 1_000_000_000;

/// A file, as a descriptor tells of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Looked<'a> {
    pub(crate) file: BorrowedFd<'a>,
    identity: Identity,
    pub(crate) size: u64,
}

/// Device, inode and birth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Identity((u32, u32), u64, (i64, u32));

impl Looked<'_> {
    /// Looks at an open file, without asking the server of a mount.
    ///
    /// # Errors
    /// It is not open.
    pub(crate) fn new(file: BorrowedFd<'_>) -> Result<Looked<'_>, ControlError> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let wanted = StatxFlags::TYPE | StatxFlags::INO | StatxFlags::SIZE | StatxFlags::BTIME;
        let told = statx(file, c"", flags, wanted).map_err(|_| {
            ControlError::invalid(format!("descriptor {}: expected an open file", file.as_raw_fd()))
        })?;
        let born = (told.stx_btime.tv_sec, told.stx_btime.tv_nsec);
        let identity = Identity((told.stx_dev_major, told.stx_dev_minor), told.stx_ino, born);
        Ok(Looked { file, identity, size: told.stx_size })
    }

    pub(crate) fn device(&self) -> (u32, u32) {
        self.identity.0
    }
}

/// The ring of this process at one body.
#[derive(Debug)]
pub(crate) enum Ring {
    /// None yet; when the last hint was said.
    Untried(Option<u64>),
    /// The body takes none.
    Refused,
    Open(OwnRing),
}

#[derive(Debug)]
pub(crate) struct OwnRing {
    writer: RingWriter,
    /// Files that entries may name.
    numbers: HashMap<Identity, u16>,
    /// The number that is given next; the file that has it loses it.
    next: u16,
    believed_until_ns: u64,
}

impl Ring {
    /// Whether a hint about this file may be written now.
    pub(crate) fn takes(&self, file: Option<&Looked<'_>>, now_ns: u64) -> bool {
        let Ring::Open(ring) = self else { return false };
        let is_known = file.is_none_or(|file| ring.numbers.contains_key(&file.identity));
        now_ns < ring.believed_until_ns && is_known && ring.writer.has_room()
    }

    /// Writes a hint that it [takes](Self::takes).
    pub(crate) fn write(&mut self, hint: Hint, file: Option<&Looked<'_>>, now_ns: u64) {
        let Ring::Open(ring) = self else { return };
        let file = file.and_then(|file| ring.numbers.get(&file.identity)).copied();
        if let Some(words) = (Entry { time_ns: now_ns, file, hint }).encode() {
            ring.writer.write(&words);
        }
    }

    /// The number that a file is to get with the next request, if it has none.
    pub(crate) fn number_for(&self, file: &Looked<'_>) -> Option<u16> {
        match self {
            Ring::Open(ring) if !ring.numbers.contains_key(&file.identity) => Some(ring.next),
            _ => None,
        }
    }

    /// A hint was answered. Whether a ring is to be opened now.
    pub(crate) fn answered(&mut self, file: Option<(&Looked<'_>, u16)>, now_ns: u64) -> bool {
        match self {
            Ring::Open(ring) => {
                ring.believed_until_ns = now_ns + BELIEVED_NS;
                if let Some((file, number)) = file {
                    ring.numbers.retain(|_, known| *known != number);
                    ring.numbers.insert(file.identity, number);
                    ring.next = (number + 1) % FILES_MAX;
                }
                false
            }
            Ring::Untried(last) => {
                last.replace(now_ns).is_some_and(|last| now_ns.saturating_sub(last) < BELIEVED_NS)
            }
            Ring::Refused => false,
        }
    }

    /// The body takes hints from a ring.
    pub(crate) fn opened(writer: RingWriter, now_ns: u64) -> Ring {
        let believed_until_ns = now_ns + BELIEVED_NS;
        Ring::Open(OwnRing { writer, numbers: HashMap::new(), next: 0, believed_until_ns })
    }

    /// How many entries were refused; `None` without a ring.
    pub(crate) fn refused(&self) -> Option<u64> {
        match self {
            Ring::Open(ring) => Some(ring.writer.refused()),
            _ => None,
        }
    }
}
