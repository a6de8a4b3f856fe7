//! The pieces of answers that one connection holds: read for it, and not taken by its socket.
//!
//! P1  While buffers are over their budget, a connection gets a piece only if it holds fewer than
//!     `PIECES_LEAST`. So all of them together hold no more than the budget and `PIECES_LEAST` of
//!     the smallest pieces each, whatever the number of their streams and the size of their
//!     windows.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// Pieces that a connection gets whatever others hold. With one alone, a stream that its client
/// lets wait would hold up the others, and the socket would have a rest after each piece.
const PIECES_LEAST: u32 = 4;

/// The pieces of a connection, and the streams that wait for it to hold fewer.
#[derive(Debug, Default)]
pub struct Pieces {
    held: AtomicU32,
    fewer: Arc<Notify>,
}

impl Pieces {
    /// Nothing if it holds few enough to get one more, else what ends when it may be so.
    pub fn too_many(&self) -> Option<OwnedNotified> {
        // Made before the look: a piece that is given back after it finds us waiting.
        let fewer = self.fewer.clone().notified_owned();
        (self.held.load(Ordering::SeqCst) >= PIECES_LEAST).then_some(fewer)
    }

    /// Bytes that count as a piece of the connection until they are dropped.
    pub fn count(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        self.held.fetch_add(1, Ordering::SeqCst);
        Bytes::from_owner(Piece { bytes, pieces: self.clone() })
    }
}

/// One of them.
struct Piece {
    bytes: Bytes,
    pieces: Arc<Pieces>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        // A stream that is notified finds the place that it makes.
        self.bytes = Bytes::new();
        if self.pieces.held.fetch_sub(1, Ordering::SeqCst) <= PIECES_LEAST {
            self.pieces.fewer.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn a_connection_with_many_pieces_waits_until_it_has_few() {
        let pieces = Arc::<Pieces>::default();
        let take = || pieces.count(Bytes::from_static(b"piece"));
        let mut held = Vec::new();
        for _ in 0..PIECES_LEAST {
            assert!(pieces.too_many().is_none());
            held.push(take());
        }
        held.push(take());
        let slice = held[0].slice(1..3);
        assert!(pieces.too_many().is_some());
        held.pop();
        let mut fewer = Box::pin(pieces.too_many().expect("as many as it may have"));
        held.remove(0);
        let waits = tokio::time::timeout(Duration::from_millis(10), fewer.as_mut());
        assert!(waits.await.is_err(), "a part of it is still there");
        drop(slice);
        let told = tokio::time::timeout(Duration::from_secs(60), fewer).await;
        assert!(told.is_ok() && pieces.too_many().is_none());
        drop(held);
        assert_eq!(pieces.held.load(Ordering::SeqCst), 0);
    }
}
