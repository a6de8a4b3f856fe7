//! Why a tier does not work.

use std::io;
use std::path::PathBuf;

/// Something about a tier.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "fields are named for what they are")]
pub enum TierError {
    /// Words that make no sense.
    #[error("{0}")]
    Invalid(String),
    /// A file of a local tier.
    #[error("tier {}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    /// A file of a local tier that would take more than its file system has.
    #[error("tier {}: {} MiB, but the file system has {} MiB free", path.display(), bytes >> 20, free >> 20)]
    Space {
        path: PathBuf,
        /// What it was to take.
        bytes: u64,
        /// What it may take.
        free: u64,
    },
    /// A tier elsewhere. Without secrets.
    #[error("tier {name}: {reason}")]
    Remote { name: String, reason: String },
    /// No answer in time.
    #[error("tier {name}: no answer within {timeout_ms} ms")]
    Timeout { name: String, timeout_ms: u64 },
}
