//! Ctrl-C: the first ends what runs and shows what is done, the next ends everything.

use anyhow::{Context, Result};
use pantler_sim::Watch;
use signal_hook::consts::SIGINT;
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How soon a signal is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Watches for signals while something runs.
pub struct Interrupt {
    /// A signal came.
    came: Arc<AtomicBool>,
    /// The next signal ends the program at once: nothing runs that could be shown, or one came already.
    now: Arc<AtomicBool>,
}

/// Something runs: the next signal stops it.
pub struct Running(Arc<AtomicBool>);

impl Interrupt {
    /// Begins to watch.
    pub fn new(watch: Arc<Watch>) -> Result<Self> {
        let (came, now) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(true)));
        let status = i32::from(super::INTERRUPTED);
        // In this order: the first signal finds `now` as it was, and sets it for the second.
        let registered = flag::register_conditional_shutdown(SIGINT, status, now.clone())
            .and_then(|_| flag::register(SIGINT, now.clone()))
            .and_then(|_| flag::register(SIGINT, came.clone()));
        registered.context("cannot watch for signals")?;
        let seen = came.clone();
        std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK_EVERY);
            }
            watch.stop();
        });
        Ok(Self { came, now })
    }

    /// Until the value is dropped, a first signal does not end the program.
    pub fn running(&self) -> Running {
        self.now.store(self.happened(), Ordering::SeqCst);
        Running(self.now.clone())
    }

    /// Whether a signal came.
    pub fn happened(&self) -> bool {
        self.came.load(Ordering::SeqCst)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
