//! Control groups v2: one group per run with two below it, because only leaves may hold processes.
//!
//! ```text
//!   pantler-NAME/          counts both
//!     program/             memory.high: the backstop, which slows and reclaims and never kills
//!     host/                the steering process, which must never be slowed: it lifts the backstop
//! ```
//!
//! The group of a run is made within our own group, so that its limits bind, if no other process is
//! there: a scope or service of systemd. Else (a login session) it is made beside our own group,
//! with the same limits.

use std::fs;
use std::path::{Path, PathBuf};

use super::{RunGroup, Throttle, Usage, evacuate_and_remove, read, read_number, stat_field, write};
use crate::KernelError;
use crate::devices::{self, Device};
use crate::memory::{self, Gauge};

/// The groups of one run on a v2 machine.
#[derive(Debug)]
pub struct V2 {
    top: PathBuf,
    /// The root of the hierarchy, as far as we see it.
    root: PathBuf,
    /// Whether it was made within our own group, which then holds no process itself.
    is_within: bool,
}

impl V2 {
    /// Makes the groups within our own group `own` if we are its only process and move to `host` at
    /// once (`joins`), else in the nearest ancestor that hands the memory controller to its
    /// children.
    ///
    /// # Errors
    /// The folder or control file that refused.
    pub fn create(root: &Path, own: &Path, name: &str, joins: bool) -> Result<V2, KernelError> {
        if joins && (own != root || is_containers(own)) && is_alone_in(own) {
            return V2::create_within(own, root, name);
        }
        let parent = own
            .ancestors()
            .take_while(|folder| folder.starts_with(root))
            .find(|folder| hands_down(folder, "memory"))
            .unwrap_or(root);
        if !hands_down(parent, "memory") {
            write(&parent.join("cgroup.subtree_control"), "+memory").map_err(of_crowd)?;
        }
        // Device counters are welcome, not needed.
        let _ = fs::write(parent.join("cgroup.subtree_control"), "+io");
        let group = V2 { top: parent.join(name), root: root.to_path_buf(), is_within: false };
        let made = create(&group.top)
            .and_then(|()| group.make_leaves())
            .and_then(|()| group.take_limits(own.ancestors().take_while(|folder| *folder != parent)));
        group.or_remove(made)
    }

    /// Moves the calling process from its group into a leaf below, and hands memory down there.
    fn create_within(own: &Path, root: &Path, name: &str) -> Result<V2, KernelError> {
        let group = V2 { top: own.join(name), root: root.to_path_buf(), is_within: true };
        let made = create(&group.top).and_then(|()| create(&group.host())).and_then(|()| {
            write(&group.host().join("cgroup.procs"), &std::process::id().to_string())?;
            write(&own.join("cgroup.subtree_control"), "+memory")?;
            let _ = fs::write(own.join("cgroup.subtree_control"), "+io");
            group.make_leaves()
        });
        group.or_remove(made)
    }

    fn or_remove(self, made: Result<(), KernelError>) -> Result<V2, KernelError> {
        if made.is_err() {
            let _ = self.remove();
        }
        made.map(|()| self)
    }

    fn make_leaves(&self) -> Result<(), KernelError> {
        write(&self.top.join("cgroup.subtree_control"), "+memory")?;
        let _ = fs::write(self.top.join("cgroup.subtree_control"), "+io");
        [self.program(), self.host()].iter().filter(|leaf| !leaf.is_dir()).try_for_each(|leaf| create(leaf))
    }

    /// Gives the group the smallest limits of these groups, which it would else have left.
    fn take_limits<'a>(&self, groups: impl Iterator<Item = &'a Path> + Clone) -> Result<(), KernelError> {
        for file in ["memory.max", "memory.high"] {
            let limits = groups.clone().filter_map(|group| read_number(&group.join(file)).ok());
            if let Some(limit) = limits.min().filter(|&limit| limit < memory::NO_LIMIT) {
                write(&self.top.join(file), &limit.to_string())?;
            }
        }
        Ok(())
    }

    /// Moves the processes of a leaf to the nearest group above that takes them: one that hands
    /// controllers down takes none, but for the root.
    fn evacuate(&self, leaf: &Path) {
        let left = fs::read_to_string(leaf.join("cgroup.procs")).unwrap_or_default();
        for pid in left.lines() {
            let above = self.top.ancestors().skip(1).take_while(|folder| folder.starts_with(&self.root));
            // A process may end before it is moved.
            let _ = above.map(|group| fs::write(group.join("cgroup.procs"), pid)).find(Result::is_ok);
        }
    }

    fn program(&self) -> PathBuf {
        self.top.join("program")
    }

    fn host(&self) -> PathBuf {
        self.top.join("host")
    }
}

fn create(path: &Path) -> Result<(), KernelError> {
    fs::create_dir(path).map_err(|error| KernelError::file("create", path, error))
}

/// Whether the calling process is the only one of a group that has no groups below it.
fn is_alone_in(group: &Path) -> bool {
    let processes = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let has_groups = fs::read_dir(group)
        .is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(|entry| entry.path().is_dir())));
    processes.trim() == std::process::id().to_string() && !has_groups
}

/// Whether the group at the top is that of a container: the machine's has no such file.
fn is_containers(top: &Path) -> bool {
    top.join("cgroup.events").exists()
}

/// A group with processes of its own has no groups below it that memory is handed down to.
fn of_crowd(error: KernelError) -> KernelError {
    match error {
        KernelError::File { source, .. } if source.raw_os_error() == Some(libc::EBUSY) => {
            let remedy = "start the run as the only process of its group, as the first of a container, or \
                          by `systemd-run --scope`";
            KernelError::Missing {
                what: "a control group without other processes",
                remedy: remedy.to_owned(),
            }
        }
        error => error,
    }
}

fn hands_down(folder: &Path, controller: &str) -> bool {
    fs::read_to_string(folder.join("cgroup.subtree_control"))
        .is_ok_and(|text| text.split_ascii_whitespace().any(|word| word == controller))
}

impl RunGroup for V2 {
    fn version(&self) -> &'static str {
        "v2"
    }

    fn program_files(&self) -> Vec<PathBuf> {
        vec![self.program().join("cgroup.procs")]
    }

    fn host_files(&self) -> Vec<PathBuf> {
        vec![self.host().join("cgroup.procs")]
    }

    fn memory_path(&self) -> &Path {
        &self.top
    }

    fn io_path(&self) -> Option<&Path> {
        Some(&self.top)
    }

    fn usage(&self) -> Result<Usage, KernelError> {
        let total = read_number(&self.top.join("memory.current"))?;
        let stat = read(&self.top.join("memory.stat"))?;
        let field = |word| stat_field(&stat, word).unwrap_or(0);
        let file = field("file").saturating_sub(field("shmem"));
        Ok(Usage { total, file, other: total.saturating_sub(file) })
    }

    fn gauge(&self, total: Option<u64>) -> Gauge {
        let mut gauge = memory::V2.gauge(self.top.ancestors());
        gauge.0.extend(total.map(|bytes| memory::V2.limited(&self.top, bytes)));
        gauge
    }

    fn peak(&self) -> Option<u64> {
        read_number(&self.top.join("memory.peak")).ok()
    }

    fn device_read_bytes(&self) -> Option<u64> {
        let text = read(&self.top.join("io.stat")).ok()?;
        // Some kernels put the names of devices without counts before that of a device with them.
        let read = |line: &str| {
            let (devices, counts) = line.split_at(line.find(" rbytes=")?);
            let bytes = counts.split_whitespace().find_map(|count| count.strip_prefix("rbytes="))?;
            Some((Device::parse(devices.split_whitespace().last()?)?, bytes.parse().ok()?))
        };
        Some(devices::read_once(&text.lines().filter_map(read).collect::<Vec<_>>()))
    }

    // The program's own group is bounded, not the whole: pages that the host read ahead are the
    // steward's to drop.
    fn enforce(&self, bytes: u64) -> Result<(), KernelError> {
        let host = read_number(&self.host().join("memory.current")).unwrap_or(0);
        write(&self.program().join("memory.high"), &bytes.saturating_sub(host).to_string())
    }

    fn hard_limit(&self, bytes: Option<u64>) -> Result<(), KernelError> {
        write(&self.top.join("memory.max"), &bytes.map_or("max".to_owned(), |bytes| bytes.to_string()))
    }

    fn throttle(&self, throttle: Throttle) -> Result<(), KernelError> {
        let Throttle { major, minor, reads_per_s, read_bytes_per_s } = throttle;
        let line = format!("{major}:{minor} rbps={read_bytes_per_s} riops={reads_per_s}");
        write(&self.top.join("io.max"), &line)
    }

    fn remove(&self) -> Result<(), KernelError> {
        if let Some(own) = self.top.parent().filter(|_| self.is_within) {
            // It holds processes again once nothing is handed down.
            for controllers in ["-io", "-memory"] {
                let _ = fs::write(self.top.join("cgroup.subtree_control"), controllers);
                let _ = fs::write(own.join("cgroup.subtree_control"), controllers);
            }
        }
        self.evacuate(&self.program());
        self.evacuate(&self.host());
        evacuate_and_remove(&self.program())?;
        evacuate_and_remove(&self.host())?;
        evacuate_and_remove(&self.top)
    }
}
