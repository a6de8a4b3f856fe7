//! Work beside Python: its lock is free meanwhile, and Ctrl-C is noticed.
//!
//! ```text
//!   Python's thread   detach, wait --- signals? --- wait --- signals? --- result
//!   another thread    work .........................................../
//! ```
//!
//! Python tells its main thread alone about signals, and only when asked. After one the work is
//! told to stop and left to itself: a simulation ends at its next batch, reading a trace at its
//! end.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use pantler_sim::Watch;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// How soon a signal is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Does `work`, which must end soon after its watch says so.
///
/// # Errors
///
/// What a handler of signals raised, such as `KeyboardInterrupt`; `RuntimeError` if the work
/// panicked.
pub fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&Watch) -> T + Send + 'static,
) -> PyResult<T> {
    let watch = Arc::new(Watch::default());
    let (done, mut result) = sync_channel(1);
    let theirs = watch.clone();
    let worker = std::thread::Builder::new().name("pantler".to_owned());
    worker.spawn(move || {
        // After a signal there is no listener any more.
        let _ = done.send(work(&theirs));
    })?;
    loop {
        let outcome;
        (result, outcome) = py.detach(move || {
            let outcome = result.recv_timeout(LOOK_EVERY);
            (result, outcome)
        });
        match outcome {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| watch.stop())?,
            Err(RecvTimeoutError::Disconnected) => {
                let text = "a thread of pantler panicked, see standard error: a mistake of pantler, please report it";
                return Err(PyRuntimeError::new_err(text));
            }
        }
    }
}
