//! Limits of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that this process may have now.
pub fn descriptors() -> usize {
    let current = getrlimit(Resource::Nofile).current;
    current.map_or(usize::MAX, |count| count.try_into().unwrap_or(usize::MAX))
}

/// Raises the limit of descriptors as far as this process may, and tells the limit. Servers need
/// one for each connection, mounts one for each inode that the kernel knows.
pub fn raise_descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of descriptors stays: few files and connections at a time");
    }
    descriptors()
}
