//! `pantler detach`: programs that were attached leave the daemon.

use anyhow::Result;
use clap::Args;
use pantler_control::client::Client;
use pantler_control::{BodyKind, ControlError, OwnerSelector};
use std::path::PathBuf;

use crate::attach::Programs;
use crate::values;

/// End what `pantler attach` began at a daemon.
///
/// The programs go on, and the kernel decides about what they read. What is cached stays. Once all
/// programs of an owner have left, its blocks are nobody's: the daemon's budget is free of them.
/// Programs of `pantler run` leave by ending, and those of `pantler attach --memory` by its Ctrl-C.
#[derive(Debug, Args)]
pub struct Detach {
    /// An owner, as `pantler stat page-cache` names it: all its programs
    #[arg(value_name = "OWNER", required_unless_present_any = ["pid", "cgroup", "unit"], conflicts_with_all = ["pid", "cgroup", "unit"], value_parser = values::owner_name)]
    owner: Option<String>,
    /// A process, with all that it started; may be given several times
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Vec<u32>,
    /// A control group, such as system.slice/postgresql.service: the processes in it
    #[arg(long, value_name = "GROUP")]
    cgroup: Option<PathBuf>,
    /// A unit of systemd that runs, such as postgresql.service: the processes in its control group
    #[arg(long, value_name = "NAME", conflicts_with = "cgroup")]
    unit: Option<String>,
    /// Say nothing
    #[arg(long)]
    quiet: bool,
}

/// Has the daemon let go of the programs.
pub fn detach(arguments: &Detach) -> Result<()> {
    let programs = Programs::of(&arguments.pid, arguments.cgroup.as_deref(), arguments.unit.as_deref())?;
    let absent = || ControlError::not_found("a daemon that steers");
    let mut daemon = Client::daemon().ok_or_else(absent)?;
    let body = daemon.bodies()?.into_iter().find(|body| body.kind == BodyKind::Steer).ok_or_else(absent)?;
    let (name, count) = match &arguments.owner {
        Some(owner) => (owner.clone(), daemon.detach(&body.name, OwnerSelector::Name(owner.clone()))?),
        None => (programs.name(), detach_each(&mut daemon, &body.name, &programs)?),
    };
    if !arguments.quiet {
        let processes = if count == 1 { "1 process" } else { &format!("{count} processes") };
        tell!("{processes} of {name} detached");
    }
    Ok(())
}

/// One after the other: each takes along what it started, so that later ones may have left already,
/// or have ended. Of other refusals the first is returned, after all were tried.
fn detach_each(daemon: &mut Client, on: &str, programs: &Programs) -> Result<usize, ControlError> {
    let (mut count, mut refused) = (0, None);
    let mut missing = ControlError::not_found(format!("a process of {}", programs.name()));
    for pid in programs.processes().collect::<Vec<_>>() {
        match daemon.detach(on, OwnerSelector::Pid(pid)) {
            Ok(more) => count += more,
            Err(error @ ControlError::NotFound { .. }) => missing = error,
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match refused {
        Some(error) => Err(error),
        None if count == 0 => Err(missing),
        None => Ok(count),
    }
}
