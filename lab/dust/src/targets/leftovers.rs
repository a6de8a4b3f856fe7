//! What runs that were killed left behind, swept by the next one.
//!
//! ```text
//!   pantler-dust-1c9f03aa-4711       a control group of process 4711 of the world 1c9f03aa
//!   .pantler-dust-1c9f03aa-4711-a0   a file of it on a mount
//!   dust:1c9f03aa:4711:0:17          a key of it at a server
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

/// The mark of the world of this process; `None` where it cannot be told, so that nothing is swept.
fn world() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let processes = fs::read_link("/proc/self/ns/pid").ok()?;
    let hash = FixedState::default().hash_one((boot.trim(), processes));
    Some(format!("{:08x}", hash as u32))
}

/// World and process of whatever this process makes, as `world-process`, or with another sign
/// between them.
pub fn owner(between: char) -> String {
    format!("{}{between}{}", world().unwrap_or_else(|| "nowhere".into()), std::process::id())
}

/// Whether a name that goes on with an owner is that of a process that has ended.
pub fn is_left(name: &str, prefix: &str, between: char) -> bool {
    let Some(world) = world() else { return false };
    let rest = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(&world));
    let Some(rest) = rest.and_then(|rest| rest.strip_prefix(between)) else { return false };
    let end = rest.find(|char: char| !char.is_ascii_digit()).unwrap_or(rest.len());
    let pid = rest[..end].parse().ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

/// The beginning of keys with an owner of this world; `None` where that cannot be told.
pub fn keys() -> Option<String> {
    Some(format!("dust:{}:", world()?))
}

/// Paths in a folder that ended processes left.
pub fn left_in(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let left = entries.flatten().filter(|entry| is_left(&entry.file_name().to_string_lossy(), prefix, '-'));
    left.map(|entry| entry.path()).collect()
}

/// The number of a process that cannot be: the kernel numbers no further than 2^22.
#[cfg(test)]
pub const ENDED: u32 = (1 << 22) + 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_an_ended_process_of_this_world_made_is_left_over() {
        let world = world().unwrap();
        let own = owner('-');
        assert_eq!(own, format!("{world}-{}", std::process::id()));
        for (name, expected) in [
            (format!("it-{world}-{ENDED}"), true),
            (format!("it-{world}-{ENDED}-a0"), true),
            (format!("it-{own}"), false),
            (format!("it-{world}-"), false),
            (format!("it-{world}-0"), false),
            (format!("it-{world}-99999999999"), false),
            (format!("it-00000000-{ENDED}"), false),
            (format!("is-{world}-{ENDED}"), false),
            (format!("it-{ENDED}"), false),
        ] {
            assert_eq!(is_left(&name, "it-", '-'), expected, "{name}");
        }
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join(format!("it-{world}-{ENDED}-b1"));
        fs::write(&left, "").unwrap();
        fs::write(folder.path().join(format!("it-{own}")), "").unwrap();
        assert_eq!(left_in(folder.path(), "it-"), [left]);
        assert!(left_in(&folder.path().join("no"), "it-").is_empty());
    }
}
