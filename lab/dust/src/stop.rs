//! Waiting ends early: the user wants no answer any more, or a server says nothing.
//!
//! ```text
//!   signal --> Stop --> a step of a script, a pause, a connection, an inference: each looks often
//! ```
//!
//! An inference knows nothing of this: it is left to itself on a thread of its own, and the caller
//! that waited for it goes on.

use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::TargetError;

/// How soon it is noticed.
pub const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Whether the answer is not wanted any more: anything but 0, such as the number of a signal.
#[derive(Clone, Debug, Default)]
pub struct Stop(pub Arc<AtomicUsize>);

impl Stop {
    /// Ends what is under way.
    ///
    /// # Errors
    ///
    /// [`TargetError::Stopped`] when that is wanted.
    pub fn check(&self) -> Result<(), TargetError> {
        match self.0.load(Ordering::Relaxed) {
            0 => Ok(()),
            why => Err(TargetError::Stopped { why }),
        }
    }

    /// Does nothing for a while.
    ///
    /// # Errors
    ///
    /// [`TargetError::Stopped`], early.
    pub fn sleep(&self, time: Duration) -> Result<(), TargetError> {
        let start = Instant::now();
        loop {
            self.check()?;
            let left = time.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(LOOK_EVERY));
        }
    }

    /// The result of `work`, unless it is not wanted any more: then `work` goes on in vain.
    ///
    /// # Errors
    ///
    /// [`TargetError::Stopped`], early.
    pub fn heeding<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, TargetError> {
        self.check()?;
        if Arc::strong_count(&self.0) == 1 {
            // There is no other holder that could stop it.
            return Ok(work());
        }
        let (tell, told) = sync_channel(1);
        let worker = thread::spawn(move || {
            // The receiver may be gone.
            let _ = tell.send(work());
        });
        loop {
            match told.recv_timeout(LOOK_EVERY) {
                Ok(found) => return Ok(found),
                Err(RecvTimeoutError::Timeout) => self.check()?,
                Err(RecvTimeoutError::Disconnected) => {
                    resume_unwind(worker.join().expect_err("a worker that sends nothing has panicked"))
                }
            }
        }
    }
}

/// What went wrong with something.
pub fn failed(what: impl ToString) -> impl FnOnce(io::Error) -> TargetError {
    move |source| {
        let ended = source.get_ref().and_then(|inner| inner.downcast_ref());
        match ended {
            Some(&TargetError::Stopped { why }) => TargetError::Stopped { why },
            _ => TargetError::Io { what: what.to_string(), source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn what_waits_ends_when_it_is_stopped() {
        let stop = Stop::default();
        // Never told.
        let (tell, told) = channel::<()>();
        let signal = stop.clone();
        let late = thread::spawn(move || signal.0.store(15, Ordering::Relaxed));
        let error = stop.heeding(move || told.recv()).unwrap_err();
        assert!(matches!(error, TargetError::Stopped { why: 15 }), "{error}");
        assert!(stop.sleep(Duration::from_secs(3600)).is_err());
        late.join().unwrap();
        drop(tell);
        assert_eq!(Stop::default().heeding(|| 7).unwrap(), 7);
    }
}
