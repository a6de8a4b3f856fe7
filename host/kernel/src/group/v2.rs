//! Control groups v2: one group per run with two below it, because only leaves may hold processes.
//!
//! ```text
//!   pantler-NAME/          counts both
//!     program/             memory.high: the backstop, which slows and reclaims and never kills
//!     host/                the steering process, which must never be slowed: it lifts the backstop
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use super::mounts::{Memory, Places};
use super::{
    RunGroup, Throttle, Usage, evacuate_and_remove, headroom_above, read, read_number, stat_field, write,
};
use crate::KernelError;

/// The groups of one run on a v2 machine.
#[derive(Debug)]
pub struct V2 {
    top: PathBuf,
}

impl V2 {
    /// Makes the groups in the nearest ancestor that hands the memory controller to its children.
    ///
    /// # Errors
    /// The folder or control file that refused.
    pub fn create(places: &Places, name: &str) -> Result<V2, KernelError> {
        let Some(Memory::V2 { root, own }) = &places.memory else {
            return Err(KernelError::Missing {
                what: "the v2 memory hierarchy",
                remedy: "mount it".to_owned(),
            });
        };
        let parent = own
            .ancestors()
            .take_while(|folder| folder.starts_with(root))
            .find(|folder| hands_down(folder, "memory"))
            .unwrap_or(root);
        if !hands_down(parent, "memory") {
            write(&parent.join("cgroup.subtree_control"), "+memory")?;
        }
        // Device counters are welcome, not needed.
        let _ = fs::write(parent.join("cgroup.subtree_control"), "+io");
        let group = V2 { top: parent.join(name) };
        let made = group.make();
        if made.is_err() {
            let _ = group.remove();
        }
        made.map(|()| group)
    }

    fn make(&self) -> Result<(), KernelError> {
        let create =
            |path: &Path| fs::create_dir(path).map_err(|error| KernelError::file("create", path, error));
        create(&self.top)?;
        write(&self.top.join("cgroup.subtree_control"), "+memory")?;
        let _ = fs::write(self.top.join("cgroup.subtree_control"), "+io");
        create(&self.program())?;
        create(&self.host())
    }

    fn program(&self) -> PathBuf {
        self.top.join("program")
    }

    fn host(&self) -> PathBuf {
        self.top.join("host")
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

    fn headroom(&self) -> Option<u64> {
        headroom_above(&self.top, &["memory.max", "memory.high"], "memory.current")
    }

    fn peak(&self) -> Option<u64> {
        read_number(&self.top.join("memory.peak")).ok()
    }

    fn device_read_bytes(&self) -> Option<u64> {
        let text = read(&self.top.join("io.stat")).ok()?;
        let words = text.split_ascii_whitespace();
        Some(words.filter_map(|word| word.strip_prefix("rbytes=")?.parse::<u64>().ok()).sum())
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
        // Processes that are left must go above the run's group, which may not hold any itself.
        if let Some(parent) = self.top.parent() {
            for folder in [self.program(), self.host()] {
                let left = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
                for pid in left.lines() {
                    let _ = fs::write(parent.join("cgroup.procs"), pid);
                }
            }
        }
        evacuate_and_remove(&self.program())?;
        evacuate_and_remove(&self.host())?;
        evacuate_and_remove(&self.top)
    }
}
