//! A steered run, from start to stop.

use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread::JoinHandle;

use pantler_kernel::group::{self, RunGroup, mounts};
use pantler_kernel::process::threads_of;
use pantler_kernel::{clock, names, pid_namespace};
use pantler_pagecache::SteerCounters;

use crate::doors::Doors;
use crate::error::SteerError;
use crate::lister;
use crate::options::SteerOptions;
use crate::reader;
use crate::shared::Shared;
use crate::steering::Steering;
use crate::thread::{Waiting, panicked};
use crate::watch;
use pantler_watch::clean_leftovers;
use pantler_watch::feed::Feed;
use pantler_watch::instance::{self, Follow, Instance};
use pantler_watch::{Kind, Source, trial};

/// A run with a steered page cache. Stopping (or dropping it) gives readahead back and removes
/// what it made.
#[derive(Debug)]
pub struct Steer {
    pub(crate) shared: Arc<Shared>,
    threads: Vec<JoinHandle<Option<()>>>,
    home: Vec<PathBuf>,
}

impl Steer {
    /// Makes the control group and the trace instances and begins to watch. Nothing is steered
    /// until a program is put in by [`Steer::enter`] or [`Steer::attach`].
    ///
    /// # Errors
    /// [`pantler_kernel::KernelError::Missing`] names what the machine lacks and the remedy; else
    /// what refused.
    pub fn start(options: SteerOptions) -> Result<Steer, SteerError> {
        Self::start_with(options, || Ok(None))
    }

    /// As [`start`](Self::start), with a process that stands still in the run from the start: to
    /// take it in later costs a wait for all processors. `stage` starts it once the group is there.
    ///
    /// # Errors
    /// As [`start`](Self::start), and what `stage` refuses.
    pub fn start_with(
        options: SteerOptions,
        stage: impl FnOnce() -> io::Result<Option<u32>>,
    ) -> Result<Steer, SteerError> {
        options.check()?;
        pid_namespace::need_initial()?;
        if let Err(error) = clean_leftovers() {
            tracing::warn!(%error, "could not look for leftovers of crashed runs");
        }
        let name = names::run_name(&options.name);
        let root = instance::tracefs()?;
        let group = group::create(&name, true)?;
        let home = home()?;
        // Side by side: most of both is a wait for all processors.
        let made = std::thread::scope(|scope| {
            let watches = scope.spawn(|| Watches::make(&options, &name, &root));
            let entered = put_into(&group.host_files(), std::process::id()).and_then(|()| {
                let program = stage().map_err(|error| SteerError::call("clone, for the program", error))?;
                program.map_or(Ok(()), |pid| put_into(&group.program_files(), pid))?;
                Ok(program)
            });
            let watches = watches.join().unwrap_or_else(|_| Err(panicked()));
            Ok((entered?, watches?))
        });
        let reader = Waiting::start("steer-read", |(shared, feed): (Arc<Shared>, Feed)| {
            reader::run(&shared, feed);
        });
        let prepared = made.and_then(|(program, watches)| {
            let reader = reader?;
            Ok((Prepared::new(&options, watches, reader.tid, program)?, reader))
        });
        let (prepared, reader) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                leave(&home);
                let _ = group.remove();
                return Err(error);
            }
        };
        let Prepared { run, others, steering, wake, feed } = prepared;
        let (requests, requested) = mpsc::channel();
        let joins = options.takes_runs;
        let shared = Arc::new(Shared {
            steering: Mutex::new(steering),
            options,
            group,
            run,
            others,
            rests: Mutex::default(),
            stopping: AtomicBool::new(false),
            attached: Mutex::default(),
            doors: Mutex::default(),
            lookout: Mutex::default(),
            requests,
            wake,
            watcher: OnceLock::new(),
        });
        let watcher = Waiting::start("steer-watch", |shared: Arc<Shared>| watch::run(&shared));
        let lister = joins.then(|| {
            Waiting::start("steer-list", move |shared: Arc<Shared>| lister::run(&shared, &requested))
        });
        let threads = vec![reader.begin((Arc::clone(&shared), feed))];
        let mut steer = Steer { shared, threads, home };
        steer.threads.push(watcher?.begin(Arc::clone(&steer.shared)));
        if let Some(lister) = lister {
            steer.threads.push(lister?.begin(Arc::clone(&steer.shared)));
        }
        Ok(steer)
    }

    /// Has a program that is about to be started run in this run: its process and all that it
    /// starts.
    ///
    /// # Errors
    /// A control file could not be opened.
    pub fn enter(&self, command: &mut Command) -> Result<(), SteerError> {
        let open = |path: PathBuf| {
            fs::OpenOptions::new()
                .write(true)
                .open(&path)
                .map_err(|error| SteerError::file("open", path, error))
        };
        let groups =
            self.shared.group.program_files().into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let lists = self.shared.instances().map(Instance::list_file).collect::<io::Result<_>>();
        let lists =
            lists.map_err(|error| SteerError::call("dup, for a program to list its threads", error))?;
        let doors = Arc::new(Mutex::new(Some(Doors::new(groups, lists))));
        self.shared.doors.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&doors));
        let hook = move || match doors.try_lock() {
            Ok(doors) => doors.as_ref().ok_or(io::ErrorKind::BrokenPipe)?.enter(),
            Err(_) => Err(io::ErrorKind::WouldBlock.into()),
        };
        // SAFETY: between fork and exec the hook only formats into its own stack and writes to open
        // descriptors; it neither allocates nor waits for a lock.
        unsafe { command.pre_exec(hook) };
        Ok(())
    }

    /// Steers a process that runs already, with all that it started and will start, where it is: it
    /// stays in its control group, so what that group reads and holds is not counted here. Returns
    /// how many processes are steered because of it; none if it is gone.
    ///
    /// # Errors
    /// The kernel's list of threads refused.
    pub fn attach(&self, pid: u32) -> Result<usize, SteerError> {
        let family = self.shared.list_family(pid, |_| ())?;
        self.shared.attached().extend(family.first().map(|first| (first.pid, first.start)));
        Ok(family.len())
    }

    /// Says in the log if steering will have no effect on this open file or folder, unless it was
    /// said of another one.
    pub fn mention(&self, file: BorrowedFd<'_>, path: &Path) {
        let mut lookout = self.shared.lookout.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(said) = lookout.look_at(file, path) {
            tracing::warn!("{said}");
        }
    }

    /// Whether blocks get less than the budget because a limit holds everything that the run is
    /// charged for, this process included, or nearly so.
    pub fn is_limited(&self) -> bool {
        let budget = self.shared.options.budget_bytes;
        self.shared.limits().least().is_some_and(|limit| limit < budget + budget / 4)
    }

    /// The run's control group.
    pub fn group(&self) -> &dyn RunGroup {
        &*self.shared.group
    }

    /// What was counted until now.
    pub fn counters(&self) -> SteerCounters {
        self.shared.steering().counters()
    }

    /// What the steward counted, over all owners.
    pub fn totals(&self) -> pantler_steward::Counters {
        self.shared.steering().engine.steward().totals()
    }

    /// Waits until the events so far have been taken, for at most five seconds. Other programs may
    /// go on meanwhile.
    pub fn catch_up(&self) {
        self.shared.catch_up();
    }

    /// Waits until no events come and no drop is due, for at most five seconds. For tests and for
    /// last looks at counters.
    pub fn wait_until_calm(&self) {
        let deadline = clock::monotonic_ns() + 5_000_000_000;
        let (mut last, mut same) = ((0, 0), 0);
        while same < 3 && clock::monotonic_ns() < deadline {
            let counters = self.counters();
            let now = (counters.events, counters.drops);
            let calm = now == last && self.shared.steering().engine.ledger().leaving_blocks() == 0;
            same = if calm { same + 1 } else { 0 };
            last = now;
            std::thread::sleep(std::time::Duration::from_millis(15));
        }
    }

    /// Asks the kernel about every block that is believed to be cached, as after lost events.
    /// Returns how many beliefs were wrong.
    pub fn resynchronise(&self) -> u64 {
        let mut steering = self.shared.steering();
        let before = steering.counters().corrected;
        steering.lost(0, clock::monotonic_ns());
        steering.counters().corrected - before
    }

    /// Recomputes what is known, and panics with the number of the invariant that fails. For tests.
    ///
    /// # Panics
    /// An invariant of the ledger or the steward is broken.
    pub fn validate(&self) {
        self.shared.steering().engine.validate();
    }

    /// Whether steering ended because a speaker asked for that.
    pub fn is_stopped(&self) -> bool {
        self.shared.stopping.load(Ordering::Acquire)
    }

    /// Drops what the run brought in and no other program used, written blocks once they are on
    /// the disk. What a process has mapped stays. This is for the end of a run: what is believed of
    /// these blocks is wrong from here on.
    pub fn give_up_blocks(&self) {
        self.catch_up();
        self.shared.steering().give_up_blocks(clock::monotonic_ns());
    }

    /// Ends steering and removes everything that was made; returns the last counters. Cached blocks
    /// stay.
    ///
    /// # Errors
    /// What could not be removed.
    pub fn stop(mut self) -> Result<SteerCounters, SteerError> {
        self.end()?;
        Ok(self.shared.steering().counters())
    }

    fn end(&mut self) -> Result<(), SteerError> {
        if self.threads.is_empty() {
            return Ok(());
        }
        for doors in self.shared.doors.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if let Some(doors) = doors.upgrade() {
                doors.lock().unwrap_or_else(PoisonError::into_inner).take();
            }
        }
        self.shared.ask_to_stop();
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // A panic there has been printed; what is left to do here is the same.
            let _ = thread.join();
        }
        self.shared.steering().hands.restore(|_| true);
        std::thread::scope(|scope| {
            scope.spawn(|| leave(&self.home));
            // Not when the last connection has let go of this: those of runs may last.
            self.shared.end();
        });
        Ok(self.shared.group.remove()?)
    }
}

impl Drop for Steer {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(%error, "a run left something behind");
        }
    }
}

/// A thread that does not exist: thread numbers end below 2^22.
const NOBODY_TID: u32 = 1 << 22;

/// The trace instances, which list no thread yet.
struct Watches {
    source: Arc<Source>,
    run: Instance,
    others: Option<Instance>,
}

impl Watches {
    fn make(options: &SteerOptions, name: &str, root: &Path) -> Result<Watches, SteerError> {
        let source = Arc::new(Source::find(root, name)?);
        let make = |name: &str, buffer_kb, follow| Instance::create(root, name, &source, buffer_kb, follow);
        let others = options.watch_others.then(|| {
            let buffer_kb = (options.buffer_kb / 4).max(4);
            make(&format!("{name}.others"), buffer_kb, Follow::Others)
        });
        let others = others.transpose()?;
        let joins = options.takes_runs;
        let follow = if joins { Follow::ListedAndThreads } else { Follow::Listed };
        let mut run = make(name, options.buffer_kb, follow)?;
        if options.heeds_advice
            && let Err(error) = run.know_calls(root)
        {
            tracing::warn!(%error, "the advice of programs is not heeded");
        }
        Ok(Watches { source, run, others })
    }
}

/// What is needed to see what programs do, and to decide about it.
struct Prepared {
    run: Instance,
    others: Option<Instance>,
    steering: Steering,
    wake: OwnedFd,
    feed: Feed,
}

impl Prepared {
    fn new(
        options: &SteerOptions,
        watches: Watches,
        reader: u32,
        program: Option<u32>,
    ) -> Result<Prepared, SteerError> {
        let Watches { source, run, others } = watches;
        let trial = Waiting::start("steer-trial", |()| Ok(trial::read()?))?;
        // The kernel waits for all processors at each change of a list but the first. `others` must
        // not see what our reader reads ahead; for the run, an empty list would mean all threads.
        let program = program.map(threads_of).unwrap_or_default();
        if let Some(others) = &others {
            others.list_threads(&[&program[..], &[reader]].concat())?;
        }
        run.list_threads(&[&program[..], &[NOBODY_TID, trial.tid]].concat())?;
        let instances: Vec<&Instance> = std::iter::once(&run).chain(&others).collect();
        let mut steering = Steering::new(options, clock::monotonic_ns())?;
        if matches!(*source, Source::Probes(_)) {
            steering.engine.reads_come_first();
        }
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        let wake = rustix::event::eventfd(0, flags)
            .map_err(|error| SteerError::call("eventfd, to wake the reading thread", error))?;
        let mut feed = Feed::open(&instances)?;
        for instance in instances.into_iter().rev() {
            for kind in Kind::ALL {
                instance.enable(kind, true)?;
            }
            instance.heed(true)?;
            instance.start()?;
        }
        try_out(trial, &mut feed)?;
        Ok(Prepared { run, others, steering, wake, feed })
    }
}

/// Has the trial read, and takes from its event where reads end. Its thread leaves the list when it
/// ends.
fn try_out(trial: Waiting<(), Result<u64, SteerError>>, feed: &mut Feed) -> Result<(), SteerError> {
    let inode = trial.begin(()).join().ok().flatten().unwrap_or_else(|| Err(panicked()))?;
    Ok(trial::take(feed, inode)?)
}

/// Puts a process into the group with these files.
fn put_into(files: &[PathBuf], pid: u32) -> Result<(), SteerError> {
    files.iter().try_for_each(|file| Ok(group::write(file, &pid.to_string())?))
}

/// The files that bring the calling process back to where it is.
fn home() -> Result<Vec<PathBuf>, SteerError> {
    let places = mounts::Places::read()?;
    let memory = places.memory.map(|memory| match memory {
        mounts::Memory::V1 { own } | mounts::Memory::V2 { own, .. } => own,
    });
    Ok(memory.into_iter().chain(places.blkio).map(|own| own.join("cgroup.procs")).collect())
}

fn leave(home: &[PathBuf]) {
    for file in home {
        let _ = group::write(file, &std::process::id().to_string());
    }
}
