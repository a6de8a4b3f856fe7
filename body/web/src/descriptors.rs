//! Descriptors of files: all requests for the same version of a file share one, and there are no
//! more than this process may have.
//!
//! ```text
//!   connections --> [ kept for connections ] --none left--+
//!                                                         +--> [ common ] --none left--> wait
//!   files --------> [ kept for files ] -------none left--+
//! ```
//!
//! * E1  Each descriptor that outlives the opening of its file has a seat, and gives it back when
//!   it is closed.
//! * E2  A request that holds a seat does not wait for another: so each seat is given back.
//! * E3  A request for a version that is open elsewhere takes the descriptor that is there.
//!
//! The file is opened for each request all the same: that alone says what lies at its path now. As
//! many are being opened as there are threads for it, so these descriptors need no seat.
//!
//! Why so: docs/decisions/0063-rights-and-descriptors.md.

use foldhash::HashMap;
use pantler_origin::Version;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Descriptors that only files take, so that connections can be answered, and that only
/// connections take; or a quarter of all, if that is less.
const KEPT: usize = 64;
/// Connections and files together have at least this many.
const LEAST: usize = 16;

/// The right to one descriptor.
#[derive(Debug)]
pub struct Seat {
    /// Given back when dropped.
    _permit: OwnedSemaphorePermit,
}

/// A descriptor of a file, shared by all requests for it.
#[derive(Debug)]
pub struct Descriptor {
    owned: OwnedFd,
    /// Where it is shared, and under which version.
    known: Option<(Weak<Descriptors>, Version)>,
    /// Given back after it is closed.
    seat: Option<Seat>,
}

impl From<OwnedFd> for Descriptor {
    /// Not shared, and without a seat.
    fn from(owned: OwnedFd) -> Self {
        Self { owned, known: None, seat: None }
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.owned.as_fd()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        if let Some((descriptors, version)) = self.known.take()
            && let Some(descriptors) = descriptors.upgrade()
        {
            let mut shared = descriptors.shared();
            // Another request may have shared the version anew meanwhile.
            if shared.get(&version).is_some_and(|other| other.strong_count() == 0) {
                shared.remove(&version);
            }
        }
    }
}

/// See the head of this file.
#[derive(Debug)]
pub struct Descriptors {
    common: Arc<Semaphore>,
    for_connections: Arc<Semaphore>,
    for_files: Arc<Semaphore>,
    shared: Mutex<HashMap<Version, Weak<Descriptor>>>,
    /// Requests that wait for a seat, by the version that they found: rung when it is shared.
    wanted: Mutex<HashMap<Version, (Arc<Notify>, usize)>>,
    /// Requests that found no descriptor for their file: they waited, or were refused.
    crowded: Arc<AtomicU64>,
}

impl Descriptors {
    /// With `count` for connections and files together.
    pub fn new(count: usize, crowded: Arc<AtomicU64>) -> Arc<Self> {
        let count = count.clamp(LEAST, Semaphore::MAX_PERMITS);
        let kept = KEPT.min(count / 4);
        let seats = |count| Arc::new(Semaphore::new(count));
        Arc::new(Self {
            common: seats(count - 2 * kept),
            for_connections: seats(kept),
            for_files: seats(kept),
            shared: Mutex::default(),
            wanted: Mutex::default(),
            crowded,
        })
    }

    /// A seat for a connection, when there is one.
    pub async fn connection(&self) -> Seat {
        self.wait(&self.for_connections).await
    }

    /// A seat for a file, if there is one now.
    pub fn file_now(&self) -> Option<Seat> {
        let kept = self.for_files.clone().try_acquire_owned();
        kept.or_else(|_| self.common.clone().try_acquire_owned()).ok().map(|permit| Seat { _permit: permit })
    }

    /// A seat for a file, when there is one. Only for a request that holds none (E2).
    pub async fn file(&self) -> Seat {
        self.wait(&self.for_files).await
    }

    async fn wait(&self, kept: &Arc<Semaphore>) -> Seat {
        let permit = tokio::select! {
            biased;
            permit = kept.clone().acquire_owned() => permit,
            permit = self.common.clone().acquire_owned() => permit,
        };
        Seat { _permit: permit.expect("it is never closed") }
    }

    /// For a request that waits for a seat: rings when this version is shared.
    pub fn want(&self, version: Version) -> Wanted<'_> {
        let mut wanted = self.wanted();
        let (shared, count) = wanted.entry(version).or_default();
        *count += 1;
        Wanted { descriptors: self, version, shared: shared.clone() }
    }

    fn wanted(&self) -> MutexGuard<'_, HashMap<Version, (Arc<Notify>, usize)>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request found no descriptor.
    pub fn crowd(&self) {
        self.crowded.fetch_add(1, Ordering::Relaxed);
    }

    /// Replaces the descriptor of a version that was just opened by the one that is shared, if
    /// there is one.
    pub fn join(&self, version: &Version, own: &mut Arc<Descriptor>) -> bool {
        let known = self.shared().get(version).and_then(Weak::upgrade);
        let has_joined = known.is_some();
        if let Some(known) = known {
            *own = known;
        }
        has_joined
    }

    /// Shares the descriptor that was just opened, unless another one of the version is shared.
    pub fn share(self: &Arc<Self>, version: Version, own: &mut Arc<Descriptor>, seat: Seat) {
        if self.join(&version, own) {
            return;
        }
        let fresh = Arc::get_mut(own).expect("it was just opened, and is not shared");
        (fresh.known, fresh.seat) = (Some((Arc::downgrade(self), version)), Some(seat));
        // Of two at the same moment each keeps its own, and later requests get the second.
        self.shared().insert(version, Arc::downgrade(own));
        if let Some((shared, _)) = self.wanted().get(&version) {
            shared.notify_waiters();
        }
    }

    fn shared(&self) -> MutexGuard<'_, HashMap<Version, Weak<Descriptor>>> {
        // Each change is one call.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of a request that waits for a seat.
#[derive(Debug)]
pub struct Wanted<'a> {
    descriptors: &'a Descriptors,
    version: Version,
    shared: Arc<Notify>,
}

impl Wanted<'_> {
    /// When the version is shared, or at once if it is.
    pub async fn shared(&self) {
        let shared = self.shared.notified();
        let is_shared =
            self.descriptors.shared().get(&self.version).is_some_and(|known| known.strong_count() > 0);
        if !is_shared {
            shared.await;
        }
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        let mut wanted = self.descriptors.wanted();
        if let Some((_, count)) = wanted.get_mut(&self.version) {
            *count -= 1;
            if *count == 0 {
                wanted.remove(&self.version);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opened::Opened;
    use crate::path::Names;
    use crate::root::{Found, Root};
    use std::time::Duration;

    fn descriptors(count: usize) -> (Arc<Descriptors>, Arc<AtomicU64>) {
        let crowded = Arc::<AtomicU64>::default();
        (Descriptors::new(count, crowded.clone()), crowded)
    }

    #[test]
    fn all_who_have_a_version_open_have_one_descriptor_and_the_next_version_another() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::open(folder.path()).unwrap();
        let (descriptors, _) = descriptors(100);
        let free = || {
            let all = [&descriptors.common, &descriptors.for_connections, &descriptors.for_files];
            all.map(|seats| seats.available_permits()).iter().sum::<usize>()
        };
        let open = || {
            let names = Names { joined: b"f".to_vec(), is_directory: false };
            let Ok(Found::File(mut file)) = root.open_waiting(&names, Duration::from_secs(60)) else {
                panic!("no file")
            };
            let seat = descriptors.file_now().unwrap();
            let (version, own) = (file.version, Arc::get_mut(&mut file).unwrap().descriptor_mut());
            descriptors.share(version, own, seat);
            file
        };
        std::fs::write(folder.path().join("f"), "one").unwrap();
        let first: Vec<_> = (0..20).map(|_| open()).collect();
        let number = |file: &Opened| std::os::fd::AsRawFd::as_raw_fd(&file.as_fd());
        assert!(first.iter().all(|file| number(file) == number(&first[0])));
        assert_eq!((free(), descriptors.shared().len()), (99, 1));
        std::fs::write(folder.path().join("new"), "two two").unwrap();
        std::fs::rename(folder.path().join("new"), folder.path().join("f")).unwrap();
        let second = open();
        assert_ne!(number(&second), number(&first[0]));
        let mut bytes = [0; 10];
        assert_eq!(first[7].read_waiting(&mut bytes, 0).unwrap(), 3, "the one that was opened");
        assert_eq!(second.read_waiting(&mut bytes, 0).unwrap(), 7);
        assert_eq!((free(), descriptors.shared().len()), (98, 2));
        drop(first);
        assert_eq!((free(), descriptors.shared().len()), (99, 1));
        drop(second);
        assert_eq!((free(), descriptors.shared().len()), (100, 0));
    }

    #[tokio::test]
    async fn neither_connections_nor_files_take_all() {
        let (descriptors, _) = descriptors(100);
        let mut connections = Vec::new();
        for _ in 0..75 {
            connections.push(descriptors.connection().await);
        }
        let waits = tokio::time::timeout(Duration::from_millis(10), descriptors.connection());
        assert!(waits.await.is_err(), "the last quarter is for files");
        let files: Vec<Seat> = (0..25).map(|_| descriptors.file_now().unwrap()).collect();
        assert!(descriptors.file_now().is_none());
        let waiting = tokio::spawn({
            let descriptors = descriptors.clone();
            async move { descriptors.file().await }
        });
        tokio::task::yield_now().await;
        // Of a connection or of a file: each that is closed makes room.
        drop(connections);
        let seat = tokio::time::timeout(Duration::from_secs(60), waiting).await;
        assert!(seat.is_ok_and(|seat| seat.is_ok()));
        let more: Vec<Seat> = std::iter::from_fn(|| descriptors.file_now()).collect();
        assert_eq!(files.len() + more.len(), 75, "a quarter is for connections");
        descriptors.connection().await;
    }
}
