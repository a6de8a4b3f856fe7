//! What can go wrong in this body, each with the thing it happened to.

use std::io;
use std::path::PathBuf;

use pantler_kernel::{KernelError, says_missing};

/// Why steering could not start or a request could not be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SteerError {
    /// The kernel lacks or refuses something.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// It cannot be watched.
    #[error(transparent)]
    Watch(#[from] pantler_watch::WatchError),
    /// The options make no sense; names the value and what is allowed.
    #[error("{0}")]
    Options(String),
    /// A system call failed.
    #[error("{call}: {source}")]
    Call {
        /// The call, and what it was for.
        call: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl SteerError {
    /// An error about one control file.
    pub(crate) fn file(verb: &'static str, path: impl Into<PathBuf>, source: io::Error) -> SteerError {
        KernelError::file(verb, path, source).into()
    }

    /// An error of one system call.
    pub(crate) fn call(call: &'static str, source: impl Into<io::Error>) -> SteerError {
        SteerError::Call { call, source: source.into() }
    }

    /// Whether a privilege or kernel feature is missing (exit status 3), not a failure of ours (1).
    pub fn is_missing(&self) -> bool {
        match self {
            SteerError::Kernel(error) => error.is_missing(),
            SteerError::Watch(error) => error.is_missing(),
            SteerError::Call { source, .. } => says_missing(source),
            _ => false,
        }
    }
}
