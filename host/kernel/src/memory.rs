//! How much memory this process may take, and how much of it is used: limits of the machine and of
//! control groups.

use std::fmt;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::group::mounts::{Memory, Places};

/// Limits from here on are none: v1 writes the largest number of pages that it can count.
pub(crate) const NO_LIMIT: u64 = 1 << 60;

/// The memory of a control group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Group {
    /// What it can use at most, where that is less than the machine has.
    limit: Option<u64>,
    /// What it uses, with all groups below it.
    used: u64,
}

/// The smallest limit of memory that holds for this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// What all processes together that it holds for can use at most.
    pub bytes: u64,
    /// The folder of the control group that has it; the machine has it where there is none.
    pub group: Option<PathBuf>,
}

impl Limit {
    /// The one that holds here.
    pub fn here() -> Limit {
        Limit::below(Path::new("/"), "self")
    }

    /// The one that holds for another process or thread. Of one that is gone it is the machine's.
    pub fn of(thread: u32) -> Limit {
        Limit::below(Path::new("/"), &thread.to_string())
    }

    fn below(root: &Path, process: &str) -> Limit {
        let machine = Limit { bytes: machine_bytes(root).unwrap_or(NO_LIMIT), group: None };
        let of_group =
            |(folder, group): (PathBuf, Group)| Some(Limit { bytes: group.limit?, group: Some(folder) });
        let limits = folders_and_groups(root, process).into_iter().filter_map(of_group);
        limits.chain([machine]).min_by_key(|limit| limit.bytes).expect("the machine has one")
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MiB that ", self.bytes >> 20)?;
        match &self.group {
            Some(folder) => write!(f, "control group {} allows", folder.display()),
            None => write!(f, "this machine has"),
        }
    }
}

/// Bytes that can be read before anything in memory has to leave: free memory of the machine above
/// what the kernel keeps free, and what the limits of our control groups leave. 0 where that is
/// unknown.
pub fn free_bytes() -> u64 {
    free_below(Path::new("/"))
}

/// Besides, 1/64 of the machine's memory stays free for what programs ask for meanwhile.
const SPARED_ONE_IN: u64 = 64;

fn free_below(root: &Path) -> u64 {
    let read = |file: &str| fs::read_to_string(root.join(file)).ok();
    let known = || {
        let memory = read("proc/meminfo")?;
        let (free, total) = (kilobytes(&memory, "MemFree:")?, kilobytes(&memory, "MemTotal:")?);
        Some(free.saturating_sub(kept_free(&read("proc/zoneinfo")?) + total / SPARED_ONE_IN))
    };
    let left = |(_, group): (PathBuf, Group)| Some(group.limit?.saturating_sub(group.used));
    let groups = folders_and_groups(root, "self").into_iter().filter_map(left);
    groups.chain([known().unwrap_or(0)]).min().unwrap_or(0)
}

/// What the kernel keeps free: below the high mark of a zone it goes on to reclaim.
fn kept_free(zones: &str) -> u64 {
    let pages = |line: &str| line.trim_start().strip_prefix("high ")?.trim().parse::<u64>().ok();
    zones.lines().filter_map(pages).sum::<u64>() * crate::pages::block_bytes()
}

/// The control group of a process and those above it, as far as they can be seen from here, on a
/// machine with this root. `self` is this process.
fn folders_and_groups(root: &Path, process: &str) -> Vec<(PathBuf, Group)> {
    let machine = machine_bytes(root).unwrap_or(NO_LIMIT);
    let (own, files) = match Places::read_of(root, process).ok().and_then(|places| places.memory) {
        Some(Memory::V1 { own }) => (own, V1),
        Some(Memory::V2 { own, .. }) => (own, V2),
        None => return Vec::new(),
    };
    // In a container the path may be one that only the host knows: then the top of what is mounted
    // is the container's group. Folders that are none have no such files.
    let group = |folder: &Path| Some((folder.to_owned(), files.group(folder, machine)?));
    own.ancestors().filter_map(group).collect()
}

/// The names of a hierarchy's files.
#[derive(Debug)]
pub(crate) struct Files {
    limits: &'static [&'static str],
    used: &'static str,
}

pub(crate) const V1: Files = Files { limits: &["memory.limit_in_bytes"], used: "memory.usage_in_bytes" };
pub(crate) const V2: Files = Files { limits: &["memory.max", "memory.high"], used: "memory.current" };

impl Files {
    fn group(&self, folder: &Path, machine: u64) -> Option<Group> {
        // `max` is no number and no limit.
        let number = |file: &str| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok();
        let limit = self.limits.iter().filter_map(|file| number(file)).min();
        Some(Group { limit: limit.filter(|limit| *limit < machine.min(NO_LIMIT)), used: number(self.used)? })
    }

    /// The limits of these folders, to look at often.
    pub(crate) fn gauge<'a>(&self, folders: impl Iterator<Item = &'a Path>) -> Gauge {
        let limited = |folder: &Path| {
            let bytes = self.group(folder, NO_LIMIT)?.limit?;
            Some(Limited { is_kernels: true, ..self.limited(folder, bytes) })
        };
        Gauge(folders.filter_map(limited).collect())
    }

    /// A limit of our own on a folder.
    pub(crate) fn limited(&self, folder: &Path, bytes: u64) -> Limited {
        Limited { bytes, used: fs::File::open(folder.join(self.used)).ok(), is_kernels: false }
    }
}

/// A limit, and the open file that says what is used, if it could be opened.
#[derive(Debug)]
pub(crate) struct Limited {
    bytes: u64,
    used: Option<fs::File>,
    is_kernels: bool,
}

/// The memory that a limit leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// Bytes; `u64::MAX` without a limit.
    pub bytes: u64,
    /// The kernel reclaims when they are used up: the limit is one of its groups'.
    pub kernel_reclaims: bool,
}

/// Limits that hold for a group, to look at often: a look costs microseconds.
#[derive(Debug, Default)]
pub struct Gauge(pub(crate) Vec<Limited>);

impl Gauge {
    /// The smallest limit, in bytes.
    pub fn least(&self) -> Option<u64> {
        self.0.iter().map(|limited| limited.bytes).min()
    }

    /// What the limit leaves that is met first; `None` when that cannot be read.
    pub fn room(&self) -> Option<Left> {
        let room = |limited: &Limited| {
            let used: u64 = contents(limited.used.as_ref()?)?.trim().parse().ok()?;
            Some(Left { bytes: limited.bytes.saturating_sub(used), kernel_reclaims: limited.is_kernels })
        };
        let all = Left { bytes: u64::MAX, kernel_reclaims: false };
        let least = |one: Left, other: Left| if other.bytes < one.bytes { other } else { one };
        self.0.iter().try_fold(all, |known, limited| Some(least(known, room(limited)?)))
    }
}

fn contents(file: &fs::File) -> Option<String> {
    let mut bytes = [0; 256];
    let count = file.read_at(&mut bytes, 0).ok()?;
    String::from_utf8(bytes[..count].to_vec()).ok()
}

fn machine_bytes(root: &Path) -> Option<u64> {
    kilobytes(&fs::read_to_string(root.join("proc/meminfo")).ok()?, "MemTotal:")
}

fn kilobytes(text: &str, word: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(word))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kilobytes_stand_behind_their_word() {
        assert_eq!(kilobytes("A: 1 kB\nMemAvailable:   20 kB\n", "MemAvailable:"), Some(20 << 10));
    }

    const MOUNTS: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        38 31 0:35 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

    /// A machine with a gigabyte and these files.
    fn machine(own: &str, files: &[(impl AsRef<Path>, &str)]) -> Vec<Group> {
        folders_and_groups(recorded(own, files).path(), "self").into_iter().map(|(_, group)| group).collect()
    }

    fn recorded(own: &str, files: &[(impl AsRef<Path>, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let of_machine = [
            ("proc/meminfo", "MemTotal: 1048576 kB\n"),
            ("proc/self/cgroup", own),
            ("proc/self/mountinfo", MOUNTS),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
        ];
        let of_machine = of_machine.iter().map(|(file, text)| (Path::new(file), text));
        for (file, text) in of_machine.chain(files.iter().map(|(file, text)| (file.as_ref(), text))) {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    /// The files of a group of version 1.
    fn of_v1(folder: &str, limit: &'static str, used: &'static str) -> [(String, &'static str); 2] {
        let file = |name| format!("sys/fs/cgroup/memory/{folder}/{name}");
        [(file("memory.limit_in_bytes"), limit), (file("memory.usage_in_bytes"), used)]
    }

    /// The files of a group of version 2: `memory.max`, `memory.high`, `memory.current`.
    fn of_v2(folder: &str, texts: [&'static str; 3]) -> [(String, &'static str); 3] {
        let [max, high, current] = texts;
        let file = |name| format!("sys/fs/cgroup/{folder}/{name}");
        [(file("memory.max"), max), (file("memory.high"), high), (file("memory.current"), current)]
    }

    #[test]
    fn what_can_be_read_is_free_above_the_marks_and_within_limits() {
        let page = crate::pages::block_bytes();
        let root = recorded("0::/a\n", &of_v2("a", ["100000000\n", "max\n", "99000000\n"]));
        let write = |file: &str, text: &str| fs::write(root.path().join(file), text).unwrap();
        assert_eq!(free_below(root.path()), 0, "unknown");
        write("proc/meminfo", "MemTotal: 1048576 kB\nMemFree: 524288 kB\n");
        write("proc/zoneinfo", "  pages free 9\n        high     100\n   cpu: 0\n      high:  77\n");
        assert_eq!(free_below(root.path()), 1_000_000, "the group's limit");
        write("proc/self/cgroup", "0::/\n");
        assert_eq!(free_below(root.path()), (512 << 20) - 100 * page - (16 << 20));
    }

    #[test]
    fn the_smallest_limit_is_named_with_its_group() {
        let least = |own: &str, files: &[(String, &str)]| {
            let root = recorded(own, files);
            let Limit { bytes, group } = Limit::below(root.path(), "self");
            (bytes, group.map(|folder| folder.strip_prefix(root.path()).unwrap().to_owned()))
        };
        let group = |path: &str| Some(PathBuf::from(path));
        let files = [of_v1("a", "100000000\n", "0\n"), of_v1("a/b", "200000000\n", "0\n")].concat();
        assert_eq!(least("4:memory:/a/b\n0::/\n", &files), (100_000_000, group("sys/fs/cgroup/memory/a")));
        let below = of_v2("a/b", ["100000000\n", "max\n", "0\n"]);
        let files = [of_v2("a", ["300000000\n", "90000000\n", "0\n"]), below.clone()].concat();
        let least_of_both = least("0::/a/b\n", &files);
        assert_eq!(least_of_both, (90_000_000, group("sys/fs/cgroup/a")), "high slows a host to a halt");
        let files = [of_v2("a", ["max\n", "max\n", "0\n"]), below].concat();
        assert_eq!(least("0::/a/b\n", &files), (100_000_000, group("sys/fs/cgroup/a/b")));
        assert_eq!(least("0::/a/b\n", &of_v2("a/b", ["max\n", "max\n", "0\n"])), (1 << 30, None));
        assert_eq!(least("nonsense", &[]), (1 << 30, None));
        let shown = Limit { bytes: 100 << 20, group: group("/sys/fs/cgroup/a") }.to_string();
        assert_eq!(shown, "100 MiB that control group /sys/fs/cgroup/a allows");
    }

    #[test]
    fn another_process_has_its_own_group() {
        let files = [of_v2("a", ["100000000\n", "max\n", "0\n"]), of_v2("b", ["max\n", "max\n", "0\n"])];
        let root = recorded("0::/b\n", &files.concat());
        fs::create_dir(root.path().join("proc/77")).unwrap();
        fs::write(root.path().join("proc/77/cgroup"), "0::/a\n").unwrap();
        let bytes = |process| Limit::below(root.path(), process).bytes;
        assert_eq!(["self", "77", "78"].map(bytes), [1 << 30, 100_000_000, 1 << 30]);
        assert_eq!(Limit::of(std::process::id()), Limit::here());
    }

    #[test]
    fn groups_above_limit_too() {
        let files = [
            of_v1("a/b", "9223372036854771712\n", "3000000\n"),
            of_v1("a", "96000000\n", "4000000\n"),
            of_v1("", "1073741824\n", "5000000\n"),
        ];
        let v1 = machine("9:cpu,cpuacct:/x\n4:memory:/a/b\n0::/\n", &files.concat());
        let limited = Group { limit: Some(96_000_000), used: 4_000_000 };
        let free = |used| Group { limit: None, used };
        assert_eq!(v1, [free(3_000_000), limited, free(5_000_000)], "as much as the machine has is no limit");
        let (a, b) = (["max\n", "96000000\n", "4000000\n"], ["max\n", "max\n", "3000000\n"]);
        let v2 = machine("0::/a/b\n", &[of_v2("a", a), of_v2("a/b", b)].concat());
        assert_eq!(v2, [free(3_000_000), limited], "the root has no such files");
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_top() {
        let files =
            [("sys/fs/cgroup/memory.max", "96000000\n"), ("sys/fs/cgroup/memory.current", "4000000\n")];
        for own in ["0::/\n", "0::/docker/0123\n", "0::/../elsewhere\n"] {
            assert_eq!(machine(own, &files), [Group { limit: Some(96_000_000), used: 4_000_000 }], "{own}");
        }
        assert_eq!(machine("0::/\n", &files[..0]), []);
        assert_eq!(machine("5:cpu:/x\n", &files), []);
    }
}
