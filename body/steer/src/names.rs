//! Names of the things a run leaves in the kernel, and cleaning up after runs that crashed.
//!
//! A name carries the process and its start time, `pantler-PID-START-NAME`, so that nothing is
//! taken for a leftover while its process lives, and a process number that is used again does not
//! protect them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::SteerError;
use crate::group::{evacuate_and_remove, mounts};
use crate::pid_namespace;
use crate::sys;
use crate::trace::instance;

const PREFIX: &str = "pantler-";
/// Bytes of the run's own name that are kept.
const NAME_BYTES: usize = 32;

/// The name for a run of this process.
pub fn run_name(name: &str) -> String {
    let pid = std::process::id();
    let start = sys::start_time(pid).unwrap_or(0);
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.') { c } else { '_' };
    let name: String = name.chars().map(plain).take(NAME_BYTES).collect();
    format!("{PREFIX}{pid}-{start}-{name}")
}

/// Whether a name is that of a run without its process.
fn is_leftover(name: &str) -> bool {
    let parsed = name.strip_prefix(PREFIX).and_then(|rest| {
        let mut parts = rest.splitn(3, '-');
        let pid: u32 = parts.next()?.parse().ok()?;
        let start: u64 = parts.next()?.parse().ok()?;
        parts.next().map(|_| (pid, start))
    });
    parsed.is_some_and(|(pid, start)| sys::start_time(pid) != Some(start))
}

/// Removes what crashed runs left behind: tracefs instances and control groups. Returns what was
/// removed.
///
/// # Errors
/// The hierarchies could not be listed. Single things that will not go are reported in the log and
/// left.
pub fn clean_leftovers() -> Result<Vec<PathBuf>, SteerError> {
    let mut removed = Vec::new();
    if pid_namespace::foreign().is_some() {
        // The processes of the host's runs have other ids here, or none: all of them would look
        // dead.
        return Ok(removed);
    }
    if let Some(root) = instance::mounted_tracefs() {
        for path in leftovers_in(&root.join("instances")) {
            let result = instance::remove(&path).map_err(|error| SteerError::file("remove", &path, error));
            note(result, path, &mut removed);
        }
    }
    let places = mounts::Places::read()?;
    let memory = match &places.memory {
        Some(mounts::Memory::V1 { own }) => vec![own.clone()],
        Some(mounts::Memory::V2 { root, own }) => {
            own.ancestors().take_while(|folder| folder.starts_with(root)).map(Path::to_path_buf).collect()
        }
        None => Vec::new(),
    };
    for folder in memory.into_iter().chain(places.blkio) {
        for path in leftovers_in(&folder) {
            for below in ["program", "host"] {
                let below = path.join(below);
                if below.is_dir() {
                    note(evacuate_and_remove(&below), below, &mut removed);
                }
            }
            note(evacuate_and_remove(&path), path, &mut removed);
        }
    }
    Ok(removed)
}

fn note(result: Result<(), SteerError>, path: PathBuf, removed: &mut Vec<PathBuf>) {
    match result {
        Ok(()) => removed.push(path),
        Err(error) => tracing::warn!(%error, "a leftover of a crashed run stays"),
    }
}

fn leftovers_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let named = |entry: &fs::DirEntry| entry.file_name().to_str().is_some_and(is_leftover);
    entries.flatten().filter(named).map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_things_of_dead_runs_are_leftovers() {
        assert!(!is_leftover(&run_name("demo")));
        let pid = std::process::id();
        assert!(is_leftover(&format!("pantler-{pid}-1-x")), "the number was used again");
        assert!(is_leftover("pantler-4194305-77-x"), "no such process");
        for other in ["pantler", "pantler-x-1-y", "pantler-12", "other-1-1-x"] {
            assert!(!is_leftover(other), "{other}");
        }
        assert!(run_name("a/b c").ends_with("-a_b_c"));
    }
}
