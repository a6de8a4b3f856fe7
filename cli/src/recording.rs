//! A program that is run once, so that its references are known.

use anyhow::{Context, Result, bail};
use pantler_control::Size;
use rustix::process::Pid;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::chown;
use std::process::Command;
use tempfile::TempDir;

use crate::children::{self, Relay};
use crate::identity::Identity;
use crate::program;

/// References of a program. The file is gone with this value.
pub struct Recording {
    path: String,
    _folder: TempDir,
}

impl Recording {
    /// Runs a program with this memory, and records what it references. What it prints goes to
    /// standard error, where no reader of advice takes it for that.
    ///
    /// # Errors
    /// The program cannot be steered, or references nothing.
    pub fn make(program: &[OsString], memory: Size, identity: &Identity) -> Result<Recording> {
        program::find(&program[0], identity.variable("PATH"))?;
        let folder =
            tempfile::Builder::new().prefix("pantler-").tempdir().context("no folder for a record")?;
        // The record is written with the rights of the user that the program runs as.
        if let Some(user) = &identity.credentials {
            chown(folder.path(), Some(user.uid), Some(user.gid)).context("no folder for a record")?;
        }
        let record = folder.path().join("references.csv");
        let path = record.to_str().context("the folder for temporary files has no plain name")?.to_owned();
        let relay = Relay::start()?;
        let run = Command::new("/proc/self/exe")
            .args(["run", "--quiet", "--profile", "none", "--memory", &memory.to_string()])
            .args(["--record", &path, "--"])
            .args(program)
            .stdout(io::stderr().as_fd().try_clone_to_owned()?)
            .spawn()
            .context("cannot start a run")?;
        let run = Pid::from_child(&run);
        relay.pass_to(run);
        let status = children::wait_for(run)?;
        let name = program::name(&program[0]);
        if record.metadata().map_or(0, |record| record.len()) == 0 {
            bail!("nothing of {name} was recorded: its run ended with status {status}");
        }
        if status != 0 {
            tell!("{name} ended with status {status}: what it read until then is what counts");
        }
        Ok(Recording { path, _folder: folder })
    }

    /// Where the references are.
    pub fn path(&self) -> &str {
        &self.path
    }
}
