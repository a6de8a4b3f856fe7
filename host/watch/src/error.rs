//! What can go wrong when the kernel is watched, each with the thing it happened to.

use std::io;
use std::path::PathBuf;

use pantler_kernel::{KernelError, says_missing};

/// Why the kernel cannot be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The kernel lacks or refuses something.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A trace format or ring-buffer header is not one this crate can read.
    #[error("trace format of {event}: {why}")]
    Format {
        /// The event, or `header_page`.
        event: String,
        /// Which field is missing or odd.
        why: String,
    },
    /// A system call failed.
    #[error("{call}: {source}")]
    Call {
        /// The call, and what it was for.
        call: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl WatchError {
    /// An error about one control file.
    pub(crate) fn file(verb: &'static str, path: impl Into<PathBuf>, source: io::Error) -> WatchError {
        KernelError::file(verb, path, source).into()
    }

    /// An error of one system call.
    pub fn call(call: &'static str, source: impl Into<io::Error>) -> WatchError {
        WatchError::Call { call, source: source.into() }
    }

    /// Whether a privilege or kernel feature is missing, which is no failure of ours.
    pub fn is_missing(&self) -> bool {
        match self {
            WatchError::Kernel(error) => error.is_missing(),
            WatchError::Call { source, .. } => says_missing(source),
            _ => false,
        }
    }
}
