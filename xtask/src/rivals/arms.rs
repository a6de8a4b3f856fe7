//! The rivals: what keeps the cache, and what goes on beside a program for it.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::demo::Interrupt;
use crate::shell;

/// How long a mount may take to be ready or to go, or files to be locked.
const READY_MAX: Duration = Duration::from_secs(20);
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(5);
/// What is left of a budget for data that is not locked, as a fraction. With less the kernel reads
/// ahead what it evicts before it is used, and reads more than without a lock.
const UNLOCKED: (u64, u64) = (1, 4);

/// How the cache is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rival {
    /// The kernel alone, in a group with a limit.
    Kernel,
    /// `vmtouch -l` of what fits, in the program's group.
    Vmtouch,
    /// `nocache PROGRAM`.
    Nocache,
    /// Reads by `RWF_DONTCACHE`.
    DontCache,
    /// FUSE without a cache of its own.
    Bindfs,
    /// A mount of an object store that has the kernel's cache alone.
    S3fs,
    /// `rclone mount`, whose cache of files on the disk has the budget, too.
    Rclone,
    /// `pantler run --memory BUDGET` without a hint.
    Run,
    /// The same with what fits: a shipped profile, or a policy.
    RunHint,
    /// `pantler run` without a hint, which joins `pantler daemon --memory BUDGET`.
    Join,
    /// The same with what fits.
    JoinHint,
    /// `pantler mount --cache BUDGET` without a hint.
    Mount,
    /// The same with what fits.
    MountHint,
    /// `pantler mount --frames kernel --cache BUDGET` without a hint.
    MountKernel,
}

impl Rival {
    pub const ALL: [Rival; 14] = [
        Rival::Kernel,
        Rival::Vmtouch,
        Rival::Nocache,
        Rival::DontCache,
        Rival::Bindfs,
        Rival::S3fs,
        Rival::Rclone,
        Rival::Run,
        Rival::RunHint,
        Rival::Join,
        Rival::JoinHint,
        Rival::Mount,
        Rival::MountHint,
        Rival::MountKernel,
    ];

    /// As it is asked for.
    pub fn name(self) -> &'static str {
        match self {
            Rival::Kernel => "kernel",
            Rival::Vmtouch => "vmtouch",
            Rival::Nocache => "nocache",
            Rival::DontCache => "dontcache",
            Rival::Bindfs => "bindfs",
            Rival::S3fs => "s3fs",
            Rival::Rclone => "rclone",
            Rival::Run => "run",
            Rival::RunHint => "run-hint",
            Rival::Join => "join",
            Rival::JoinHint => "join-hint",
            Rival::Mount => "mount",
            Rival::MountHint => "mount-hint",
            Rival::MountKernel => "mount-kernel",
        }
    }

    /// Whether it is Pantler.
    pub fn is_ours(self) -> bool {
        matches!(self, Rival::Run | Rival::RunHint) || self.joins() || self.is_our_mount()
    }

    /// Whether the program joins a daemon that is there.
    pub fn joins(self) -> bool {
        matches!(self, Rival::Join | Rival::JoinHint)
    }

    /// Whether the program reads through a mount.
    pub fn is_mount(self) -> bool {
        self == Rival::Bindfs || self.is_of_objects() || self.is_our_mount()
    }

    /// Whether it mounts object stores, and nothing else.
    pub fn is_of_objects(self) -> bool {
        matches!(self, Rival::S3fs | Rival::Rclone)
    }

    /// Whether that mount is Pantler's.
    pub fn is_our_mount(self) -> bool {
        matches!(self, Rival::Mount | Rival::MountHint | Rival::MountKernel)
    }
}

/// What is locked of some files.
#[derive(Debug, PartialEq, Eq)]
pub enum Locked {
    /// Files from the first on, and how many bytes their pages take.
    Files(Vec<PathBuf>, u64),
    /// The first bytes of the first file, which does not fit.
    Start(PathBuf, u64),
}

impl Locked {
    /// As much as the budget has room for, beside some for the rest. Files have their sizes.
    pub fn of(files: &[(PathBuf, u64)], budget: u64) -> Locked {
        let room = (budget - budget * UNLOCKED.0 / UNLOCKED.1) / 4096 * 4096;
        let (mut chosen, mut taken) = (Vec::new(), 0);
        for (path, bytes) in files {
            let pages = bytes.div_ceil(4096) * 4096;
            if taken + pages > room {
                break;
            }
            taken += pages;
            chosen.push(path.clone());
        }
        match files.first() {
            Some((path, _)) if chosen.is_empty() => Locked::Start(path.clone(), room),
            _ => Locked::Files(chosen, taken),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Locked::Files(_, bytes) | Locked::Start(_, bytes) => *bytes,
        }
    }

    /// Words for `vmtouch`; a list of files is written to `list`.
    pub fn words(&self, list: &Path) -> Result<Vec<String>> {
        let path = |path: &Path| path.display().to_string();
        Ok(match self {
            Locked::Files(files, _) => {
                let lines: String = files.iter().map(|file| path(file) + "\n").collect();
                fs::write(list, lines).context("cannot write the list for vmtouch")?;
                ["vmtouch", "-q", "-l", "-b", &path(list)].map(str::to_owned).into()
            }
            Locked::Start(file, bytes) => {
                ["vmtouch", "-q", "-l", "-p", &format!("0-{bytes}"), &path(file)].map(str::to_owned).into()
            }
        })
    }
}

/// What goes on beside a program; ended, and what it mounted unmounted, when it goes out of scope.
pub struct Beside {
    child: Child,
    mounted: Option<PathBuf>,
}

impl Beside {
    /// Starts `vmtouch`, and waits until everything is locked.
    pub fn lock(mut command: Command, locked: &Locked, interrupt: &Interrupt) -> Result<Beside> {
        command.stdout(Stdio::null());
        let mut beside = Beside::start(command, None)?;
        let status = format!("/proc/{}/status", beside.child.id());
        let is_locked = || {
            let text = fs::read_to_string(&status).unwrap_or_default();
            Ok(locked_bytes(&text).is_some_and(|bytes| bytes >= locked.bytes()))
        };
        beside.wait("lock its files", interrupt, is_locked)?;
        Ok(beside)
    }

    /// Starts a file system that stays in the foreground, and waits until it is mounted and, if
    /// there is such a file, has written something to `said`.
    pub fn mount(
        mut command: Command,
        point: &Path,
        said: Option<&Path>,
        interrupt: &Interrupt,
    ) -> Result<Beside> {
        let output = said.map_or_else(|| Ok(Stdio::null()), |path| fs::File::create(path).map(Stdio::from));
        command.stdout(output?);
        let mut beside = Beside::start(command, Some(point.to_owned()))?;
        let has_said = || said.is_none_or(|path| fs::metadata(path).is_ok_and(|file| file.len() > 0));
        beside.wait("mount", interrupt, || Ok(is_mounted(point)? && has_said()))?;
        Ok(beside)
    }

    /// Starts a daemon, and waits until it has written to `said` that it listens.
    pub fn listen(mut command: Command, said: &Path, interrupt: &Interrupt) -> Result<Beside> {
        command.stdout(Stdio::null()).stderr(fs::File::create(said)?);
        let mut beside = Beside::start(command, None)?;
        let listens = || Ok(fs::read_to_string(said)?.contains("listening at "));
        beside.wait("listen", interrupt, listens)?;
        Ok(beside)
    }

    fn start(mut command: Command, mounted: Option<PathBuf>) -> Result<Beside> {
        command.stdin(Stdio::null());
        let text = command.get_program().to_string_lossy().into_owned();
        Ok(Beside { child: command.spawn().with_context(|| format!("cannot start {text}"))?, mounted })
    }

    fn wait(&mut self, what: &str, interrupt: &Interrupt, is_ready: impl Fn() -> Result<bool>) -> Result<()> {
        let start = Instant::now();
        while !is_ready()? {
            interrupt.check()?;
            if let Some(status) = self.child.try_wait()? {
                bail!("it did not {what}: it ended with {status}");
            }
            if start.elapsed() > READY_MAX {
                bail!("it did not {what} within {} s", READY_MAX.as_secs());
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        match &self.mounted {
            Some(point) => unmount(point),
            None => signal(&self.child),
        }
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if start.elapsed() > READY_MAX {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(LOOK);
        }
    }
}

fn signal(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
}

fn is_mounted(point: &Path) -> Result<bool> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    Ok(mounts.lines().any(|line| line.split(' ').nth(1).is_some_and(|word| Path::new(word) == point)))
}

/// Unmounts what is there, also what an earlier experiment left that was killed.
pub fn unmount(point: &Path) {
    let text = point.display().to_string();
    if is_mounted(point).unwrap_or(true) && shell::output(&["umount", &text]).is_err() {
        let _ = shell::output(&["umount", "--lazy", &text]);
    }
}

/// What a process has locked, from its `/proc/PID/status`.
fn locked_bytes(status: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix("VmLck:"))?;
    Some(value.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(sizes: &[u64]) -> Vec<(PathBuf, u64)> {
        sizes.iter().enumerate().map(|(at, size)| (PathBuf::from(at.to_string()), *size)).collect()
    }

    #[test]
    fn whole_files_are_locked_while_they_fit_or_the_start_of_the_first() {
        let budget = 16 * 4096;
        let of = |sizes: &[u64]| Locked::of(&files(sizes), budget);
        assert_eq!(of(&[5_000, 4096, 100_000]), Locked::Files(vec!["0".into(), "1".into()], 3 * 4096));
        assert_eq!(of(&[12 * 4096]), Locked::Files(vec!["0".into()], 12 * 4096));
        assert_eq!(of(&[12 * 4096 + 1, 1]), Locked::Start("0".into(), 12 * 4096));
        assert_eq!(of(&[]), Locked::Files(Vec::new(), 0));
    }

    #[test]
    fn what_is_locked_is_read_from_the_status() {
        assert_eq!(locked_bytes("VmPin:\t 0 kB\nVmLck:\t      12 kB\n"), Some(12288));
        assert_eq!(locked_bytes("Name:\tcat\n"), None);
    }

    #[test]
    fn rivals_have_names_of_their_own() {
        let mut names = Rival::ALL.map(Rival::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Rival::ALL.len());
    }
}
