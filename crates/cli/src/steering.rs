//! The seam to the steer crate: a session as the command needs it.

use anyhow::Result;
use pantler_control::{Body, BodyStat, ControlError, RunSpec, Size};
use std::sync::Arc;

/// What a session is asked to do.
pub struct Wish<'a> {
    pub memory: Size,
    pub allocation: &'a str,
    pub run: &'a RunSpec,
}

/// A running session.
pub struct Session {}

impl Session {
    /// Starts steering for a run that has no process yet.
    pub fn start(wish: &Wish<'_>) -> Result<Session> {
        let _ = (wish.memory, wish.allocation, wish.run);
        Err(ControlError::unsupported("steering").into())
    }

    /// The session as a body for the doors.
    pub fn body(&self) -> Arc<dyn Body> {
        unreachable!("no session starts yet")
    }

    /// Takes a process, and with it all its future children, into the run.
    pub fn take(&self, pid: u32) -> Result<()> {
        let _ = pid;
        Ok(())
    }

    /// Ends steering, and tells what was counted.
    pub fn finish(self) -> Result<BodyStat> {
        Err(ControlError::unsupported("steering").into())
    }
}

/// Removes what sessions left behind whose process is gone. Returns a line for each thing removed.
pub fn clean() -> Vec<String> {
    Vec::new()
}
