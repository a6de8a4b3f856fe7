//! Opening what the disk may have to be read for: by threads that may wait, a bounded number of
//! them, in order of arrival.
//!
//! O1  At most as many openers as there are seats are busy, with those that no request waits for
//!     any more: a file system that hangs costs threads once, and no more of them with each
//!     request.

use rustix::io::Errno;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::descriptors::Descriptors;
use crate::opened::Opened;
use crate::path::Names;
use crate::pulse::Pulse;
use crate::root::{Found, Root};

/// The request for which something is opened.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// Of its connection, which is not to be cut while it waits for us.
    pub pulse: &'a Pulse,
    /// When it came: all that is opened for it is waited for no longer than the patience in all.
    pub since: Instant,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Opener {
    root: Arc<Root>,
    /// Requests wait for one in line: the semaphore is fair.
    seats: Arc<Semaphore>,
    descriptors: Arc<Descriptors>,
    patience: Duration,
}

impl Opener {
    /// With `seats` seats. A request that has waited for `patience`, in line, for the disk or for a
    /// descriptor, is refused.
    pub fn new(root: Arc<Root>, seats: usize, patience: Duration, descriptors: Arc<Descriptors>) -> Self {
        Self { root, seats: Arc::new(Semaphore::new(seats.max(1))), descriptors, patience }
    }

    /// Opens a path, at once if that can be. For a request that has no other file open: it waits
    /// for a descriptor if all are taken and this file is not open elsewhere.
    ///
    /// # Errors
    /// The system's, and `TimedOut`.
    pub async fn open(&self, names: &Names, asker: Asker<'_>) -> io::Result<Found> {
        let mut is_told = false;
        loop {
            let (mut found, is_kept) = self.open_now(names, asker).await?;
            let Some(opened) = file(&mut found).filter(|_| !is_kept) else { return Ok(found) };
            let wanted = self.descriptors.want(opened.version);
            drop(found);
            if !std::mem::replace(&mut is_told, true) {
                self.descriptors.crowd();
            }
            let seat_or_shared = async {
                tokio::select! {
                    seat = self.descriptors.file() => Some(seat),
                    () = wanted.shared() => None,
                }
            };
            let waited = {
                let _waits = asker.pulse.waits();
                timeout_at(asker.since + self.patience, seat_or_shared).await
            };
            let Some(seat) = waited.map_err(|_| io::ErrorKind::TimedOut)? else { continue };
            // It may be another one by now.
            let mut found = self.find(names, asker).await?;
            if let Some(file) = file(&mut found) {
                self.descriptors.share(file.version, file.descriptor_mut(), seat);
            }
            return Ok(found);
        }
    }

    /// The same for a request that has another file open: it goes without this one where
    /// descriptors are short (E2).
    ///
    /// # Errors
    /// The system's, and `TimedOut`.
    pub async fn open_beside(&self, names: &Names, asker: Asker<'_>) -> io::Result<Found> {
        let (found, is_kept) = self.open_now(names, asker).await?;
        if is_kept { Ok(found) } else { Err(io::ErrorKind::TimedOut.into()) }
    }

    /// What lies at a path, and whether it may be kept.
    async fn open_now(&self, names: &Names, asker: Asker<'_>) -> io::Result<(Found, bool)> {
        let mut found = self.find(names, asker).await?;
        // A directory is looked at and closed.
        let Some(file) = file(&mut found) else { return Ok((found, true)) };
        let version = file.version;
        if self.descriptors.join(&version, file.descriptor_mut()) {
            return Ok((found, true));
        }
        let seat = self.descriptors.file_now();
        let is_kept = seat.is_some();
        if let Some(seat) = seat {
            self.descriptors.share(file.version, file.descriptor_mut(), seat);
        }
        Ok((found, is_kept))
    }

    async fn find(&self, names: &Names, asker: Asker<'_>) -> io::Result<Found> {
        let found = self.find_waiting(names, asker).await;
        found.inspect_err(|error| {
            let errno = error.raw_os_error().map(Errno::from_raw_os_error);
            if matches!(errno, Some(Errno::MFILE | Errno::NFILE)) {
                // Another part of this process, or another program, has them.
                self.descriptors.crowd();
            }
        })
    }

    async fn find_waiting(&self, names: &Names, asker: Asker<'_>) -> io::Result<Found> {
        if let Some(found) = self.root.open_now(names)? {
            return Ok(found);
        }
        // The names are not in memory: a thread that may wait looks for them.
        let (root, names, patience) = (self.root.clone(), names.clone(), self.patience);
        let patience = patience.saturating_sub(asker.since.elapsed());
        self.run(asker, move || root.open_waiting(&names, patience)).await
    }

    /// Does something else that may wait for names.
    ///
    /// # Errors
    /// Its own, and `TimedOut`.
    pub async fn run<T: Send + 'static>(
        &self,
        asker: Asker<'_>,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let working = async {
            let seat = self.seats.clone().acquire_owned().await.map_err(io::Error::other)?;
            let working = tokio::task::spawn_blocking(move || {
                // Kept until it has ended, even if its request has given up (O1).
                let _seat = seat;
                work()
            });
            working.await.map_err(io::Error::other)?
        };
        let _waits = asker.pulse.waits();
        match timeout_at(asker.since + self.patience, working).await {
            Ok(result) => result,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// A file that is not shared yet.
fn file(found: &mut Found) -> Option<&mut Opened> {
    match found {
        Found::File(file) => Arc::get_mut(file),
        Found::Directory(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    fn opener(seats: usize, patience: Duration) -> (tempfile::TempDir, Arc<Opener>) {
        let folder = tempfile::tempdir().unwrap();
        let root = Arc::new(Root::open(folder.path()).unwrap());
        let descriptors = Descriptors::new(1000, Arc::default());
        (folder, Arc::new(Opener::new(root, seats, patience, descriptors)))
    }

    #[tokio::test]
    async fn no_more_than_the_seats_work_and_the_rest_wait_in_order() {
        let (_folder, opener) = opener(2, Duration::from_secs(60));
        let (busy, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (order, ended) = channel();
        let (go, gate) = channel::<()>();
        let gate = Arc::new(std::sync::Mutex::new(gate));
        let mut tasks = Vec::new();
        for number in 0..20 {
            let (busy, most, order, gate) = (busy.clone(), most.clone(), order.clone(), gate.clone());
            let opener = opener.clone();
            tasks.push(tokio::spawn(async move {
                let work = move || {
                    most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    // The first two are held up until all others are in line.
                    if number < 2 {
                        let _ = gate.lock().unwrap().recv();
                    }
                    order.send(number).unwrap();
                    busy.fetch_sub(1, Ordering::SeqCst);
                    Ok(())
                };
                let pulse = Pulse::new();
                opener.run(Asker { pulse: &pulse, since: Instant::now() }, work).await
            }));
            // One runtime, one thread: it runs until it has asked for its seat.
            tokio::task::yield_now().await;
        }
        assert!(ended.try_recv().is_err(), "only openers that hang have a seat");
        // One of the two goes on, so that one seat serves all that wait, one after the other.
        go.send(()).unwrap();
        for task in tasks.drain(2..) {
            task.await.unwrap().unwrap();
        }
        drop(go);
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        let ended: Vec<i32> = ended.try_iter().filter(|number| *number >= 2).collect();
        assert_eq!(ended, (2..20).collect::<Vec<_>>());
        assert_eq!(most.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn who_waits_for_a_descriptor_takes_the_one_that_somebody_else_got() {
        let (folder, opener) = opener(1, Duration::from_secs(60));
        std::fs::write(folder.path().join("f"), "text").unwrap();
        let mut seats: Vec<_> = std::iter::from_fn(|| opener.descriptors.file_now()).collect();
        let ask = || {
            let opener = opener.clone();
            async move {
                let pulse = Pulse::new();
                let names = Names { joined: b"f".to_vec(), is_directory: false };
                opener.open(&names, Asker { pulse: &pulse, since: Instant::now() }).await
            }
        };
        let waiting: Vec<_> = (0..50).map(|_| tokio::spawn(ask())).collect();
        tokio::task::yield_now().await;
        // One seat for all of them, and each keeps what it gets.
        seats.pop();
        let mut found = Vec::new();
        for one in waiting {
            found.push(one.await.unwrap().unwrap());
        }
        assert_eq!(found.len(), 50);
        drop(found);
        assert!(opener.descriptors.file_now().is_some(), "and give it back");
    }

    #[tokio::test]
    async fn who_waits_too_long_is_refused_and_a_seat_that_hangs_stays_taken() {
        let (folder, opener) = opener(1, Duration::from_millis(50));
        std::fs::write(folder.path().join("f"), "text").unwrap();
        let (go, gate) = channel::<()>();
        let pulse = Pulse::new();
        let asker = || Asker { pulse: &pulse, since: Instant::now() };
        let hung = opener.run(asker(), move || gate.recv().map_err(io::Error::other)).await;
        assert_eq!(hung.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let (root, names) = (opener.root.clone(), Names { joined: b"f".to_vec(), is_directory: false });
        let queued = opener.run(asker(), move || root.open_waiting(&names, Duration::from_secs(9))).await;
        assert_eq!(queued.unwrap_err().kind(), io::ErrorKind::TimedOut, "it waited in line");
        assert_eq!(opener.seats.available_permits(), 0);
        // What is in memory needs no seat.
        let names = Names { joined: Vec::new(), is_directory: true };
        assert!(matches!(opener.open(&names, asker()).await, Ok(Found::Directory(_))));
        go.send(()).unwrap();
        let seat = tokio::time::timeout(Duration::from_secs(60), opener.seats.acquire()).await;
        assert!(seat.is_ok(), "it is given back when the file system answers");
    }
}
