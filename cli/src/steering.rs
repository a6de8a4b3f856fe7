//! The seam to the steer crate: a session as the command needs it.

use anyhow::Result;
use pantler_control::{Body, BodyStat, ControlError, RunSpec, Size};
use pantler_kernel::KernelError;
use pantler_policy::Spec;
use pantler_steer::{HitWatch, Steer, SteerError, SteerOptions};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;

/// Decisions that `pantler explain` can tell about.
const LOG_DECISIONS: u32 = 4096;

/// What a session is asked to do.
pub struct Wish<'a> {
    /// Budget for file blocks.
    pub memory: Size,
    /// Budget for everything the run holds, if that is bounded too.
    pub total: Option<Size>,
    /// Allocation by name.
    pub allocation: &'a str,
    /// How blocks without a hint are replaced.
    pub policy: Option<Spec>,
    /// Whether complete counters are wanted, hits included.
    pub counts: bool,
    /// The run.
    pub run: &'a RunSpec,
}

/// A running session.
pub struct Session {
    steer: Steer,
}

impl Session {
    /// Starts steering for a run that has no process yet.
    pub fn start(wish: &Wish<'_>) -> Result<Session> {
        let mut options = SteerOptions::new(&wish.run.name, wish.memory.bytes());
        options.owner_name = wish.run.keep.then(|| wish.run.name.clone());
        options.total_bytes = wish.total.map(Size::bytes);
        options.uid = wish.run.uid;
        options.profile = wish.run.profile.clone();
        options.allocation = wish
            .allocation
            .parse()
            .map_err(|error: pantler_steward::UnknownName| ControlError::invalid(error.to_string()))?;
        if let Some(policy) = wish.policy {
            options.common_policy = policy;
        }
        options.log = LOG_DECISIONS;
        if wish.counts {
            options.watch_hits = HitWatch::Always;
        }
        Ok(Session { steer: Steer::start(options).map_err(control_error)? })
    }

    /// The session as a body for the doors.
    pub fn body(&self) -> Arc<dyn Body> {
        self.steer.body()
    }

    /// Says in the log if steering will have no effect on what is open here, unless it was said of
    /// something else.
    pub fn mention(&self, file: BorrowedFd<'_>, path: &Path) {
        self.steer.mention(file, path);
    }

    /// Takes a process, and with it all its future children, into the run.
    pub fn take(&self, pid: u32) -> Result<()> {
        Ok(self.steer.adopt(pid).map_err(control_error)?)
    }

    /// What was counted. Waits until the last events have been taken.
    pub fn stat(&self) -> BodyStat {
        self.steer.catch_up();
        self.steer.stat()
    }

    /// Ends steering and removes what it made.
    pub fn finish(self) -> Result<()> {
        self.steer.stop().map_err(control_error)?;
        Ok(())
    }
}

/// Errors of the body in the words of the doors, which know the exit status of each.
fn control_error(error: SteerError) -> ControlError {
    match error {
        SteerError::Kernel(KernelError::Missing { what, remedy }) => {
            ControlError::Missing { what: what.to_owned(), remedy }
        }
        SteerError::Options(text) => ControlError::invalid(text),
        error if error.is_missing() => ControlError::Missing {
            what: format!("a privilege ({error})"),
            remedy: "run as root, or with --best-effort to run unsteered".to_owned(),
        },
        error => ControlError::failed(error.to_string()),
    }
}

/// Removes what sessions of processes that are gone left behind. Returns a line for each thing
/// removed.
pub fn clean() -> Vec<String> {
    let removed = pantler_steer::clean_leftovers().unwrap_or_default();
    removed.iter().map(|path| path.display().to_string()).collect()
}
