//! Errors of opening an origin. Operations on its files report plain `io::Error`,
//! unchanged.

use std::io;
use std::path::PathBuf;

/// Why something cannot serve as origin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OriginError {
    /// The path is missing, no directory, or not accessible.
    #[error("origin {}: {error}", path.display())]
    Open {
        /// The path as given.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// A store that does not answer as one, or settings that make no sense.
    #[error("origin {place}: {reason}")]
    Store {
        /// Its address.
        place: String,
        /// What is wrong, and what helps, in one line without credentials.
        reason: String,
    },
}
