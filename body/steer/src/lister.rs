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
use std::time::{Duration, Instant};

use pantler_kernel::clock;

use crate::error::SteerError;
use crate::shared::Shared;
use crate::thread::Waiting;

/// Between two threads that the canary starts: the kernel looks at the list again when a processor
/// goes on to another thread.
const PAUSE: Duration = Duration::from_micros(200);
/// After this time without a request both lists are completed. Until then the instance of other
/// programs tells of threads that joined as well, which costs them time.
const QUIET: Duration = Duration::from_millis(100);
/// The same where requests never cease.
const BUSY: Duration = Duration::from_secs(1);

/// Threads to be listed; none to end.
pub(crate) type Request = Option<(Vec<u32>, Listed)>;

/// Told when they are listed.
pub(crate) type Listed = mpsc::Sender<Result<(), SteerError>>;

/// Callers that wait for a list, and the canary on it.
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
        // One that has given up hears nothing.
        self.listed.drain(..).for_each(|listed| drop(listed.send(result())));
    }
}

/// Lists threads, and returns once the kernel tells of them.
pub(crate) fn list(requests: &mpsc::Sender<Request>, threads: &[u32]) -> Result<(), SteerError> {
    let (listed, told) = mpsc::channel();
    let sent = requests.send(Some((threads.to_vec(), listed)));
    let ended = || SteerError::Options("steering has ended".to_owned());
    sent.map_err(|_| ended())?;
    told.recv().map_err(|_| ended())?
}

/// Serves requests until it is told to end.
pub(crate) fn run(shared: &Shared, requests: &mpsc::Receiver<Request>) {
    let mut completed = Instant::now();
    loop {
        let first = requests.recv_timeout(QUIET);
        if matches!(first, Err(mpsc::RecvTimeoutError::Timeout)) || completed.elapsed() > BUSY {
            list_rest(shared);
            completed = Instant::now();
        }
        let (mut threads, told) = match first {
            Ok(Some(request)) => request,
            Err(mpsc::RecvTimeoutError::Timeout) => continue,
            Ok(None) | Err(mpsc::RecvTimeoutError::Disconnected) => return,
        };
        // All that wait by now are listed at once.
        let mut listed = vec![told];
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
        if ends {
            return;
        }
    }
}

fn list_at_once(shared: &Shared, threads: &[u32], listed: Vec<Listed>) {
    let is_over = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&is_over);
    // Without a canary the wait is longer.
    let canary = Waiting::start("steer-canary", move |()| start_threads(&until)).ok();
    let tid = canary.as_ref().map(|canary| canary.tid);
    {
        let mut steering = shared.steering();
        steering.awaited = Awaited { canary: tid, listed };
        steering.owners.lists_changed_ns = u64::MAX;
    }
    let starting = canary.map(|canary| canary.begin(()));
    let written = shared.run.list_threads(&[threads, tid.as_slice()].concat());
    is_over.store(true, Ordering::Relaxed);
    // One that waits still waits for this.
    let error = written.err().map(|error| error.to_string());
    let mut steering = shared.steering();
    steering.owners.lists_changed_ns = clock::monotonic_ns();
    steering.awaited.end(|| error.clone().map_or(Ok(()), |text| Err(SteerError::Options(text))));
    drop(steering);
    if let Some(starting) = starting {
        let _ = starting.join();
    }
}

/// Starts threads that do nothing.
fn start_threads(is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let started = std::thread::Builder::new().stack_size(16 << 10).spawn(|| ());
        let _ = started.map(std::thread::JoinHandle::join);
        std::thread::sleep(PAUSE);
    }
}

/// Has both lists hold all threads of runs. The instance of runs may miss one that was started
/// while its list was written; that of other programs has none that joined since.
fn list_rest(shared: &Shared) {
    let threads = shared.steering().owners.unlisted();
    if threads.is_empty() {
        return;
    }
    shared.steering().owners.lists_changed_ns = u64::MAX;
    let written = shared.instances().try_for_each(|instance| instance.list_threads(&threads));
    let mut steering = shared.steering();
    steering.owners.lists_changed_ns = clock::monotonic_ns();
    match written {
        Ok(()) => steering.owners.listed(&threads),
        Err(error) => tracing::warn!(%error, "threads that joined are watched twice"),
    }
}
