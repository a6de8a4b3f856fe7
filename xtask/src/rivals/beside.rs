//! What goes on beside a program for its rival: mounts, servers, and what locks files.

use anyhow::{Context, Result, bail};
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::arms::Locked;
use crate::demo::Interrupt;
use crate::shell;

/// How long a mount may take to be ready or to go, or files to be locked.
const READY_MAX: Duration = Duration::from_secs(20);
/// Between two looks at it.
const LOOK: Duration = Duration::from_millis(5);

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

    /// Starts a server, and waits until it takes connections at a port of this machine.
    pub fn serve(mut command: Command, port: u16, interrupt: &Interrupt) -> Result<Beside> {
        command.stdout(Stdio::null());
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            bail!("another server has port {port}");
        }
        let mut beside = Beside::start(command, None)?;
        beside.wait("listen", interrupt, || Ok(TcpStream::connect(("127.0.0.1", port)).is_ok()))?;
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

    #[test]
    fn what_is_locked_is_read_from_the_status() {
        assert_eq!(locked_bytes("VmPin:\t 0 kB\nVmLck:\t      12 kB\n"), Some(12288));
        assert_eq!(locked_bytes("Name:\tcat\n"), None);
    }
}
