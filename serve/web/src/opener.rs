//! Opening what the disk may have to be read for: by threads that may wait, a bounded number of
//! them, in order of arrival.
//!
//! O1  At most as many openers as there are seats are busy, with those that no request waits for
//!     any more: a file system that hangs costs threads once, and no more of them with each
//!     request.

use prometheus_client::metrics::counter::Counter;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::descriptors::Descriptors;
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
    /// Requests that found no free descriptor: they waited, or were refused.
    crowded: Counter,
}

impl Opener {
    /// With `seats` seats. A request that has waited for `patience`, in line, for the disk or for a
    /// descriptor, is refused.
    pub fn new(
        root: Arc<Root>,
        seats: usize,
        patience: Duration,
        descriptors: Arc<Descriptors>,
        crowded: Counter,
    ) -> Self {
        Self { root, seats: Arc::new(Semaphore::new(seats.max(1))), descriptors, patience, crowded }
    }

    /// Opens a path, at once if that can be. For a request that has no other file open (E2): it
    /// waits for a descriptor if all are taken.
    ///
    /// # Errors
    /// The system's, and `TimedOut`.
    pub async fn open(&self, names: &Names, asker: Asker<'_>) -> io::Result<Found> {
        let seat = match self.descriptors.file_now() {
            Some(seat) => seat,
            None => {
                self.crowded.inc();
                let _waits = asker.pulse.waits();
                let waited = timeout_at(asker.since + self.patience, self.descriptors.file()).await;
                waited.map_err(|_| io::ErrorKind::TimedOut)?
            }
        };
        let mut found = match self.root.open_now(names)? {
            Some(found) => found,
            None => {
                // The names are not in memory: a thread that may wait looks for them.
                let (root, names) = (self.root.clone(), names.clone());
                let patience = self.patience.saturating_sub(asker.since.elapsed());
                self.run(asker, move || root.open_waiting(&names, patience)).await?
            }
        };
        // A directory was looked at and closed, and needs no seat.
        if let Found::File(file) = &mut found {
            file.sit(seat);
        }
        Ok(found)
    }

    /// Does what may wait for the disk.
    async fn run<T: Send + 'static>(
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;

    fn opener(seats: usize, patience: Duration) -> (tempfile::TempDir, Arc<Opener>) {
        let folder = tempfile::tempdir().unwrap();
        let root = Arc::new(Root::open(folder.path()).unwrap());
        let descriptors = Arc::new(Descriptors::new(1000));
        (folder, Arc::new(Opener::new(root, seats, patience, descriptors, Counter::default())))
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
    async fn without_a_descriptor_a_request_waits_for_one() {
        let (folder, opener) = opener(1, Duration::from_secs(60));
        std::fs::write(folder.path().join("f"), "text").unwrap();
        let mut seats: Vec<_> = std::iter::from_fn(|| opener.descriptors.file_now()).collect();
        let ask = || {
            let opener = opener.clone();
            async move {
                let pulse = Pulse::new();
                let names = Names { joined: b"f".to_vec(), is_directory: false };
                let asker = Asker { pulse: &pulse, since: Instant::now() };
                opener.open(&names, asker).await
            }
        };
        let waiting: Vec<_> = (0..50).map(|_| tokio::spawn(ask())).collect();
        tokio::task::yield_now().await;
        // One seat for all of them, one after the other.
        seats.pop();
        for one in waiting {
            assert!(matches!(one.await.unwrap().unwrap(), Found::File(_)));
        }
        assert_eq!(opener.crowded.get(), 50);
        assert!(opener.descriptors.file_now().is_some(), "each gives it back");
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
        assert!(matches!(opener.open(&names, asker()).await, Ok(Found::Directory)));
        go.send(()).unwrap();
        let seat = tokio::time::timeout(Duration::from_secs(60), opener.seats.acquire()).await;
        assert!(seat.is_ok(), "it is given back when the file system answers");
    }
}
