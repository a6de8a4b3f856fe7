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

/// Becomes true once this process is told to end.
pub fn told_to_end() -> Result<Arc<AtomicBool>> {
    let told = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, told.clone()).context("cannot catch signals")?;
    }
    Ok(told)
}

/// Signals that pass through.
const PASSED: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// Catches the signals that pass through, from its making on. Before the program runs they are
/// remembered.
pub struct Relay {
    /// The program, once it runs; 0 before.
    program: Arc<AtomicI32>,
    /// A signal that came before the program ran; 0 if none did.
    early: Arc<AtomicI32>,
}

impl Relay {
    pub fn start() -> Result<Relay> {
        let mut signals = SignalsInfo::<WithOrigin>::new(PASSED).context("cannot catch signals")?;
        let program = Arc::new(AtomicI32::new(0));
        let early = Arc::new(AtomicI32::new(0));
        let (to, first) = (program.clone(), early.clone());
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            for origin in &mut signals {
                let Some(pid) = Pid::from_raw(to.load(Ordering::SeqCst)) else {
                    first.store(origin.signal, Ordering::SeqCst);
                    continue;
                };
                // No sender: the terminal's driver sent it, to the whole group.
                if origin.process.is_some()
                    && let Some(signal) = Signal::from_named_raw(origin.signal)
                {
                    // It may have ended in the meantime.
                    let _ = kill_process(pid, signal);
                }
            }
        })?;
        Ok(Relay { program, early })
    }

    /// The signal that arrived before the program ran, if one did: then it should not run any more.
    pub fn early(&self) -> Option<i32> {
        Some(self.early.load(Ordering::SeqCst)).filter(|&signal| signal != 0)
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
