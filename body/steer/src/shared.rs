//! What the threads of a run share.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use pantler_kernel::clock;
use pantler_kernel::group::RunGroup;
use pantler_kernel::memory::Gauge;

use crate::doors::Doors;
use crate::options::SteerOptions;
use crate::steering::Steering;
use crate::trace::instance::Instance;
use crate::unsteered::Lookout;

/// Longest wait of a question for the events before it.
const CATCH_UP_MAX_NS: u64 = 5_000_000_000;

/// What the threads of a run share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) steering: Mutex<Steering>,
    pub(crate) options: SteerOptions,
    pub(crate) group: Box<dyn RunGroup>,
    pub(crate) run: Instance,
    pub(crate) others: Option<Instance>,
    pub(crate) stopping: AtomicBool,
    /// Processes that are steered where they are, with all that they start: number and time of
    /// start, which no other process has.
    pub(crate) attached: Mutex<HashSet<(u32, u64)>>,
    /// Open lists of threads that commands carry until they are started; emptied at the end,
    /// because an instance is busy while its files are open.
    pub(crate) doors: Mutex<Vec<Weak<Mutex<Option<Doors>>>>>,
    /// Files of the run on which steering has no effect.
    pub(crate) lookout: Mutex<Lookout>,
    /// Written to wake the reading thread.
    pub(crate) wake: OwnedFd,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The kernel waits for all processors when it removes one: for both it waits at once.
        let others = self.others.take();
        std::thread::scope(|scope| {
            scope.spawn(|| drop(others));
            self.run.end();
        });
    }
}

impl Shared {
    /// What steers. A panic elsewhere has left it in a state that is at worst a wrong belief, which
    /// heals.
    pub(crate) fn steering(&self) -> MutexGuard<'_, Steering> {
        self.steering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Processes that are steered where they are.
    pub(crate) fn attached(&self) -> MutexGuard<'_, HashSet<(u32, u64)>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Limits that hold for what the run is charged for. An attached program is charged elsewhere.
    pub(crate) fn limits(&self) -> Gauge {
        let is_attached = !self.attached().is_empty();
        if is_attached { Gauge::default() } else { self.group.gauge(self.options.total_bytes) }
    }

    /// Has the threads end soon: nothing is steered any more.
    pub(crate) fn ask_to_stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake_reader();
    }

    /// See [`Steer::catch_up`](crate::Steer::catch_up).
    pub(crate) fn catch_up(&self) {
        let now_ns = clock::monotonic_ns();
        let deadline_ns = now_ns + CATCH_UP_MAX_NS;
        self.wake_reader();
        while self.steering().taken_until_ns < now_ns
            && clock::monotonic_ns() < deadline_ns
            && !self.stopping.load(Ordering::Acquire)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Has the reading thread look for events now, if it waits for one.
    pub(crate) fn wake_reader(&self) {
        // A full counter wakes the thread as well.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}
