//! What the kernel does with the pages that it keeps for a mount, as its tracepoints tell: which
//! program read them, and which of them left.
//!
//! Programs pay an event for each read of this mount. For reads of other files they pay that the
//! kernel compares the device, so reads are watched only while a file of the mount is open. That
//! pages leave is watched on afterwards if any is lent then.

use std::collections::HashMap;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

use pantler_kernel::{KernelError, clock, mount_table, names, pages, pid_namespace};
use pantler_watch::feed::Feed;
use pantler_watch::instance::{self, Follow, Instance};
use pantler_watch::source::has_tracepoints;
use pantler_watch::{Event, Kind, Source, Told, WatchError, clean_leftovers, trial};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::core::Core;

/// What is watched. Other programs pay for it, too: for the first with each page that leaves, for
/// the others, which are uses of pages, with each use. What enters the page cache asks the mount
/// first, and need not be told.
const KINDS: [Kind; 4] = [Kind::Gone, Kind::Read, Kind::Fault, Kind::Mapped];
/// Buffer for events of each processor, in KiB: 2 ms of reads without a pause are 128.
const BUFFER_KB: std::ops::RangeInclusive<u32> = 128..=1024;
/// Buffers of all processors together, in KiB, where they are that large.
const BUFFERS_KB: u32 = 16 << 10;
/// Between two looks at events that come one after the other. What is dropped is decided when
/// blocks come, and a read that brings one [catches up](Watched::catch_up) first.
const REST: Duration = Duration::from_millis(2);
/// Rounds to catch up with all that happened: more than a full buffer has.
const ROUNDS_MAX: u32 = 64;
/// For how long no file is open before reads are not watched any more.
const IDLE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };
/// Between two looks of reads, for each processor: its buffer is read in a quarter of that.
const LOOK_NS: u64 = 4_000;
/// For how long a reader spins for the events before it sleeps, where there is another processor:
/// a look takes 10 to 30 us, if it is not to catch up with all.
const SPIN_NS: u64 = 30_000;

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
pub(crate) struct Watch(Arc<Watched>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.is_ending.store(true, Ordering::SeqCst);
        self.0.wake();
    }
}

/// Events of the kernel, of which the cache has not heard yet.
pub(crate) struct Watched {
    /// `None`: they are watched no more. The thread that watches takes them away, once it has
    /// closed its buffers: the kernel keeps an instance while one of them is open.
    events: Mutex<Option<Events>>,
    /// Whether all of [`KINDS`] are switched on, or will never be again: then a file that is opened
    /// needs no lock.
    is_all_on: AtomicBool,
    is_ending: AtomicBool,
    /// For how long a reader spins for the events.
    spin_ns: u64,
    /// Wakes the thread that watches.
    bell: PipeWriter,
}

struct Events {
    feed: Feed,
    reads: Reads,
    /// How many of [`KINDS`] are switched on: the first ones.
    on: usize,
    /// Removed last: the kernel keeps an instance while its buffers are open.
    instance: Instance,
}

/// When events are to be taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Whenever the last look was, all that happened before.
    Now,
    /// If the last look was not just now.
    Later,
}

impl Watched {
    /// Takes the events of what happened before this read: the next victim depends on hits of which
    /// the cache has not heard. What programs said is taken with them. `false` where nothing is
    /// watched any more.
    pub(crate) fn catch_up(&self, core: &Core, due: Due) -> bool {
        let mut watched = self.lock_soon();
        let Some(events) = &mut *watched else { return false };
        let lanes = events.feed.descriptors().count() as u64;
        let now_ns = clock::monotonic_ns();
        let is_due = now_ns.saturating_sub(events.feed.taken_until_ns()) > LOOK_NS * lanes;
        if due == Due::Now || is_due || core.rings.lock().have_hints() {
            // A round may stop before the end of a buffer.
            let rounds = if due == Due::Now { ROUNDS_MAX } else { 1 };
            for _ in 0..rounds {
                // The watching thread logs an error.
                if events.round(core).is_err() || events.feed.taken_until_ns() >= now_ns {
                    break;
                }
            }
        }
        true
    }

    /// A file was opened, and is among those that are: from now on its reads are seen.
    pub(crate) fn resume(&self) {
        // Either this sees that a kind is off, or `pause` sees the file.
        fence(Ordering::SeqCst);
        if self.is_all_on.load(Ordering::SeqCst) {
            return;
        }
        let mut watched = self.lock();
        let Some(events) = watched.as_mut().filter(|events| events.on < KINDS.len()) else { return };
        match events.resume() {
            Ok(()) => self.is_all_on.store(true, Ordering::SeqCst),
            Err(error) => self.go_blind(&error),
        }
        self.wake();
    }

    /// Switches off what no program can cause, one kind at a time: the kernel waits for all
    /// processors meanwhile, and a program that opens a file waits for one of them at most.
    fn pause(&self, core: &Core) {
        for _ in KINDS {
            let mut watched = self.lock();
            let Some(events) = &mut *watched else { return };
            self.is_all_on.store(false, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            let paused = events.pause_one(core);
            self.is_all_on.store(events.on == KINDS.len(), Ordering::SeqCst);
            if let Err(error) = paused {
                return self.go_blind(&error);
            }
        }
    }

    /// Ends the watch because of an error. The thread that watches does that, which has buffers of
    /// the instance open.
    fn go_blind(&self, error: &WatchError) {
        if !self.is_ending.swap(true, Ordering::SeqCst) {
            tracing::error!(%error, "the mount's reads are not seen any more: its programs go on by misses alone");
        }
        self.wake();
    }

    /// The watch has ended. Its instance goes without the lock, for the kernel takes its time to
    /// remove one.
    fn end(&self) {
        let events = self.lock().take();
        self.is_all_on.store(true, Ordering::SeqCst);
        drop(events);
    }

    fn wake(&self) {
        // It fails where the thread has ended.
        let _ = (&self.bell).write(&[0]);
    }

    /// As [`lock`](Self::lock), of a reader: most looks at events are shorter than it takes to fall
    /// asleep and to be woken.
    fn lock_soon(&self) -> MutexGuard<'_, Option<Events>> {
        let start = clock::monotonic_ns();
        loop {
            match self.events.try_lock() {
                Ok(events) => return events,
                Err(TryLockError::Poisoned(events)) => return events.into_inner(),
                Err(TryLockError::WouldBlock)
                    if clock::monotonic_ns().saturating_sub(start) < self.spin_ns =>
                {
                    std::hint::spin_loop();
                }
                Err(TryLockError::WouldBlock) => return self.lock(),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Events>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn resume(&mut self) -> Result<(), WatchError> {
        let on = std::mem::replace(&mut self.on, KINDS.len());
        KINDS[on..].iter().try_for_each(|&kind| self.instance.enable(kind, true))
    }

    fn pause_one(&mut self, core: &Core) -> Result<(), WatchError> {
        let is_needed = core.files.len() > 0 || self.on == 1 && core.cache().lent_blocks() > 0;
        if self.on == 0 || is_needed {
            return Ok(());
        }
        self.on -= 1;
        self.instance.enable(KINDS[self.on], false)
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
    let instance = Instance::create(&root, &name, &source, buffer_kb(&root), Follow::Others)?;
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
    let (rung, bell) = io::pipe().map_err(failed("pipe, to wake the thread that watches"))?;
    let events = Events { feed, reads: Reads::default(), on: KINDS.len(), instance };
    let (events, is_ending, is_all_on) = (Mutex::new(Some(events)), false.into(), true.into());
    let has_others = std::thread::available_parallelism().is_ok_and(|count| count.get() > 1);
    let spin_ns = if has_others { SPIN_NS } else { 0 };
    let watched = Arc::new(Watched { events, is_all_on, is_ending, spin_ns, bell });
    let (of, seen) = (Arc::clone(core), Arc::clone(&watched));
    let thread = std::thread::Builder::new().name("pantler-watch".into());
    let thread = thread.spawn(move || {
        watch(&of, &seen, &buffers, &rung);
        drop(buffers);
        seen.end();
    });
    let thread = thread.map_err(failed_to_start)?;
    core.lend(Arc::clone(&watched));
    Ok((Watch(watched), thread))
}

/// Buffer of each processor, so that all together are not large on a large machine.
fn buffer_kb(tracefs: &Path) -> u32 {
    let processors = std::fs::read_dir(tracefs.join("per_cpu")).map_or(1, Iterator::count);
    (BUFFERS_KB / u32::try_from(processors).unwrap_or(u32::MAX).max(1))
        .clamp(*BUFFER_KB.start(), *BUFFER_KB.end())
}

/// The device of a mount, as events write it. The mount itself is not asked: the caller may be its
/// server.
fn device(mountpoint: &Path) -> io::Result<u32> {
    let mounts = mount_table::mounts()?;
    let found = mounts.iter().rfind(|mount| mount.place == mountpoint);
    found.map(|mount| mount.dev).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn watch(core: &Core, watched: &Watched, buffers: &[OwnedFd], mut rung: &PipeReader) {
    clock::sharpen_timers();
    let mut is_idle = false;
    while !watched.is_ending.load(Ordering::SeqCst) {
        if is_idle {
            watched.pause(core);
        }
        let (count, is_behind, on) = {
            let mut events = watched.lock();
            let Some(events) = &mut *events else { return };
            let count = match events.round(core) {
                Ok(count) => count,
                Err(error) => return watched.go_blind(&error),
            };
            if events.feed.take_lost() > 0 {
                // Hits that are not counted, and pages that count as lent until their block leaves.
                tracing::debug!("events of the mount were lost");
            }
            (count, events.feed.is_behind(), events.on)
        };
        // Where more is there already, the next round follows at once.
        if count > 0 && !is_behind {
            std::thread::sleep(REST);
        }
        let wait = match (count > 0 || is_behind, on) {
            (true, _) => Some(Timespec::default()),
            (false, 0 | 1) => None,
            (false, _) => Some(IDLE),
        };
        let mut polled: Vec<PollFd<'_>> = std::iter::once(rung.as_fd())
            .chain(buffers.iter().map(AsFd::as_fd))
            .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
            .collect();
        // An interrupted wait is a short one.
        is_idle = rustix::event::poll(&mut polled, wait.as_ref()) == Ok(0) && wait == Some(IDLE);
        if !polled[0].revents().is_empty() {
            let _ = rung.read(&mut [0; 64]);
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
    fn after_a_panic_and_after_the_end_nothing_waits() {
        let (_rung, bell) = io::pipe().unwrap();
        let watched = Watched {
            events: Mutex::new(None),
            is_all_on: false.into(),
            is_ending: true.into(),
            spin_ns: u64::MAX,
            bell,
        };
        std::thread::scope(|scope| {
            let panics = scope.spawn(|| {
                let _events = watched.lock();
                panic!("under the events, as this test wants");
            });
            assert!(panics.join().is_err());
        });
        assert!(watched.lock_soon().is_none());
        watched.end();
        let _events = watched.lock();
        watched.resume();
    }

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
