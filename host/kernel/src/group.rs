//! The control group of one run: where its memory and its device reads are counted.
//!
//! Two kernels' worth of control files behind one small trait: [`v1`] (hierarchies `memory` and
//! `blkio`) and [`v2`] (one hierarchy). [`create`] finds out which of them has the memory
//! controller on this machine.
//!
//! The budget counts file blocks and is kept by the steward. The group's own bound is a backstop
//! for what the steward cannot reach, and never kills: v2 uses `memory.high`, v1 a bound that is
//! set only for as long as the kernel needs to reclaim what is over it (see [`v1::V1::enforce`]).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::KernelError;
use crate::memory::Gauge;

pub mod mounts;
pub mod v1;
pub mod v2;

/// What a group holds now, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Everything charged to the group.
    pub total: u64,
    /// File pages among it.
    pub file: u64,
    /// Everything else: anonymous memory, shared memory, page tables, slabs.
    pub other: u64,
}

/// Limits of a throttled device, for measuring what a slower disk would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throttle {
    /// Device, as `stat` tells it.
    pub major: u32,
    /// Device, as `stat` tells it.
    pub minor: u32,
    /// Reads per second.
    pub reads_per_s: u64,
    /// Bytes read per second.
    pub read_bytes_per_s: u64,
}

/// The control group of one run. Holds the program and the process that steers it.
pub trait RunGroup: std::fmt::Debug + Send + Sync {
    /// Which version it is, for messages: "v1" or "v2".
    fn version(&self) -> &'static str;
    /// Files into which the program's process number is written.
    fn program_files(&self) -> Vec<PathBuf>;
    /// Files into which the steering process's number is written.
    fn host_files(&self) -> Vec<PathBuf>;
    /// The folder with memory counters of program and steering process.
    fn memory_path(&self) -> &Path;
    /// The folder with device counters of both; none when the machine cannot count.
    fn io_path(&self) -> Option<&Path>;
    /// What it holds now.
    ///
    /// # Errors
    /// The control file that could not be read.
    fn usage(&self) -> Result<Usage, KernelError>;
    /// The limits that hold for it: those of groups above, and `total` in bytes, if there is one.
    fn gauge(&self, total: Option<u64>) -> Gauge;
    /// The most it ever held, in bytes; none before Linux 5.19 on v2.
    fn peak(&self) -> Option<u64>;
    /// Bytes read from devices so far, each once: not by a loop device and the disk below it.
    fn device_read_bytes(&self) -> Option<u64>;
    /// Has the kernel reclaim what is above `bytes` in all, if it can, and lets no process be
    /// killed for it.
    ///
    /// # Errors
    /// The control file that refused.
    fn enforce(&self, bytes: u64) -> Result<(), KernelError>;
    /// Sets a hard limit, as a kernel without Pantler would have it. For comparisons only; `None`
    /// lifts it.
    ///
    /// # Errors
    /// The control file that refused.
    fn hard_limit(&self, bytes: Option<u64>) -> Result<(), KernelError>;
    /// Slows a device down for all processes in the group.
    ///
    /// # Errors
    /// The control file that refused.
    fn throttle(&self, throttle: Throttle) -> Result<(), KernelError>;
    /// Removes the group. Processes still in it go to its parent.
    ///
    /// # Errors
    /// The folder that would not go.
    fn remove(&self) -> Result<(), KernelError>;
}

/// Makes the group of a run in whichever hierarchy has the memory controller. With `joins` the
/// calling process is about to enter [`RunGroup::host_files`], and may be moved there at once.
///
/// # Errors
/// [`KernelError::Missing`] when there is none, else the control file that refused.
pub fn create(name: &str, joins: bool) -> Result<Box<dyn RunGroup>, KernelError> {
    let places = mounts::Places::read()?;
    match &places.memory {
        Some(mounts::Memory::V1 { own }) => Ok(Box::new(v1::V1::create(own, places.blkio.as_deref(), name)?)),
        Some(mounts::Memory::V2 { root, own }) => Ok(Box::new(v2::V2::create(root, own, name, joins)?)),
        None => Err(KernelError::Missing {
            what: "the memory control group",
            remedy: "mount cgroup2 (or cgroup v1 with -o memory) and boot without cgroup_disable=memory"
                .to_owned(),
        }),
    }
}

/// Where control groups are.
const ROOTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory"];

/// The folder of a control group that is named by its path, from the root of its hierarchy or from
/// that of the machine.
pub fn find(named: &Path) -> Option<PathBuf> {
    let below = |root: &&str| Path::new(root).join(named.strip_prefix("/").unwrap_or(named));
    let mut candidates = ROOTS.iter().map(below).chain([named.to_owned()]);
    candidates.find(|folder| folder.join("cgroup.procs").is_file())
}

/// The processes of a control group and of those below it.
pub fn processes_below(group: &Path) -> Vec<u32> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let mut processes: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    let folders = fs::read_dir(group).into_iter().flatten().flatten();
    for folder in folders.filter(|folder| folder.file_type().is_ok_and(|kind| kind.is_dir())) {
        processes.extend(processes_below(&folder.path()));
    }
    processes
}

/// Reads a control file.
///
/// # Errors
/// The file, and the kernel's answer.
pub fn read(path: &Path) -> Result<String, KernelError> {
    fs::read_to_string(path).map_err(|error| KernelError::file("read", path, error))
}

pub(crate) fn read_number(path: &Path) -> Result<u64, KernelError> {
    let text = read(path)?;
    let trimmed = text.trim();
    if trimmed == "max" {
        return Ok(u64::MAX);
    }
    trimmed.parse().map_err(|_| {
        KernelError::file("read", path, io::Error::new(io::ErrorKind::InvalidData, "not a number"))
    })
}

/// Writes a control file.
///
/// # Errors
/// The file, and the kernel's answer.
pub fn write(path: &Path, value: &str) -> Result<(), KernelError> {
    fs::write(path, value).map_err(|error| KernelError::file("write", path, error))
}

/// The value behind a word in a file of `word value` lines.
pub(crate) fn stat_field(text: &str, word: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Moves what is left in a group to its parent and removes it.
pub(crate) fn evacuate_and_remove(folder: &Path) -> Result<(), KernelError> {
    if let (Ok(left), Some(parent)) = (fs::read_to_string(folder.join("cgroup.procs")), folder.parent()) {
        for pid in left.lines() {
            // A process may end before it is moved.
            let _ = fs::write(parent.join("cgroup.procs"), pid);
        }
    }
    match fs::remove_dir(folder) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(KernelError::file("remove", folder, error)),
    }
}
