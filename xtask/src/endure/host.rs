//! The daemon that runs join.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, ensure};
use pantler_kernel::process::status_numbers;
use rustix::process::{Pid, Signal, kill_process};

/// One daemon after the other, with sockets in a folder of their own.
pub struct Host {
    pantler: PathBuf,
    sockets: PathBuf,
    budget: u64,
    daemon: Mutex<Option<Child>>,
    /// Whether daemons end, and commands are killed.
    pub is_harsh: AtomicBool,
}

impl Host {
    /// Starts the first.
    pub fn new(pantler: PathBuf, sockets: PathBuf, budget: u64) -> Result<Host> {
        let host = Host { pantler, sockets, budget, daemon: Mutex::default(), is_harsh: false.into() };
        host.start()?;
        Ok(host)
    }

    /// A command that finds the daemon.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.pantler);
        command.args(words).env("PANTLER_RUNTIME_DIR", &self.sockets);
        command
    }

    fn start(&self) -> Result<()> {
        let mut command = self.command(&["daemon", "--memory", &self.budget.to_string()]);
        let mut child = command.stderr(Stdio::piped()).spawn().context("cannot start a daemon")?;
        let mut said = BufReader::new(child.stderr.take().context("a pipe")?).lines();
        let listens = said.any(|line| line.is_ok_and(|line| line.contains("listening at")));
        *self.lock() = Some(child);
        ensure!(listens, "the daemon did not start");
        std::thread::spawn(move || said.for_each(drop));
        Ok(())
    }

    /// Starts one if there is none.
    pub fn start_anew_unless_there(&self) {
        let is_there = self.lock().is_some();
        if !is_there && let Err(error) = self.start() {
            crate::shell::say(format_args!("{error:#}"));
        }
    }

    /// Bytes that it holds.
    pub fn held_bytes(&self) -> Result<u64> {
        let id = self.lock().as_ref().map(Child::id).context("there is no daemon")?;
        let kilobytes = status_numbers(id, "VmRSS:").first().copied().context("VmRSS")?;
        Ok(u64::from(kilobytes) * 1024)
    }

    /// Kills it, without a word.
    pub fn kill(&self) {
        if let Some(mut daemon) = self.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }

    /// Tells it to end, and waits for that.
    pub fn end(&self) -> Result<()> {
        let Some(mut daemon) = self.take() else { return Ok(()) };
        kill_process(Pid::from_child(&daemon), Signal::TERM)?;
        let status = daemon.wait()?;
        ensure!(status.success(), "the daemon ended with {status}");
        Ok(())
    }

    fn take(&self) -> Option<Child> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Child>> {
        self.daemon.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
