//! How much memory files can take here, how much of it is used, and how many descriptors there are.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Limits from here on are none: v1 writes the largest number of pages that it can count.
const NO_LIMIT: u64 = 1 << 60;

/// The memory of a control group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// What it can use at most, where that is less than the machine has.
    pub limit: Option<u64>,
    /// What it uses, with all groups below it.
    pub used: u64,
}

/// Bytes that the page cache can take for this process, by the smallest limit above it. A first guess: verification adjusts it.
pub fn available() -> u64 {
    let whole = fs::read_to_string("/proc/meminfo").ok().and_then(|text| kilobytes(&text, "MemAvailable:"));
    let limits = groups().into_iter().filter_map(|group| group.limit);
    whole.into_iter().chain(limits).min().unwrap_or(1 << 30)
}

/// The control group of this process and those above it, as far as they can be seen from here.
pub fn groups() -> Vec<Group> {
    groups_below(Path::new("/"))
}

/// The same on a machine whose root is here.
fn groups_below(root: &Path) -> Vec<Group> {
    let read = |file: &str| fs::read_to_string(root.join(file)).unwrap_or_default();
    let machine = kilobytes(&read("proc/meminfo"), "MemTotal:").unwrap_or(NO_LIMIT);
    let hierarchies = read("proc/self/cgroup");
    let groups = hierarchies.lines().filter_map(|line| {
        let (folders, files) = folders(root, line)?;
        let group = |folder: PathBuf| files.group(&folder, machine);
        let groups: Vec<Group> = folders.into_iter().filter_map(group).collect();
        (!groups.is_empty()).then_some(groups)
    });
    // One hierarchy counts memory, whatever others there are.
    groups.into_iter().next().unwrap_or_default()
}

/// The names of a hierarchy's files.
struct Files {
    limits: &'static [&'static str],
    used: &'static str,
}

const V1: Files = Files { limits: &["memory.limit_in_bytes"], used: "memory.usage_in_bytes" };
const V2: Files = Files { limits: &["memory.max", "memory.high"], used: "memory.current" };

impl Files {
    fn group(&self, folder: &Path, machine: u64) -> Option<Group> {
        // `max` is no number and no limit.
        let number = |file: &str| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok();
        let limit = self.limits.iter().filter_map(|file| number(file)).min();
        Some(Group { limit: limit.filter(|limit| *limit < machine.min(NO_LIMIT)), used: number(self.used)? })
    }
}

/// The folders of a line of `/proc/self/cgroup`, from the own group up, where the hierarchies are mounted as usual. In a
/// container the path may be one that only the host knows: then the top of what is mounted is the container's group.
fn folders(root: &Path, line: &str) -> Option<(Vec<PathBuf>, Files)> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, path) = (fields.next()?, fields.next()?);
    let (top, files) = match controllers {
        "" => ("sys/fs/cgroup", V2),
        _ if controllers.split(',').any(|word| word == "memory") => ("sys/fs/cgroup/memory", V1),
        _ => return None,
    };
    let top = root.join(top);
    let path = Path::new(path.trim_start_matches('/'));
    let is_below = path.components().all(|component| matches!(component, Component::Normal(_)));
    let own = if is_below { top.join(path) } else { top.clone() };
    let folders = own.ancestors().take_while(|folder| folder.starts_with(&top)).map(Path::to_owned).collect();
    Some((folders, files))
}

fn kilobytes(text: &str, word: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(word))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// Takes as many descriptors as this process may have, and says how many that are: one for each connection, and one for each
/// file that somebody is answered from.
pub fn raise_descriptor_limit() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = rustix::process::setrlimit(rustix::process::Resource::Nofile, raised) {
        tracing::debug!("the limit of descriptors stays: {error}");
    }
    let current = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    current.map_or(usize::MAX, |count| count.try_into().unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_some_memory() {
        assert!(available() > 1 << 20);
        assert_eq!(kilobytes("A: 1 kB\nMemAvailable:   20 kB\n", "MemAvailable:"), Some(20 << 10));
    }

    /// A machine with a gigabyte and these files.
    fn machine(own: &str, files: &[(&str, &str)]) -> Vec<Group> {
        let root = tempfile::tempdir().unwrap();
        let files = [("proc/meminfo", "MemTotal: 1048576 kB\n"), ("proc/self/cgroup", own)]
            .into_iter()
            .chain(files.iter().copied());
        for (file, text) in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        groups_below(root.path())
    }

    #[test]
    fn groups_above_limit_too() {
        let v1 = machine(
            "9:cpu,cpuacct:/x\n4:memory:/a/b\n0::/\n",
            &[
                ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"),
                ("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "3000000\n"),
                ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "96000000\n"),
                ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "4000000\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "5000000\n"),
            ],
        );
        let limited = Group { limit: Some(96_000_000), used: 4_000_000 };
        let free = |used| Group { limit: None, used };
        assert_eq!(v1, [free(3_000_000), limited, free(5_000_000)], "as much as the machine has is no limit");
        let v2 = machine(
            "0::/a/b\n",
            &[
                ("sys/fs/cgroup/a/b/memory.max", "max\n"),
                ("sys/fs/cgroup/a/b/memory.high", "max\n"),
                ("sys/fs/cgroup/a/b/memory.current", "3000000\n"),
                ("sys/fs/cgroup/a/memory.max", "max\n"),
                ("sys/fs/cgroup/a/memory.high", "96000000\n"),
                ("sys/fs/cgroup/a/memory.current", "4000000\n"),
            ],
        );
        assert_eq!(v2, [free(3_000_000), limited], "the root has no such files");
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_top() {
        let files =
            [("sys/fs/cgroup/memory.max", "96000000\n"), ("sys/fs/cgroup/memory.current", "4000000\n")];
        for own in ["0::/\n", "0::/docker/0123\n", "0::/../elsewhere\n"] {
            assert_eq!(machine(own, &files), [Group { limit: Some(96_000_000), used: 4_000_000 }], "{own}");
        }
        assert_eq!(machine("0::/\n", &[]), []);
        assert_eq!(machine("5:cpu:/x\n", &files), []);
    }
}
