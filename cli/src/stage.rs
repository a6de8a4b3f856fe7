//! The last step before a program runs: stop until its control group is ready, take its identity,
//! become it.
//!
//! `pantler run` starts itself in this role, so that what happens between fork and exec is an
//! ordinary program.

use anyhow::{Context, Result};
use clap::Args;
use pantler_control::ControlError;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_parent_process_death_signal, waitpid,
};
use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use crate::identity::{Credentials, Identity, parse_environment};

#[derive(Debug, Args)]
pub struct Stage {
    /// User to become, with group and supplementary groups, as JSON
    #[arg(long, value_parser = |text: &str| serde_json::from_str::<Credentials>(text))]
    identity: Option<Credentials>,
    /// File with the program's environment
    #[arg(long)]
    environment: String,
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub program: Vec<OsString>,
}

/// The hidden word.
pub const WORD: &str = "internal-stage";

/// A process that stands still and will become a program.
pub struct Staged {
    pid: Pid,
}

impl Staged {
    /// Starts the stage for a program and waits until it stands still.
    pub fn start(program: &[OsString], identity: &Identity) -> Result<Staged> {
        // The stage is still us, perhaps root: it must not start in an environment that another
        // user wrote, in which LD_PRELOAD names what to run. The program's environment travels in
        // memory that no other process can open.
        let environment = environment_file(&identity.environment)?;
        let mut command = Command::new("/proc/self/exe");
        // The child reads it before it stands still, while we wait for that.
        let path = format!("/proc/{}/fd/{}", std::process::id(), environment.as_raw_fd());
        command.arg(WORD).arg(format!("--environment={path}"));
        if let Some(credentials) = &identity.credentials {
            command.arg(format!("--identity={}", serde_json::to_string(credentials)?));
        }
        command.arg("--").args(program);
        let child = command.spawn().context("cannot start a process")?;
        let pid = Pid::from_child(&child);
        // From here on the process is waited for by number, see `children`.
        drop::<Child>(child);
        let stopped = waitpid(Some(pid), WaitOptions::UNTRACED).context("cannot wait for a process")?;
        if !stopped.is_some_and(|(_, status)| status.stopped()) {
            return Err(ControlError::failed("the program was ended before it started").into());
        }
        Ok(Staged { pid })
    }

    /// Its process number: the program's, once it has become it.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Ends it before it became the program.
    pub fn abandon(self) {
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }

    /// Lets it become the program.
    pub fn go(self) -> Result<Pid> {
        kill_process(self.pid, Signal::CONT).context("cannot start the program")?;
        Ok(self.pid)
    }
}

/// An environment as a nameless file: variables end with a zero byte, as in `/proc/PID/environ`.
fn environment_file(variables: &[(OsString, OsString)]) -> Result<File> {
    let file = rustix::fs::memfd_create("environment", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = File::from(file);
    let line = |(key, value): &(OsString, OsString)| [key.as_bytes(), b"=", value.as_bytes(), b"\0"].concat();
    let bytes: Vec<u8> = variables.iter().flat_map(line).collect();
    file.write_all(&bytes).context("cannot hand over the environment")?;
    Ok(file)
}

/// Stands still until told to go, and becomes the program. Returns only when that fails.
pub fn stage(arguments: &Stage) -> Result<()> {
    // Nothing would wake this process if `pantler run` were killed now.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let environment = std::fs::read(&arguments.environment).context("cannot read the environment")?;
    let environment = parse_environment(&environment);
    kill_process(getpid(), Signal::STOP)?;
    set_parent_process_death_signal(None)?;
    if let Some(credentials) = &arguments.identity {
        credentials.take()?;
    }
    let (program, rest) = arguments.program.split_first().context("no program")?;
    let error = Command::new(program).args(rest).env_clear().envs(environment).exec();
    let message = format!("{}: {error}", program.display());
    Err(match error.kind() {
        ErrorKind::NotFound | ErrorKind::PermissionDenied => ControlError::invalid(message),
        _ => ControlError::failed(message),
    }
    .into())
}
