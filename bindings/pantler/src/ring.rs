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
use pantler_control::{ControlError, FileNumber, Hint};
use rustix::fs::{AtFlags, StatxFlags, statx};
use rustix::io::Errno;

/// How long an answer is believed.
const BELIEVED_NS: u64 = 1_000_000_000;
/// A body that took no ring is asked again after this time.
const REFUSED_NS: u64 = 10_000_000_000;

/// A file, as a descriptor tells of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Looked<'a> {
    pub(crate) file: BorrowedFd<'a>,
    /// None where the kernel tells nothing: hints about it do not go by a ring.
    identity: Option<Identity>,
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
        let told = match statx(file, c"", flags, wanted) {
            Ok(told) => told,
            Err(Errno::BADF) => {
                let text = format!("descriptor {}: expected an open file", file.as_raw_fd());
                return Err(ControlError::invalid(text));
            }
            // A filter of system calls, perhaps.
            Err(_) => return Ok(Looked { file, identity: None, size: u64::MAX }),
        };
        let born = (told.stx_btime.tv_sec, told.stx_btime.tv_nsec);
        let identity = Identity((told.stx_dev_major, told.stx_dev_minor), told.stx_ino, born);
        Ok(Looked { file, identity: Some(identity), size: told.stx_size })
    }

    pub(crate) fn device(&self) -> Option<(u32, u32)> {
        self.identity.map(|identity| identity.0)
    }
}

/// The ring of this process at one body.
#[derive(Debug)]
pub(crate) enum Ring {
    /// None yet; when the last hint was said.
    Untried(Option<u64>),
    /// The body takes none, up to this time.
    Refused(u64),
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

impl OwnRing {
    fn number_of(&self, file: &Looked<'_>) -> Option<u16> {
        self.numbers.get(file.identity.as_ref()?).copied()
    }
}

impl Ring {
    /// Whether a hint about this file may be written now.
    pub(crate) fn takes(&self, file: Option<&Looked<'_>>, now_ns: u64) -> bool {
        let Ring::Open(ring) = self else { return false };
        let is_known = file.is_none_or(|file| ring.number_of(file).is_some());
        now_ns < ring.believed_until_ns && is_known && ring.writer.has_room()
    }

    /// Writes a hint that it [takes](Self::takes).
    pub(crate) fn write(&mut self, hint: Hint, file: Option<&Looked<'_>>, now_ns: u64) {
        let Ring::Open(ring) = self else { return };
        let file = file.and_then(|file| ring.number_of(file));
        if let Some(words) = (Entry { time_ns: now_ns, file, hint }).encode() {
            ring.writer.write(&words);
        }
    }

    /// The number that a file is to get with the next request, if it has none.
    pub(crate) fn number_for(&self, file: &Looked<'_>) -> Option<FileNumber> {
        let Ring::Open(ring) = self else { return None };
        let needs_one = file.identity.is_some() && ring.number_of(file).is_none() && !ring.writer.is_closed();
        needs_one.then(|| FileNumber { ring: ring.writer.name(), number: ring.next })
    }

    /// A ring that the body ended, and a refusal of long ago, count no more. Returns how many
    /// entries were refused in what is gone.
    pub(crate) fn renew(&mut self, now_ns: u64) -> u64 {
        match self {
            Ring::Open(ring) if ring.writer.is_closed() => {
                let refused = ring.writer.refused();
                *self = Ring::Untried(None);
                refused
            }
            Ring::Refused(until_ns) if now_ns >= *until_ns => {
                *self = Ring::Untried(None);
                0
            }
            _ => 0,
        }
    }

    /// A hint was answered. Whether a ring is to be opened now.
    pub(crate) fn answered(&mut self, file: Option<(&Looked<'_>, FileNumber)>, now_ns: u64) -> bool {
        match self {
            Ring::Open(ring) => {
                ring.believed_until_ns = now_ns + BELIEVED_NS;
                if let Some((file, FileNumber { number, .. })) = file {
                    ring.numbers.retain(|_, known| *known != number);
                    ring.numbers.extend(file.identity.map(|identity| (identity, number)));
                    ring.next = (number + 1) % FILES_MAX;
                }
                false
            }
            Ring::Untried(last) => {
                last.replace(now_ns).is_some_and(|last| now_ns.saturating_sub(last) < BELIEVED_NS)
            }
            Ring::Refused(_) => false,
        }
    }

    /// The body takes no ring now.
    pub(crate) fn refused_at(now_ns: u64) -> Ring {
        Ring::Refused(now_ns + REFUSED_NS)
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
