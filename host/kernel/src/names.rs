//! Names of the things a run leaves in the kernel, and cleaning up after runs that crashed.
//!
//! A name carries the process and its start time, `pantler-PID-START-NAME`: nothing is taken for a
//! leftover while that process lives, and a process id that is used again protects nothing.

use std::fs;
use std::path::{Path, PathBuf};

use crate::KernelError;
use crate::group::{evacuate_and_remove, mounts};
use crate::process::Member;

const PREFIX: &str = "pantler-";
/// Bytes of the run's own name that are kept.
const NAME_BYTES: usize = 32;

/// The name for a run of this process.
pub fn run_name(name: &str) -> String {
    let pid = std::process::id();
    let start = start_of(pid).unwrap_or(0);
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.') { c } else { '_' };
    let name: String = name.chars().map(plain).take(NAME_BYTES).collect();
    format!("{PREFIX}{pid}-{start}-{name}")
}

fn start_of(pid: u32) -> Option<u64> {
    Member::look(pid).map(|member| member.start)
}

/// Whether a name is that of a run without its process.
pub fn is_leftover(name: &str) -> bool {
    let parsed = name.strip_prefix(PREFIX).and_then(|rest| {
        let mut parts = rest.splitn(3, '-');
        let pid: u32 = parts.next()?.parse().ok()?;
        let start: u64 = parts.next()?.parse().ok()?;
        parts.next().map(|_| (pid, start))
    });
    parsed.is_some_and(|(pid, start)| start_of(pid) != Some(start))
}

/// Removes the control groups of crashed runs. Returns what was removed.
///
/// # Errors
/// The hierarchies could not be listed. A group that cannot be removed is reported in the log.
pub fn clean_groups() -> Result<Vec<PathBuf>, KernelError> {
    let places = mounts::Places::read()?;
    let memory = match &places.memory {
        Some(mounts::Memory::V1 { own }) => vec![own.clone()],
        Some(mounts::Memory::V2 { root, own }) => {
            own.ancestors().take_while(|folder| folder.starts_with(root)).map(Path::to_path_buf).collect()
        }
        None => Vec::new(),
    };
    let tops = memory.into_iter().chain(places.blkio).flat_map(|folder| leftovers_in(&folder));
    let mut removed = Vec::new();
    for top in tops {
        let below = ["program", "host"].map(|name| top.join(name));
        for folder in below.into_iter().filter(|folder| folder.is_dir()).chain([top]) {
            match evacuate_and_remove(&folder) {
                Ok(()) => removed.push(folder),
                Err(error) => tracing::warn!(%error, "a control group of a crashed run stays"),
            }
        }
    }
    Ok(removed)
}

/// What crashed runs left in a folder.
pub fn leftovers_in(folder: &Path) -> Vec<PathBuf> {
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
