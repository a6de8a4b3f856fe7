//! A program in a control group, and what the group holds while it runs.

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::demo::Interrupt;
use crate::demo::groups::{Group, Memory};
use crate::median::median;

/// Between two looks at the memory of a group.
const LOOK: Duration = Duration::from_millis(20);
/// A run that takes longer is broken.
const RUN_MAX: Duration = Duration::from_secs(300);
/// How long a run that is stopped may take to clean up behind itself.
const STOP_MAX: Duration = Duration::from_secs(3);

/// Runs a program to its end, and looks at its group's memory meanwhile.
///
/// # Errors
/// A program that fails, or takes too long, or an interrupt: then its processes have ended, too.
pub fn watch(command: &mut Command, group: &Group, interrupt: &Interrupt) -> Result<Vec<Memory>> {
    // A group of its own: its children end with it.
    let mut child = command.process_group(0).spawn().context("cannot start a program")?;
    let looks = look(&mut child, group, interrupt);
    if looks.is_err() {
        stop(&mut child);
    }
    looks
}

fn look(child: &mut Child, group: &Group, interrupt: &Interrupt) -> Result<Vec<Memory>> {
    let (start, mut looks) = (Instant::now(), Vec::new());
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(looks),
            Some(status) => bail!("a program ended with {status}"),
            None => looks.push(group.memory()?),
        }
        interrupt.check()?;
        if start.elapsed() > RUN_MAX {
            bail!("a run took more than {} s", RUN_MAX.as_secs());
        }
        std::thread::sleep(LOOK);
    }
}

/// Ends a process and those of its group.
fn stop(child: &mut Child) {
    let group = Pid::from_child(child);
    let _ = kill_process_group(group, Signal::TERM);
    let patience = Instant::now() + STOP_MAX;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < patience {
        std::thread::sleep(LOOK);
    }
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
}

/// The middle of the looks, without the first third, in which a cache fills.
pub fn steady(looks: &[Memory]) -> Memory {
    let looks = &looks[looks.len() / 3..];
    let middle =
        |value: fn(&Memory) -> u64| median(looks.iter().map(|look| value(look) as f64)).unwrap_or(0.0);
    Memory {
        file: middle(|look| look.file) as u64,
        anonymous: middle(|look| look.anonymous) as u64,
        kernel: middle(|look| look.kernel) as u64,
    }
}

/// The most of each kind of memory in any look.
pub fn most(looks: &[Memory]) -> Memory {
    let most = |value: fn(&Memory) -> u64| looks.iter().map(value).max().unwrap_or(0);
    Memory {
        file: most(|look| look.file),
        anonymous: most(|look| look.anonymous),
        kernel: most(|look| look.kernel),
    }
}
