//! Watching a run from another thread, and stopping it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Shared by everything that runs: how far it is, and whether it shall go on.
#[derive(Debug, Default)]
pub struct Watch {
    stopped: AtomicBool,
    done: AtomicU64,
}

/// A run was stopped before its end. Nothing of it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stopped before the end")]
pub struct Stopped;

impl Watch {
    /// Ends what runs, at the next batch of references.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether [`stop`](Self::stop) was called.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// References simulated so far, over all runs; those that a run looks at beforehand count, too.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// `references` references were simulated or looked at. Fails when the run shall end.
    #[inline]
    pub(crate) fn advance(&self, references: usize) -> Result<(), Stopped> {
        self.done.fetch_add(references as u64, Ordering::Relaxed);
        if self.is_stopped() { Err(Stopped) } else { Ok(()) }
    }
}
