//! Why a server cannot start.

use std::io;
use std::path::PathBuf;

/// Why a server cannot start. The caller decides what that means for its process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say what fields are")]
pub enum WebError {
    /// The root is not there, or no directory.
    #[error("root {}: {error}", path.display())]
    Root { path: PathBuf, error: io::Error },
    /// The address is taken, or not ours.
    #[error("cannot listen on {address}: {error}")]
    Listen { address: String, error: io::Error },
    /// Threads or descriptors are short.
    #[error("cannot start: {0}")]
    Start(#[source] io::Error),
}
