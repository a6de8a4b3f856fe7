//! What can go wrong when an origin is opened. Operations on its files report plain `io::Error`, unchanged.

use std::io;
use std::path::PathBuf;

/// Why a directory cannot serve as origin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OriginError {
    /// The path is not there, not a directory, or not accessible.
    #[error("origin {}: {error}", path.display())]
    Open {
        /// The path as given.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
}
