//! Threads that wait: the kernel's lists have to name a thread before it does anything.

use std::sync::mpsc;
use std::thread::JoinHandle;

use crate::error::SteerError;

/// A thread that begins its work when it gets a `T`, and ends without one when this is dropped.
#[derive(Debug)]
pub(crate) struct Waiting<T, R> {
    /// Its number.
    pub(crate) tid: u32,
    begin: mpsc::Sender<T>,
    thread: JoinHandle<Option<R>>,
}

impl<T: Send + 'static, R: Send + 'static> Waiting<T, R> {
    /// Starts it.
    ///
    /// # Errors
    /// The kernel starts no thread.
    pub(crate) fn start(
        name: &str,
        work: impl FnOnce(T) -> R + Send + 'static,
    ) -> Result<Waiting<T, R>, SteerError> {
        let (begin, told) = mpsc::channel();
        let (tell, tid) = mpsc::channel();
        let work = move || {
            let _ = tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32);
            told.recv().ok().map(work)
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(256 << 10).spawn(work);
        let thread = thread.map_err(|error| SteerError::call("clone, for a thread that steers", error))?;
        let tid = tid.recv().map_err(|_| panicked())?;
        Ok(Waiting { tid, begin, thread })
    }

    /// Has it begin.
    pub(crate) fn begin(self, with: T) -> JoinHandle<Option<R>> {
        // One that has panicked shows when it is joined.
        let _ = self.begin.send(with);
        self.thread
    }
}

/// The error after a panic of a thread that steers.
pub(crate) fn panicked() -> SteerError {
    SteerError::Options("a thread that steers panicked".to_owned())
}

/// Both, side by side: most of each is a wait for all processors.
pub(crate) fn at_once<A, B: Send>(
    one: impl FnOnce() -> Result<A, SteerError>,
    other: impl FnOnce() -> Result<B, SteerError> + Send,
) -> Result<(A, B), SteerError> {
    std::thread::scope(|scope| {
        let other = scope.spawn(other);
        let one = one();
        let other = other.join().unwrap_or_else(|_| Err(panicked()));
        Ok((one?, other?))
    })
}
