//! What runs that were killed left behind, swept by the next one.
//!
//! ```text
//!   pantler-dust-1c9f03aa-4711       a control group of process 4711 of the world 1c9f03aa
//!   .pantler-dust-1c9f03aa-4711-a0   a file of it on a mount
//! ```
//!
//! A world is one boot of one machine, and one view of its processes: a number that no process has
//! there is that of one that has ended. Whatever bears the mark of another world, or the number of
//! a process that lives, stays.

use std::fs;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};

use foldhash::quality::FixedState;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// The mark of the world of this process; `None` where it is unknown, and nothing is swept.
fn world() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let processes = fs::read_link("/proc/self/ns/pid").ok()?;
    let hash = FixedState::default().hash_one((boot.trim(), processes));
    Some(format!("{:08x}", hash as u32))
}

/// World and process of whatever this process makes, as `world-process`.
pub fn owner() -> String {
    format!("{}-{}", world().unwrap_or_else(|| "nowhere".into()), std::process::id())
}

/// Paths in a folder that ended processes left.
pub fn left_in(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let (Some(world), Ok(entries)) = (world(), fs::read_dir(folder)) else { return Vec::new() };
    let prefix = format!("{prefix}{world}-");
    let is_left = |name: &str| {
        let pid = name.strip_prefix(&prefix).and_then(|rest| rest.split('-').next()?.parse().ok());
        pid.and_then(Pid::from_raw).is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
    };
    let left = entries.flatten().filter(|entry| is_left(&entry.file_name().to_string_lossy()));
    left.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_an_ended_process_of_this_world_made_is_left_over() {
        // The kernel numbers no further than 2^22.
        let ended = (1 << 22) + 5;
        let (folder, world, own) = (tempfile::tempdir().unwrap(), world().unwrap(), owner());
        let left = [format!("it-{world}-{ended}"), format!("it-{world}-{ended}-b1")];
        let others = [
            format!("it-{own}"),
            format!("it-{world}-"),
            format!("it-{world}-0"),
            format!("it-{world}-99999999999"),
            format!("it-00000000-{ended}"),
            format!("is-{world}-{ended}"),
            format!("it-{ended}"),
        ];
        left.iter().chain(&others).for_each(|name| fs::write(folder.path().join(name), "").unwrap());
        let mut found = left_in(folder.path(), "it-");
        found.sort_unstable();
        assert_eq!(found, left.map(|name| folder.path().join(name)));
        assert!(left_in(&folder.path().join("no"), "it-").is_empty());
    }
}
