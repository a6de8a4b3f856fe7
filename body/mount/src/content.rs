//! The content of one file: which version is cached, and whether that is still the one in the
//! origin.
//!
//! V1  Every change of a file through the mount holds the file's lock from before the change until
//!     the cache agrees with it, and notes the version that the change made. So a version that was
//!     not noted is a change behind the mount.
//! V2  When a change behind the mount is noticed, the file gets a new name in the cache, and the
//!     blocks of the old name are forgotten. Readers that still use the old name find nothing
//!     there.
//!     A version is not believed to last while a process may be writing behind the mount: the
//!     kernel stamps a file before the bytes of a write are there. What was read of it until then
//!     is forgotten at the next look.
//! V3  Lower tiers know a version by what makes it, from the look that settled it until something
//!     begins to change the file; one that this mount made, from a look two seconds later. So
//!     nothing of it is given to a tier, or taken from one, under a name that is not its own.
//! V4  Between the looks before and after a change of ours another's may hide. So where others
//!     changed the file of late, nothing is kept in step: each change of ours forgets what is
//!     cached of it.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};
use std::time::{Duration, Instant};

use fuser::{INodeNo, Notifier};
use pantler_cache::Cache;
use pantler_origin::{Attributes, Look, OpenFile, Origin, Time};
use pantler_steward::FileId;

use crate::pages::Pages;
use crate::stems::Stems;

/// For how long after a change behind the mount more of them are expected (V4).
const CONTENDED_MS: u64 = 60_000;

/// What was seen of a file.
#[derive(Default)]
struct State {
    /// The last look; `None` before the first.
    look: Option<Look>,
    /// A change of this mount's made the version.
    is_ours: bool,
    /// Tiers know the version.
    is_shared: bool,
    /// When a change behind the mount was noticed last.
    foreign_ms: Option<u64>,
}

/// What is known of a file's content.
#[derive(Default)]
pub(crate) struct Content {
    /// The current version's name in the cache.
    file: AtomicU64,
    /// Size of the current version.
    size: AtomicU64,
    /// When the last look was taken, in the mount's own milliseconds.
    looked_ms: AtomicU64,
    /// The last look, and the lock that changes hold (V1).
    state: Mutex<State>,
    /// Open files of this mount that may write.
    writers: AtomicU32,
    /// What the kernel holds of it.
    pub(crate) pages: Pages,
    /// The version of which the kernel may have pages that it keeps from one read to the next.
    shown: AtomicU64,
    /// Size and time of modification that the kernel was told last: when others are told it drops
    /// its pages by itself.
    told: Mutex<Option<(u64, Time)>>,
}

impl State {
    /// V4.
    fn is_contended(&self, now_ms: u64) -> bool {
        self.foreign_ms.is_some_and(|then| now_ms.saturating_sub(then) < CONTENDED_MS)
    }
}

/// A file of this mount that is open for writing.
pub(crate) struct Writing(Arc<Content>);

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.writers.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Where contents live: what every look needs, and a supply of names.
pub(crate) struct Shelf {
    pub(crate) origin: Origin,
    pub(crate) cache: Cache,
    /// For telling the kernel, once mounted.
    pub(crate) notifier: OnceLock<Notifier>,
    /// How old a look may be.
    refresh_ms: u64,
    /// How tiers call versions, where there are tiers.
    stems: Option<Stems>,
    next_file: AtomicU64,
    started: Instant,
}

impl Shelf {
    pub(crate) fn new(origin: Origin, cache: Cache, stems: Option<Stems>, refresh: Duration) -> Self {
        Self {
            origin,
            cache,
            notifier: OnceLock::new(),
            refresh_ms: refresh.as_millis() as u64,
            stems,
            next_file: AtomicU64::new(1),
            started: Instant::now(),
        }
    }

    /// Has the kernel forget the attributes of inode `number`, the size above all: it answers
    /// `fstat` and bounds mappings by that.
    pub(crate) fn forget_attributes(&self, number: u64) {
        if let Some(notifier) = self.notifier.get() {
            // Attributes only (a negative offset): asking the kernel to drop pages from here could
            // wait for a reader that waits for us. Should the kernel not listen, it asks again
            // after the refresh interval anyway.
            let _ = notifier.inval_inode(INodeNo(number), -1, 0);
        }
    }

    /// Tells the cache what the version that was looked at is called in lower tiers; nothing, while
    /// that is not certain (V3).
    fn share(&self, file: u64, look: Option<&Look>) {
        if let Some(stems) = &self.stems {
            self.cache.share(FileId(file), look.and_then(|look| stems.of(look)));
        }
    }

    /// A version that is not asked for any more.
    pub(crate) fn unshare(&self, file: FileId) {
        self.share(file.0, None);
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn new_file(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }
}

impl Content {
    pub(crate) fn new(shelf: &Shelf) -> Self {
        let file = shelf.new_file();
        Self { file: AtomicU64::new(file), shown: AtomicU64::new(file), ..Self::default() }
    }

    /// Notes that a file of this mount is open for writing from now on.
    pub(crate) fn writing(self: &Arc<Self>) -> Writing {
        self.writers.fetch_add(1, Ordering::AcqRel);
        Writing(Arc::clone(self))
    }

    /// Whether another process may be writing; `None` where this mount may, too, as the kernel
    /// cannot tell us from others.
    fn has_writers(&self, file: &OpenFile) -> Option<bool> {
        let may_we = file.mode().writes() || self.writers.load(Ordering::Acquire) > 0;
        if may_we { None } else { file.has_writers() }
    }

    /// The current version's name in the cache.
    pub(crate) fn file(&self) -> FileId {
        FileId(self.file.load(Ordering::Acquire))
    }

    /// Size of the current version in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    /// The current version, if the kernel may have pages of one before it.
    pub(crate) fn outdates(&self) -> Option<FileId> {
        let file = self.file();
        (self.shown.load(Ordering::Acquire) != file.0).then_some(file)
    }

    /// The kernel is told these attributes. Says whether they are those that it was told before.
    pub(crate) fn tell(&self, attributes: &Attributes) -> bool {
        let now = Some((attributes.size, attributes.modified));
        std::mem::replace(&mut *self.told.lock().expect("nothing panics under it"), now) == now
    }

    /// Whether a file of this mount is open for writing.
    pub(crate) fn is_written(&self) -> bool {
        self.writers.load(Ordering::Acquire) > 0
    }

    /// The kernel has dropped its pages of versions before this one.
    pub(crate) fn is_shown(&self, version: FileId) {
        self.shown.store(version.0, Ordering::Release);
    }

    /// Looks at the file through a descriptor. If it changed behind the mount, the kernel is told.
    pub(crate) fn look(&self, shelf: &Shelf, number: u64, file: &OpenFile) -> io::Result<Attributes> {
        let before = self.file();
        self.look_through(shelf, (number, before), file, self.lock())
    }

    /// The same for an answer that tells the kernel: what it was asked for before it is told to
    /// forget attributes it does not take.
    pub(crate) fn look_to_tell(&self, shelf: &Shelf, file: &OpenFile) -> io::Result<Attributes> {
        self.look_locked(shelf, &mut self.lock(), || file.attributes(), || self.has_writers(file))
    }

    /// The same with nothing but attributes, which do not tell of writers.
    pub(crate) fn look_from_afar(
        &self,
        shelf: &Shelf,
        stat: impl Fn() -> io::Result<Attributes>,
    ) -> io::Result<Attributes> {
        self.look_locked(shelf, &mut self.lock(), stat, || Some(true))
    }

    /// The same if the last look is older than the refresh interval. While a program writes through
    /// the mount there is no need: writing looks too.
    pub(crate) fn refresh(&self, shelf: &Shelf, number: u64, file: &OpenFile) -> io::Result<()> {
        let age = shelf.now_ms().saturating_sub(self.looked_ms.load(Ordering::Relaxed));
        if age < shelf.refresh_ms {
            return Ok(());
        }
        let before = self.file();
        match self.state.try_lock() {
            Ok(state) => self.look_through(shelf, (number, before), file, state).map(drop),
            Err(TryLockError::WouldBlock) => Ok(()),
            Err(TryLockError::Poisoned(_)) => panic!("V1: a change broke off"),
        }
    }

    fn look_through(
        &self,
        shelf: &Shelf,
        (number, before): (u64, FileId),
        file: &OpenFile,
        mut state: MutexGuard<'_, State>,
    ) -> io::Result<Attributes> {
        let look = self.look_locked(shelf, &mut state, || file.attributes(), || self.has_writers(file));
        drop(state);
        if self.file() != before {
            shelf.forget_attributes(number);
        }
        look
    }

    /// Changes the file through the mount (V1): `change` acts on the origin, `agree` brings the
    /// cache in step, given the result and the sizes before and after.
    pub(crate) fn change<R>(
        &self,
        shelf: &Shelf,
        stat: impl Fn() -> io::Result<Attributes>,
        change: impl FnOnce() -> io::Result<R>,
        agree: impl FnOnce(&io::Result<R>, FileId, u64, u64),
    ) -> io::Result<R> {
        let mut state = self.lock();
        let before = self.look_locked(shelf, &mut state, &stat, || Some(true))?;
        shelf.share(self.file().0, None);
        let result = change();
        let after = stat();
        let size = after.as_ref().map_or(before.size, |after| after.size);
        self.size.store(size, Ordering::Release);
        agree(&result, self.file(), before.size, size);
        state.is_shared = false;
        match after {
            // Nothing was changed after all: the version, and whether it is believed, are as
            // before.
            Ok(after) if after.version() == before.version() => {}
            Ok(after) if !state.is_contended(shelf.now_ms()) => {
                (state.look, state.is_ours) = (Some(shelf.origin.look(&after)), true);
            }
            Ok(after) => {
                // V4.
                self.replace(shelf);
                let look = shelf.origin.look(&after);
                (state.look, state.is_ours) = (Some(Look { settled: false, ..look }), false);
            }
            // Not knowing what there is now, believe nothing.
            Err(_) => self.replace(shelf),
        }
        result
    }

    fn look_locked(
        &self,
        shelf: &Shelf,
        state: &mut State,
        stat: impl Fn() -> io::Result<Attributes>,
        writers: impl FnOnce() -> Option<bool>,
    ) -> io::Result<Attributes> {
        let now_ms = shelf.now_ms();
        let attributes = stat()?;
        let mut look = shelf.origin.look(&attributes);
        let is_same = state.look.is_some_and(|last| last.version == look.version);
        if !is_same {
            if state.look.is_some() {
                state.foreign_ms = Some(now_ms);
            }
            state.is_ours = false;
        }
        // An unsettled version may have changed since without a trace.
        let lasts = is_same && state.look.is_some_and(|last| last.settled);
        if lasts {
            look.settled = true;
        } else {
            // Our write was there when its version was noted (V1).
            let is_ours = state.is_ours;
            let writers = || if is_ours { Some(false) } else { writers() };
            look = look.doubted(writers, || Ok(stat()?.version()))?;
        }
        let is_known = lasts || state.look.is_none();
        state.look = Some(look);
        self.size.store(attributes.size, Ordering::Release);
        if !is_known {
            self.replace(shelf);
            state.is_shared = false;
        }
        if !state.is_shared && look.settled && (!state.is_ours || look.rests()) {
            shelf.share(self.file().0, Some(&look));
            state.is_shared = true;
        }
        self.looked_ms.store(now_ms, Ordering::Relaxed);
        Ok(attributes)
    }

    /// V2.
    fn replace(&self, shelf: &Shelf) {
        let new = shelf.new_file();
        let old = self.file.swap(new, Ordering::AcqRel);
        shelf.share(old, None);
        shelf.cache.supersede(FileId(old), FileId(new));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("V1: no change broke off")
    }
}
