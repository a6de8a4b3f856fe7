//! What uses the page cache of this machine, watched and counted. Nothing is steered: no file is
//! opened, no block read or dropped, no program moved.
//!
//! ```text
//!   all threads but ours --tracepoints--> feed --> paths, processes --Event--> Usage --> reports
//! ```
//!
//! Why so: docs/decisions/0145-top-counts-events.md.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pantler_kernel::process::threads_of;
use pantler_kernel::{KernelError, clock, names, pid_namespace};
use pantler_pagecache::usage::Usage;
use pantler_pagecache::{Event, Kind, Origin};
use pantler_steward::OwnerId;
use pantler_watch::feed::Feed;
use pantler_watch::instance::{self, Follow, Instance};
use pantler_watch::{Source, Told, WatchError, clean_leftovers, trial};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::error::SteerError;

pub use pantler_pagecache::FileKey;
pub use pantler_pagecache::usage::Counts;

mod paths;
mod processes;

use paths::Paths;
use processes::Processes;

/// Trace buffer for each processor: what comes within some tens of milliseconds at most.
const BUFFER_KB: u32 = 2048;
/// Rest between two rounds while events come: each wake costs, and the buffer holds what comes.
const NAP: Duration = Duration::from_millis(4);
/// Longest wait for an event.
const WAIT: Duration = Duration::from_millis(50);
/// Looking for files takes one part in `LOOKING_ONE_IN` of the time at most, and no more than
/// `LOOKING_NS_MAX` at once: the buffers must not overflow meanwhile.
const LOOKING_ONE_IN: u64 = 4;
const LOOKING_NS_MAX: u64 = 400_000_000;

/// Counts of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Its number.
    pub pid: u32,
    /// Its name, without control characters; empty when it ended too soon.
    pub name: String,
    /// Its memory control group, if known.
    pub group: Option<String>,
    /// What it did.
    pub counts: Counts,
}

/// Counts of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileUsage {
    /// As events name it.
    pub file: FileKey,
    /// Its path as this process sees it, if it was found. Any bytes.
    pub path: Option<PathBuf>,
    /// What was done to it.
    pub counts: Counts,
}

/// What was counted since the report before.
#[derive(Debug, Clone, Default)]
pub struct UsageReport {
    /// Time that it is about.
    pub elapsed: Duration,
    /// In no order.
    pub processes: Vec<ProcessUsage>,
    /// In no order.
    pub files: Vec<FileUsage>,
    /// Of processes beyond the bound of [`pantler_pagecache::usage::Bounds`].
    pub other_processes: Counts,
    /// Of files beyond it.
    pub other_files: Counts,
    /// Events that were counted, and those that were lost: with any, all figures are too low.
    pub events: u64,
    /// See `events`.
    pub events_lost: u64,
    /// Fresh blocks that were forgotten: there were too many. Their first use counts as a hit.
    pub forgotten_blocks: u64,
    /// Reads of which references may be missing, because the end of the file is not known.
    pub endless_reads: u64,
}

/// Watches all programs but this one, until it is dropped.
#[derive(Debug)]
pub struct UsageWatch {
    // Closed before the instance is removed.
    feed: Feed,
    counting: Counting,
    since_ns: u64,
    events_lost: u64,
    _instance: Instance,
}

#[derive(Debug)]
struct Counting {
    usage: Usage,
    processes: Processes,
    paths: Paths,
    /// A device that holds files, or not.
    device: Option<(u32, bool)>,
    events: u64,
    /// Time of a processor that may be spent on looking for files.
    looking_ns: u64,
}

impl UsageWatch {
    /// Begins to watch.
    ///
    /// # Errors
    /// [`KernelError::Missing`] names what the machine or the user lacks, and the remedy.
    pub fn start() -> Result<UsageWatch, SteerError> {
        pid_namespace::need_initial()?;
        if !rustix::process::geteuid().is_root() {
            let remedy =
                "the kernel tells of it through tracefs, which is root's: run `sudo pantler top`".to_owned();
            return Err(KernelError::Missing { what: "the right to watch all programs", remedy }.into());
        }
        if let Err(error) = clean_leftovers() {
            tracing::warn!(%error, "could not look for leftovers of crashed runs");
        }
        let root = instance::tracefs()?;
        let name = names::run_name("top");
        let source = Arc::new(Source::find(&root, &name)?);
        Ok(UsageWatch::over(&root, &name, &source)?)
    }

    fn over(root: &Path, name: &str, source: &Arc<Source>) -> Result<UsageWatch, WatchError> {
        let instance = Instance::create(root, name, source, BUFFER_KB, Follow::OthersAndWrites)?;
        let mut feed = Feed::open(&[&instance])?;
        instance.start()?;
        instance.enable(Kind::Read, true)?;
        let inode = trial::read()?;
        trial::take(&mut feed, inode)?;
        instance.list_threads(&threads_of(std::process::id()))?;
        for kind in Kind::ALL {
            instance.enable(kind, true)?;
        }
        let mut usage = Usage::default();
        if matches!(**source, Source::Probes(_)) {
            usage.reads_come_first();
        }
        clock::sharpen_timers();
        clock::hurry();
        let (processes, paths) = (Processes::new(root), Paths::default());
        let counting =
            Counting { usage, processes, paths, device: None, events: 0, looking_ns: LOOKING_NS_MAX };
        let since_ns = clock::monotonic_ns();
        Ok(UsageWatch { feed, counting, since_ns, events_lost: 0, _instance: instance })
    }

    /// Counts what happened, then rests for a few milliseconds, or until an event comes.
    ///
    /// # Errors
    /// The kernel's buffers cannot be read.
    pub fn look(&mut self) -> Result<(), SteerError> {
        let before_ns = self.feed.taken_until_ns();
        if self.round()? > 0 {
            std::thread::sleep(NAP);
        } else {
            self.wait();
        }
        let elapsed_ns = self.feed.taken_until_ns().saturating_sub(before_ns);
        let looking_ns = self.counting.looking_ns + elapsed_ns / LOOKING_ONE_IN;
        self.counting.looking_ns = looking_ns.min(LOOKING_NS_MAX);
        Ok(())
    }

    /// What was counted since the last report.
    ///
    /// # Errors
    /// The kernel's buffers cannot be read.
    pub fn report(&mut self) -> Result<UsageReport, SteerError> {
        self.round()?;
        let until_ns = self.feed.taken_until_ns();
        let before_ns = std::mem::replace(&mut self.since_ns, until_ns);
        let counting = &mut self.counting;
        let counted = counting.usage.report();
        counting.processes.name();
        let process = |(owner, counts): (OwnerId, Counts)| {
            let pid = owner.0 as u32;
            let (name, group) = counting.processes.describe(pid);
            ProcessUsage { pid, name, group, counts }
        };
        let processes = counted.owners.into_iter().map(process).collect();
        counting.processes.clear();
        let file = |(file, counts)| FileUsage {
            file,
            path: counting.paths.name(file).map(Path::to_path_buf),
            counts,
        };
        let files = counted.files.into_iter().map(file).collect();
        counting.paths.clear();
        counting.device = None;
        Ok(UsageReport {
            elapsed: Duration::from_nanos(until_ns.saturating_sub(before_ns)),
            processes,
            files,
            other_processes: counted.other_owners,
            other_files: counted.other_files,
            events: std::mem::take(&mut counting.events),
            events_lost: std::mem::take(&mut self.events_lost),
            forgotten_blocks: counted.forgotten,
            endless_reads: counted.endless_reads,
        })
    }

    fn round(&mut self) -> Result<usize, WatchError> {
        let counting = &mut self.counting;
        let mut count = 0;
        // Programs that go on for ever must not keep us here for ever.
        let until_ns = clock::monotonic_ns();
        loop {
            count += self.feed.round(|told| counting.told(told))?;
            counting.processes.name_new();
            if !self.feed.is_behind() || self.feed.taken_until_ns() > until_ns {
                break;
            }
        }
        self.events_lost += self.feed.take_lost();
        Ok(count)
    }

    fn wait(&self) {
        let polled = self.feed.descriptors();
        let mut polled: Vec<_> =
            polled.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)).collect();
        let timeout = Timespec { tv_sec: 0, tv_nsec: WAIT.as_nanos() as i64 };
        // An interrupted wait is a short one.
        let _ = rustix::event::poll(&mut polled, Some(&timeout));
    }
}

impl Counting {
    fn told(&mut self, told: &Told) {
        match *told {
            Told::Pages(ref event) => self.event(event),
            Told::Written { thread, ino, page, .. } => {
                self.usage.written(OwnerId(self.processes.of(thread).into()), thread, ino, page);
            }
            Told::Started { .. } | Told::Ended { .. } | Told::Advised { .. } => {}
        }
    }

    fn event(&mut self, event: &pantler_watch::Event) {
        let file = FileKey { dev: event.dev, ino: event.ino };
        let holds_files = match self.device {
            Some((device, holds_files)) if device == event.dev => holds_files,
            _ => self.paths.is_mounted(event.dev),
        };
        self.device = Some((event.dev, holds_files));
        if !holds_files {
            return;
        }
        self.events += 1;
        let origin = match event.kind {
            // In any thread: it says nothing of a program.
            Kind::Gone => Origin::Outside,
            _ => Origin::Run { thread: event.tid, owner: OwnerId(self.processes.of(event.tid).into()) },
        };
        let (time_ns, kind, first, last) = (event.time_ns, event.kind, event.first, event.last);
        let told = Event { time_ns, kind, origin, file, first, last };
        if self.looking_ns > 0 && self.usage.wants_end(&told) {
            let begun_ns = clock::thread_ns();
            let end = self.paths.find(file, event.tid);
            self.usage.set_end(file, end);
            self.looking_ns = self.looking_ns.saturating_sub(clock::thread_ns() - begun_ns);
        }
        self.usage.event(&told);
    }
}
