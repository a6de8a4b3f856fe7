//! What can go wrong with a trace. Every message names the place, the value and the remedy.

use std::io;
use std::path::PathBuf;

/// Why a trace could not be read, prepared or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The operating system refused; the text says what was tried.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried: `open`, `read`, `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An option or a part of a specification makes no sense.
    #[error("{name} {value:?}: expected {remedy}")]
    Option {
        /// The option, or the part.
        name: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        remedy: String,
    },
    /// More references than a prepared trace can hold.
    #[error("more than {bound} references: {remedy}")]
    TooLong {
        /// The bound that was passed.
        bound: u64,
        /// What to do about it.
        remedy: &'static str,
    },
}
