//! The control group of one run, with a hard limit and perhaps a slow disk.

use anyhow::{Context, Result};
use pantler_kernel::group::mounts::Places;
use pantler_kernel::group::{self, RunGroup, Throttle};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a group holds, in bytes.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Memory {
    /// Page cache.
    pub file: u64,
    pub anonymous: u64,
    /// Slabs, page tables, stacks.
    pub kernel: u64,
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [file, anonymous, kernel] =
            [self.file, self.anonymous, self.kernel].map(|bytes| bytes as f64 / 1e6);
        write!(f, "{file:.1} MB of files, {anonymous:.1} anonymous, {kernel:.1} of the kernel")
    }
}

/// A group that is removed when it goes out of scope.
pub struct Group {
    inner: Box<dyn RunGroup>,
}

impl Group {
    /// Makes a group, and throttles the device if asked to.
    pub fn new(name: &str, throttle: Option<Throttle>) -> Result<Group> {
        // A name that tells its process: what a killed demo leaves is cleaned by the next start of
        // any run.
        let name = pantler_kernel::names::run_name(name);
        let group = Group { inner: group::create(&name, false).context("cannot make a control group")? };
        if let Some(throttle) = throttle {
            group.inner.throttle(throttle)?;
        }
        Ok(group)
    }

    /// From now on the group has at most this much memory.
    pub fn limit(&self, bytes: u64) -> Result<()> {
        Ok(self.inner.hard_limit(Some(bytes))?)
    }

    /// Files into which a process writes `0` to enter.
    pub fn doors(&self) -> Vec<PathBuf> {
        self.inner.program_files()
    }

    /// A command that starts inside the group, by the program `own`, with sockets in `folder`.
    pub fn command(&self, own: &Path, words: &[String], folder: &Path) -> Command {
        let doors: Vec<String> = self.doors().iter().map(|door| door.display().to_string()).collect();
        let mut command = Command::new(own);
        command.args(["demo-enter", &doors.join(","), "--"]).args(words).stdin(Stdio::null());
        command.env("PANTLER_RUNTIME_DIR", folder.join("run"));
        // Everything here runs as root: the program must not become the invoking user.
        command.env_remove("SUDO_UID").env_remove("SUDO_GID");
        command
    }

    /// Folder with counters of device reads that include the groups below it.
    pub fn io_folder(&self) -> Result<&Path> {
        self.inner.io_path().context("this machine does not count device reads by control group")
    }

    /// What the group and the groups below it hold now.
    pub fn memory(&self) -> Result<Memory> {
        let folder = self.inner.memory_path();
        let stat = fs::read_to_string(folder.join("memory.stat"))?;
        let field = |names: [&str; 2]| {
            let value = |line: &str| {
                let (name, value) = line.split_once(' ')?;
                names.contains(&name).then(|| value.parse::<u64>().ok())?
            };
            stat.lines().find_map(value)
        };
        // v1 has no such line, and v2 no such file.
        let kernel = fs::read_to_string(folder.join("memory.kmem.usage_in_bytes")).ok();
        let kernel = kernel.and_then(|text| text.trim().parse().ok()).or_else(|| field(["kernel"; 2]));
        Ok(Memory {
            file: field(["total_cache", "file"]).context("memory.stat tells no cache")?,
            anonymous: field(["total_rss", "anon"]).context("memory.stat tells no anonymous memory")?,
            kernel: kernel.context("this kernel does not tell what it holds for a group (Linux 5.18)")?,
        })
    }

    /// The most memory the group ever held.
    pub fn peak_bytes(&self) -> Result<u64> {
        self.inner.peak().context("this kernel does not tell the peak of a control group (Linux 5.19)")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Err(error) = self.inner.remove() {
            eprintln!("xtask: a control group stays behind: {error}");
        }
    }
}

/// Bytes read from devices by a group and the groups below it.
pub fn device_read_bytes(folder: &Path) -> Result<u64> {
    // v1: `254:0 Read 4096` per device; v2: `254:0 rbytes=4096 wbytes=0 ...`.
    if let Ok(text) = fs::read_to_string(folder.join("blkio.throttle.io_service_bytes_recursive")) {
        return Ok(text
            .lines()
            .filter_map(|line| line.split_once(" Read ")?.1.trim().parse::<u64>().ok())
            .sum());
    }
    let text = fs::read_to_string(folder.join("io.stat")).context("cannot count device reads")?;
    Ok(text.split_whitespace().filter_map(|word| word.strip_prefix("rbytes=")?.parse::<u64>().ok()).sum())
}

/// The v1 `blkio` folder of the calling process; its throttle does not reach the groups below it.
pub fn own_blkio_v1() -> Option<PathBuf> {
    Places::read().ok()?.blkio
}
