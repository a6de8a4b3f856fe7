//! What can go wrong, each with the thing it happened to.

use std::io;
use std::path::PathBuf;

/// Why the kernel did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// A privilege or a kernel feature is missing; the remedy says what to do about it.
    #[error("{what} is missing: {remedy}")]
    Missing {
        /// The feature, named as `doctor` names it.
        what: &'static str,
        /// One sentence that tells the user what to do.
        remedy: String,
    },
    /// A control file of the kernel refused what was asked of it.
    #[error("cannot {verb} {}: {source}", path.display())]
    File {
        /// What was attempted: "read", "write", "create".
        verb: &'static str,
        /// The control file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Whether an answer of the kernel says that a privilege or a feature is missing.
pub fn says_missing(answer: &io::Error) -> bool {
    matches!(
        answer.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported | io::ErrorKind::ReadOnlyFilesystem
    )
}

impl KernelError {
    /// Whether a privilege or kernel feature is missing, which is no failure of ours.
    pub fn is_missing(&self) -> bool {
        match self {
            KernelError::Missing { .. } => true,
            KernelError::File { source, .. } => says_missing(source),
        }
    }

    /// An error about one control file.
    pub fn file(verb: &'static str, path: impl Into<PathBuf>, source: io::Error) -> KernelError {
        KernelError::File { verb, path: path.into(), source }
    }
}
