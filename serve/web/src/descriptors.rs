//! Descriptors of connections and files: no more than this process may have.
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
//!
//! Why so: docs/decisions/0063-rights-and-descriptors.md.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Descriptors that only files take, so that connections can be answered, and that only
/// connections take; or a quarter of all, if that is less.
const KEPT: usize = 64;
/// Connections and files together have at least this many.
const LEAST: usize = 16;

/// The right to one descriptor, given back when dropped.
pub type Seat = OwnedSemaphorePermit;

/// See the head of this file.
#[derive(Debug)]
pub struct Descriptors {
    common: Arc<Semaphore>,
    for_connections: Arc<Semaphore>,
    for_files: Arc<Semaphore>,
}

impl Descriptors {
    /// With `count` for connections and files together.
    pub fn new(count: usize) -> Self {
        let count = count.clamp(LEAST, Semaphore::MAX_PERMITS);
        let kept = KEPT.min(count / 4);
        let seats = |count| Arc::new(Semaphore::new(count));
        Self { common: seats(count - 2 * kept), for_connections: seats(kept), for_files: seats(kept) }
    }

    /// A seat for a connection, when there is one.
    pub async fn connection(&self) -> Seat {
        self.wait(&self.for_connections).await
    }

    /// A seat for a file, if there is one now.
    pub fn file_now(&self) -> Option<Seat> {
        let kept = self.for_files.clone().try_acquire_owned();
        kept.or_else(|_| self.common.clone().try_acquire_owned()).ok()
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
        permit.expect("it is never closed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn neither_connections_nor_files_take_all() {
        let descriptors = Arc::new(Descriptors::new(100));
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
        drop(descriptors.connection().await);
    }
}
