//! What the kernel does with the pages that it keeps for a mount, as its tracepoints tell: which
//! program read them, and which of them left.
//!
//! Programs pay an event for each read of this mount, and for nothing else: the events are filtered
//! by its device.

use std::collections::HashMap;
use std::io::{self, PipeReader, PipeWriter};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use pantler_kernel::{KernelError, clock, mount_table, names, pages, pid_namespace};
use pantler_watch::feed::Feed;
use pantler_watch::instance::{self, Follow, Instance};
use pantler_watch::source::has_tracepoints;
use pantler_watch::{Event, Kind, Source, Told, WatchError, clean_leftovers, trial};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::core::Core;

/// The kinds of events that are needed: what enters the page cache asks here first.
const KINDS: [Kind; 4] = [Kind::Read, Kind::Fault, Kind::Mapped, Kind::Gone];
/// Buffer for events of each processor, in KiB: 2 ms of reads without a pause are an eighth of it.
const BUFFER_KB: u32 = 1024;
/// Between two looks at events that come one after the other. What is dropped is decided when
/// blocks come, and a read that brings one [catches up](Watched::catch_up) first.
const REST: Duration = Duration::from_millis(2);
/// Between two looks of reads, for each processor: its buffer is read in a quarter of that.
const LOOK_NS: u64 = 4_000;

/// Mounts of this process that were watched so far.
static STARTED: AtomicU64 = AtomicU64::new(0);

/// Threads whose last read is remembered.
const THREADS_MAX: usize = 4096;

/// Folios that the kernel looks at in one go, at most.
const BATCH: u64 = 31;

/// The reads that threads are in: of which inode, which pages, and up to where they were told of.
/// The kernel looks at a long read in batches, and each of them is an event, to the end of the
/// read.
#[derive(Default)]
struct Reads(HashMap<u32, (u64, Range<u64>, u64)>);

impl Reads {
    /// What was read as this event tells, and the last page that was read before, if it goes on
    /// there or reads something of that again. Each page of a read is told of once.
    fn part(&mut self, thread: u32, inode: u64, pages: Range<u64>) -> (Range<u64>, Option<u64>) {
        if self.0.len() >= THREADS_MAX {
            self.0.clear();
        }
        let before = self.0.get(&thread).filter(|(of, ..)| *of == inode);
        let is_rest = |read: &Range<u64>| read.end == pages.end && read.start < pages.start;
        let reaches = |read: &Range<u64>, until| (read.start..=until).contains(&pages.start);
        let (from, after) = match before {
            Some((_, read, until)) if is_rest(read) => (*until, until.checked_sub(1)),
            Some((_, read, until)) if reaches(read, *until) => (pages.start, until.checked_sub(1)),
            _ => (pages.start, None),
        };
        let until = pages.end.min(pages.start.saturating_add(BATCH)).max(from);
        self.0.insert(thread, (inode, pages, until));
        (from..until, after)
    }
}

/// Watches until it is dropped.
pub(crate) struct Watch {
    /// The thread ends when this is closed.
    _end: PipeWriter,
}

/// Events of the kernel, of which the cache has not heard yet. `None`: they are watched no more.
pub(crate) struct Watched(Mutex<Option<Events>>);

struct Events {
    feed: Feed,
    reads: Reads,
    /// Removed last: the kernel keeps an instance while its buffers are open.
    _instance: Instance,
}

impl Watched {
    /// Takes the events of what happened before this read, if the last look was not just now: the
    /// next victim depends on hits of which the cache has not heard. What programs said is taken
    /// with them. `false` where nothing is watched any more.
    pub(crate) fn catch_up(&self, core: &Core) -> bool {
        let mut watched = self.lock();
        let Some(events) = &mut *watched else { return false };
        let lanes = events.feed.descriptors().count() as u64;
        let is_due = clock::monotonic_ns().saturating_sub(events.feed.taken_until_ns()) > LOOK_NS * lanes;
        if is_due || core.rings.lock().have_hints() {
            // The watching thread logs an error.
            let _ = events.round(core);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Option<Events>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Events {
    /// How many came.
    fn round(&mut self, core: &Core) -> Result<usize, WatchError> {
        let Events { feed, reads, .. } = self;
        feed.fill()?;
        let mut rings = core.rings.lock();
        rings.collect();
        let count = feed.hand_out(|told| {
            core.take_hints(&mut rings, told.time_ns());
            tell(core, reads, told);
        });
        core.take_hints(&mut rings, feed.taken_until_ns());
        Ok(count)
    }
}

/// What the kernel and the rights of this process lack for that. Mounts tracefs, if it is not
/// mounted.
///
/// # Errors
/// What is missing.
pub(crate) fn check() -> Result<(), WatchError> {
    may_watch()?;
    tells_of_reads(&instance::tracefs()?)
}

/// The same, as far as it can be told without mounting anything.
///
/// # Errors
/// What is missing.
pub(crate) fn look() -> Result<(), WatchError> {
    may_watch()?;
    instance::mounted_tracefs().map_or(Ok(()), |tracefs| tells_of_reads(&tracefs))
}

fn may_watch() -> Result<(), WatchError> {
    pid_namespace::need_initial()?;
    match rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => Err(missing("the right to watch the page cache", "run as root")),
    }
}

// A probe tells of a read before its page is there: that would be taken for a hit.
fn tells_of_reads(tracefs: &Path) -> Result<(), WatchError> {
    let remedy = "run Linux 6.12 or newer, or take frames of the mount's own";
    has_tracepoints(tracefs).then_some(()).ok_or_else(|| missing("a tracepoint of filemap", remedy))
}

fn missing(what: &'static str, remedy: &str) -> WatchError {
    KernelError::Missing { what, remedy: remedy.into() }.into()
}

/// Watches what happens to pages of the mount with this path, in a thread of its own. To be
/// [checked](check) before.
///
/// # Errors
/// What the kernel lacks or refuses.
pub(crate) fn start(core: &Arc<Core>, mountpoint: &Path) -> Result<(Watch, JoinHandle<()>), WatchError> {
    if let Err(error) = clean_leftovers() {
        tracing::warn!(%error, "could not look for leftovers of crashed mounts and runs");
    }
    let failed = |call| move |source: io::Error| WatchError::call(call, source);
    let dev = device(mountpoint).map_err(failed("look for the mount's device"))?;
    let root = instance::tracefs()?;
    // A process may host several mounts. The kernel takes its time to remove an instance, and by
    // then another mount may have its device number.
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    let name = names::run_name(&format!("mount.{dev}.{number}"));
    let source = Arc::new(Source::find(&root, &name)?);
    let instance = Instance::create(&root, &name, &source, BUFFER_KB, Follow::Others)?;
    let mut feed = Feed::open(&[&instance])?;
    instance.start()?;
    instance.enable(Kind::Read, true)?;
    let inode = trial::read()?;
    trial::take(&mut feed, inode)?;
    for kind in KINDS {
        instance.filter(kind, &format!("s_dev == {dev}"))?;
        instance.enable(kind, true)?;
    }
    let failed_to_start = failed("start the thread that watches");
    let cloned: io::Result<_> =
        feed.descriptors().map(|descriptor| descriptor.try_clone_to_owned()).collect();
    let buffers: Vec<OwnedFd> = cloned.map_err(failed("copy a descriptor of a buffer"))?;
    let (end, writer) = io::pipe().map_err(failed("pipe, to end the thread that watches"))?;
    let events = Events { feed, reads: Reads::default(), _instance: instance };
    let watched = Arc::new(Watched(Mutex::new(Some(events))));
    let (of, seen) = (Arc::clone(core), Arc::clone(&watched));
    let thread = std::thread::Builder::new().name("pantler-watch".into());
    let thread = thread.spawn(move || {
        watch(&of, &seen, &buffers, &end);
        drop(buffers);
        seen.lock().take();
    });
    let thread = thread.map_err(failed_to_start)?;
    core.lend(watched);
    Ok((Watch { _end: writer }, thread))
}

/// The device of a mount, as events write it. The mount itself is not asked: the caller may be its
/// server.
fn device(mountpoint: &Path) -> io::Result<u32> {
    let mounts = mount_table::mounts()?;
    let found = mounts.iter().rfind(|mount| mount.place == mountpoint);
    found.map(|mount| mount.dev).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn watch(core: &Core, watched: &Watched, buffers: &[OwnedFd], end: &PipeReader) {
    clock::sharpen_timers();
    loop {
        let (count, is_behind) = {
            let mut events = watched.lock();
            let Some(events) = &mut *events else { return };
            let count = match events.round(core) {
                Ok(count) => count,
                Err(error) => {
                    tracing::error!(%error, "the mount's reads are not seen any more: its programs go on by misses alone");
                    return;
                }
            };
            if events.feed.take_lost() > 0 {
                // Hits that are not counted, and pages that count as lent until their block leaves.
                tracing::debug!("events of the mount were lost");
            }
            (count, events.feed.is_behind())
        };
        // Where more is there already, the next round follows at once.
        if count > 0 && !is_behind {
            std::thread::sleep(REST);
        }
        let wait = (count > 0 || is_behind).then(Timespec::default);
        let mut polled: Vec<PollFd<'_>> = std::iter::once(end.as_fd())
            .chain(buffers.iter().map(AsFd::as_fd))
            .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
            .collect();
        // An interrupted wait is a short one.
        let _ = rustix::event::poll(&mut polled, wait.as_ref());
        if !polled[0].revents().is_empty() {
            return;
        }
    }
}

fn tell(core: &Core, reads: &mut Reads, told: &Told) {
    let Told::Pages(Event { time_ns, kind, tid, ino, first, last, .. }) = *told else { return };
    let Ok(inode) = core.inodes.get(ino) else { return };
    let Ok(content) = inode.content() else { return };
    let page = pages::block_bytes();
    let bytes = first.saturating_mul(page)..last.saturating_add(1).saturating_mul(page);
    match kind {
        Kind::Gone => core.cache().gone(content.file(), bytes, time_ns),
        Kind::Added => {}
        Kind::Read | Kind::Fault | Kind::Mapped => {
            let pages = first..last.saturating_add(1).min(content.size().div_ceil(page));
            let (part, after) = match kind {
                Kind::Read => reads.part(tid, ino, pages),
                _ => (pages, None),
            };
            let (owner, bytes) = (core.programs.owner_seen(tid), part.start * page..part.end * page);
            core.cache().seen(owner, content.file(), bytes, after.map(|last| last * page), time_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_is_told_of_in_batches_is_one() {
        let mut reads = Reads::default();
        let mut told = |thread, inode, pages| reads.part(thread, inode, pages);
        assert_eq!(told(1, 7, 0..32), (0..31, None));
        assert_eq!(told(1, 7, 31..32), (31..32, Some(30)), "the rest of it");
        assert_eq!(told(1, 7, 0..32), (0..31, None), "from its start: again");
        assert_eq!(told(1, 7, 32..1000), (32..63, None), "the next");
        assert_eq!(told(2, 7, 48..1000), (48..79, None), "another thread's");
        assert_eq!(told(1, 7, 160..1000), (63..191, Some(62)), "in larger folios");
        assert_eq!(told(1, 7, 176..1000), (191..207, Some(190)), "in a smaller batch");
        assert_eq!(told(1, 8, 48..1000), (48..79, None), "of another file");
        assert_eq!(told(4, 7, 0..3), (0..3, None));
        assert_eq!(told(4, 7, 2..5), (2..5, Some(2)), "from the middle of a page");
        assert_eq!(told(4, 7, 5..8), (5..8, Some(4)), "where the last one ended");
        assert_eq!(told(4, 7, 5..6), (5..6, Some(7)), "something of it again");
        assert_eq!(told(4, 7, 8..9), (8..9, None));
        assert_eq!(told(3, 7, 9..9), (9..9, None), "behind the end of the file");
    }
}
