//! Waiting for a program while signals pass through and its orphans are collected.
//!
//! The program stays in our process group, so that the terminal's job control works as if we were
//! not there: Ctrl-Z stops both and `fg` continues both. A signal the terminal sends has therefore
//! reached the program already; one that a process sent to us alone has not, and is passed on. Only
//! the latter has a sender.

use anyhow::{Context, Result};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

/// Becomes true once this process is told to end.
pub fn told_to_end() -> Result<Arc<AtomicBool>> {
    let told = Arc::new(AtomicBool::new(false));
    for signal in PASSED {
        signal_hook::flag::register(signal, told.clone()).context("cannot catch signals")?;
    }
    Ok(told)
}

/// How soon a signal is noticed where it is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Signals that pass through.
const PASSED: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// Catches the signals that pass through, from its making on. Before the program runs they are
/// remembered.
pub struct Relay {
    /// The program, once it runs; 0 before.
    program: Arc<AtomicI32>,
    /// The last signal that came; 0 if none did.
    last: Arc<AtomicI32>,
}

impl Relay {
    pub fn start() -> Result<Relay> {
        let mut signals = SignalsInfo::<WithOrigin>::new(PASSED).context("cannot catch signals")?;
        let program = Arc::new(AtomicI32::new(0));
        let last = Arc::new(AtomicI32::new(0));
        let (to, came) = (program.clone(), last.clone());
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for origin in &mut signals {
                came.store(origin.signal, Ordering::SeqCst);
                // No sender: the terminal's driver sent it, to the whole group.
                if let Some(pid) = Pid::from_raw(to.load(Ordering::SeqCst))
                    && origin.process.is_some()
                    && let Some(signal) = Signal::from_named_raw(origin.signal)
                {
                    // It may have ended in the meantime.
                    let _ = kill_process(pid, signal);
                }
            }
        })?;
        Ok(Relay { program, last })
    }

    /// The last signal that arrived, if one did: then no program should be started any more.
    pub fn told(&self) -> Option<i32> {
        Some(self.last.load(Ordering::SeqCst)).filter(|&signal| signal != 0)
    }

    /// The program ended: its number may soon be that of another. Returns the signal that came
    /// until now, and begins to look for the next one.
    pub fn end(&self) -> Option<i32> {
        self.program.store(0, Ordering::SeqCst);
        Some(self.last.swap(0, Ordering::SeqCst)).filter(|&signal| signal != 0)
    }

    /// Does something once a signal arrives.
    pub fn when_told(&self, act: impl FnOnce() + Send + 'static) -> Result<()> {
        let last = self.last.clone();
        let wait = move || {
            while last.load(Ordering::SeqCst) == 0 {
                std::thread::sleep(LOOK_EVERY);
            }
            act();
        };
        std::thread::Builder::new().name("told".into()).spawn(wait)?;
        Ok(())
    }

    /// From now on signals go to the program.
    pub fn pass_to(&self, program: Pid) {
        self.program.store(program.as_raw_nonzero().get(), Ordering::SeqCst);
    }
}

/// Waits until the program ends, collecting whatever else becomes our child. The status is the
/// program's own, or 128+n when signal n ended it.
pub fn wait_for(program: Pid) -> Result<u8> {
    loop {
        let ended = retry_on_intr(|| wait(WaitOptions::empty())).context("cannot wait for the program")?;
        let Some((_, status)) = ended.filter(|(pid, _)| *pid == program) else { continue };
        let code = status.exit_status().or_else(|| Some(128 + status.terminating_signal()?));
        if let Some(code) = code {
            return Ok(u8::try_from(code).unwrap_or(u8::MAX));
        }
    }
}
