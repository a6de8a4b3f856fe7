//! Cleaning up after runs that crashed: trace instances, probes and control groups.

use std::path::PathBuf;

use pantler_kernel::{names, pid_namespace};

use crate::error::WatchError;
use crate::{instance, probes};

/// Removes what crashed runs left behind. Returns what was removed.
///
/// # Errors
/// The hierarchies of control groups could not be listed. A thing that cannot be removed is
/// reported in the log and left.
pub fn clean_leftovers() -> Result<Vec<PathBuf>, WatchError> {
    // In another namespace the processes of the host's runs have other ids, or none: all of them
    // would look dead.
    if pid_namespace::foreign().is_some() {
        return Ok(Vec::new());
    }
    let mut removed = Vec::new();
    if let Some(root) = instance::mounted_tracefs() {
        let mut left = names::leftovers_in(&root.join("instances"));
        // That of other programs, which has the longer name, was made first and goes last.
        left.sort();
        for path in left {
            match instance::remove(&path) {
                Ok(()) => removed.push(path),
                Err(error) => {
                    tracing::warn!(%error, path = %path.display(), "a trace instance of a crashed run stays");
                }
            }
        }
        match probes::clean_leftovers(&root) {
            Ok(groups) => removed.extend(groups),
            Err(error) => tracing::warn!(%error, "could not look for probes of crashed runs"),
        }
    }
    removed.extend(names::clean_groups()?);
    Ok(removed)
}
