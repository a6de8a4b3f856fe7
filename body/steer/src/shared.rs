//! What the threads of a run share.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, Weak, mpsc};
use std::thread::Thread;
use std::time::Duration;

use pantler_kernel::clock;
use pantler_kernel::group::RunGroup;
use pantler_kernel::memory::Gauge;
use pantler_kernel::process::{self, Member, threads_of};

use crate::doors::Doors;
use crate::error::SteerError;
use crate::lister;
use crate::options::SteerOptions;
use crate::steering::Steering;
use crate::thread::at_once;
use crate::unsteered::Lookout;
use pantler_watch::instance::Instance;

/// Longest wait of a question for the events before it.
const CATCH_UP_MAX_NS: u64 = 5_000_000_000;

/// A thread that starts after its parent was listed is listed by the kernel; one that started while
/// its parent was looked at is found by the next look.
const LOOKS_MAX: u32 = 4;

/// What the threads of a run share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) steering: Mutex<Steering>,
    pub(crate) options: SteerOptions,
    pub(crate) group: Box<dyn RunGroup>,
    pub(crate) run: Instance,
    pub(crate) others: Option<Instance>,
    /// Whether the tracepoints of pages are off, because no run goes on. Locked while they are
    /// switched, before `steering`.
    pub(crate) rests: Mutex<bool>,
    pub(crate) stopping: AtomicBool,
    /// Processes that are steered where they are, with all that they start: number and time of
    /// start, which no other process has.
    pub(crate) attached: Mutex<HashSet<(u32, u64)>>,
    /// Open lists of threads that commands carry until they are started; emptied at the end,
    /// because an instance is busy while its files are open.
    pub(crate) doors: Mutex<Vec<Weak<Mutex<Option<Doors>>>>>,
    /// Files of the run on which steering has no effect.
    pub(crate) lookout: Mutex<Lookout>,
    /// To the thread that lists threads of runs that join.
    pub(crate) requests: mpsc::Sender<lister::Request>,
    /// Written to wake the reading thread.
    pub(crate) wake: OwnedFd,
    /// The watching thread, once it runs.
    pub(crate) watcher: OnceLock<Thread>,
}

impl Shared {
    /// What steers. A panic elsewhere has left it in a state that is at worst a wrong belief, which
    /// heals.
    pub(crate) fn steering(&self) -> MutexGuard<'_, Steering> {
        self.steering.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the tracepoints of pages are off.
    pub(crate) fn rests(&self) -> MutexGuard<'_, bool> {
        self.rests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The instance of runs, and that of other programs, whose events are switched on first and off
    /// last: docs/decisions/0169-the-last-instance-goes-first.md.
    pub(crate) fn instances(&self) -> impl Iterator<Item = &Instance> {
        std::iter::once(&self.run).chain(&self.others)
    }

    /// Processes that are steered where they are.
    pub(crate) fn attached(&self) -> MutexGuard<'_, HashSet<(u32, u64)>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Limits that hold for what the run is charged for. An attached program is charged elsewhere.
    pub(crate) fn limits(&self) -> Gauge {
        if self.is_charged_elsewhere() {
            Gauge::default()
        } else {
            self.group.gauge(self.options.total_bytes)
        }
    }

    /// Whether programs are steered in groups of their own.
    pub(crate) fn is_charged_elsewhere(&self) -> bool {
        self.options.takes_runs || !self.attached().is_empty()
    }

    /// Has the kernel tell of a process that runs already, and of all that it started and will
    /// start. `each` gets their threads before the kernel does. Returns the processes.
    pub(crate) fn list_family(
        &self,
        pid: u32,
        mut each: impl FnMut(&[u32]),
    ) -> Result<Vec<Member>, SteerError> {
        let mut listed = HashSet::new();
        let mut family = Vec::new();
        for _ in 0..LOOKS_MAX {
            family = process::family(pid);
            let threads = family.iter().flat_map(|member| threads_of(member.pid));
            let new: Vec<u32> = threads.filter(|&thread| listed.insert(thread)).collect();
            if new.is_empty() {
                break;
            }
            each(&new);
            self.list(&new)?;
        }
        Ok(family)
    }

    /// Has the kernel tell of threads, and of those that they start.
    pub(crate) fn list(&self, threads: &[u32]) -> Result<(), SteerError> {
        if self.options.takes_runs {
            return lister::list(&self.requests, threads);
        }
        let (run, others) = (&self.run, self.others.as_ref());
        let others = || others.map_or(Ok(()), |it| it.list_threads(threads));
        at_once(|| Ok(run.list_threads(threads)?), || Ok(others()?)).map(drop)
    }

    /// Removes the instances, in the order that they need.
    pub(crate) fn end(&self) {
        self.instances().for_each(Instance::end);
    }

    /// Has the threads end soon: nothing is steered any more.
    pub(crate) fn ask_to_stop(&self) {
        self.stopping.store(true, Ordering::Release);
        // It ended before, or ends now.
        let _ = self.requests.send(None);
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
