//! Why a tier does not work.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// Something about a tier.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TierError {
    /// Words that make no sense.
    #[error("{0}")]
    Invalid(String),
    /// A file of a local tier.
    #[error("tier {}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A file of a local tier that would take more than its file system has.
    #[error("tier {}: {bytes} bytes, but the file system has room for {room}", path.display())]
    Room {
        /// Which.
        path: PathBuf,
        /// What it was to take.
        bytes: u64,
        /// What it may take.
        room: u64,
    },
    /// An origin that a server is to read.
    #[error(transparent)]
    Origin(#[from] pantler_origin::OriginError),
    /// A tier elsewhere. Without secrets.
    #[error("tier {name}: {reason}")]
    Remote {
        /// Which.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// No answer in time.
    #[error("tier {name}: no answer within {timeout_ms} ms")]
    Timeout {
        /// Which.
        name: String,
        /// The limit.
        timeout_ms: u64,
    },
}

/// Whether an error of an origin says that there is no such file any more, or another kind of file
/// by now.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::NOENT, Errno::NOTDIR, Errno::ISDIR, Errno::LOOP, Errno::INVAL, Errno::STALE];
    Errno::from_io_error(error).is_some_and(|errno| gone.contains(&errno))
}
