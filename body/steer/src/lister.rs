//! Has the kernel tell of more threads, where runs join: without waiting for all processors.
//!
//! The kernel takes a new list of threads at once, and then waits for all processors before it
//! frees the old one: tens of milliseconds (`event_pid_write` in `kernel/trace/trace_events.c`). A
//! thread of its own waits. Whether the new list counts already is seen by a canary: a thread that
//! is put on the list with the others, and starts threads until the kernel tells of one.
//!
//! ```text
//!   list --threads--> steer-list --write--> kernel ..... processors ..... written
//!     ^                                       |                              |
//!     +------ the kernel tells of a thread that the canary started ----------+ or this
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::error::SteerError;
use crate::shared::Shared;
use crate::thread::{Waiting, panicked};

/// Between two threads that the canary starts: the kernel looks at the list again when a processor
/// goes on to another thread.
const SONG: Duration = Duration::from_micros(200);
/// After this time without a request the other instance is told of new threads. Until then it tells
/// of them as well, which costs them time.
const QUIET: Duration = Duration::from_millis(100);

/// Threads to be listed; none to end.
pub(crate) type Request = Option<(Vec<u32>, Listed)>;

/// Told when they are listed.
pub(crate) type Listed = mpsc::Sender<Result<(), SteerError>>;

/// Whoever waits for a list, and the canary on it.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    canary: Option<u32>,
    listed: Vec<Listed>,
}

impl Awaited {
    /// The kernel tells of a thread that `by` started.
    pub(crate) fn started(&mut self, by: u32) {
        if self.canary == Some(by) {
            self.end(|| Ok(()));
        }
    }

    fn end(&mut self, result: impl Fn() -> Result<(), SteerError>) {
        self.canary = None;
        // Whoever has given up hears nothing.
        self.listed.drain(..).for_each(|listed| drop(listed.send(result())));
    }
}

/// Lists threads, and returns once the kernel tells of them.
pub(crate) fn list(requests: &mpsc::Sender<Request>, threads: &[u32]) -> Result<(), SteerError> {
    let (listed, told) = mpsc::channel();
    let sent = requests.send(Some((threads.to_vec(), listed)));
    sent.map_err(|_| panicked())?;
    told.recv().map_err(|_| panicked())?
}

/// Serves requests until it is told to end.
pub(crate) fn run(shared: &Shared, requests: &mpsc::Receiver<Request>) {
    let mut seen_twice = Vec::new();
    loop {
        let first = match requests.recv_timeout(QUIET) {
            Err(mpsc::RecvTimeoutError::Timeout) => {
                tell_others(shared, &mut seen_twice);
                continue;
            }
            first => first,
        };
        let Ok(Some(first)) = first else { return };
        // All that wait by now are listed at once.
        let mut threads = first.0;
        let mut listed = vec![first.1];
        let mut ends = false;
        for request in requests.try_iter() {
            match request {
                Some((more, told)) => {
                    threads.extend(more);
                    listed.push(told);
                }
                None => ends = true,
            }
        }
        list_at_once(shared, &threads, listed);
        seen_twice.append(&mut threads);
        if ends {
            return;
        }
    }
}

fn list_at_once(shared: &Shared, threads: &[u32], listed: Vec<Listed>) {
    let is_over = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&is_over);
    // Without a canary the wait is longer.
    let canary = Waiting::start("steer-canary", move |()| sing(&until)).ok();
    let tid = canary.as_ref().map(|canary| canary.tid);
    shared.steering().awaited = Awaited { canary: tid, listed };
    let singing = canary.map(|canary| canary.begin(()));
    let written = shared.run.list_threads(&[threads, tid.as_slice()].concat());
    is_over.store(true, Ordering::Relaxed);
    // One that waits still waits for this.
    let error = written.err().map(|error| error.to_string());
    shared.steering().awaited.end(|| error.clone().map_or(Ok(()), |text| Err(SteerError::Options(text))));
    if let Some(singing) = singing {
        let _ = singing.join();
    }
}

/// Starts threads that do nothing.
fn sing(is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let started = std::thread::Builder::new().stack_size(16 << 10).spawn(|| ());
        let _ = started.map(std::thread::JoinHandle::join);
        std::thread::sleep(SONG);
    }
}

/// The instance that watches other programs leaves these threads out from now on.
fn tell_others(shared: &Shared, threads: &mut Vec<u32>) {
    if let Some(others) = shared.others.as_ref().filter(|_| !threads.is_empty())
        && let Err(error) = others.list_threads(threads)
    {
        tracing::warn!(%error, "threads that joined are watched twice");
    }
    threads.clear();
}
