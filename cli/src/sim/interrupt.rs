//! Ctrl-C: the first ends what runs and shows what is done; one that comes later ends everything.

use anyhow::{Context, Result};
use pantler_sim::Watch;
use signal_hook::consts::SIGINT;
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How soon a signal is noticed.
pub const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Signals within this time of the first are the same wish, told twice: what is done is shown
/// meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);

/// Watches for signals.
pub struct Interrupt {
    /// A signal came.
    came: Arc<AtomicBool>,
}

impl Interrupt {
    /// Begins to watch. The first signal stops `watch`.
    pub fn new(watch: Arc<Watch>) -> Result<Self> {
        let (came, now) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let status = i32::from(super::INTERRUPTED);
        let registered = flag::register_conditional_shutdown(SIGINT, status, now.clone())
            .and_then(|_| flag::register(SIGINT, came.clone()));
        registered.context("cannot watch for signals")?;
        let seen = came.clone();
        std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK_EVERY);
            }
            watch.stop();
            std::thread::sleep(PATIENCE);
            now.store(true, Ordering::SeqCst);
        });
        Ok(Self { came })
    }

    /// Whether a signal came.
    pub fn happened(&self) -> bool {
        self.came.load(Ordering::SeqCst)
    }
}
