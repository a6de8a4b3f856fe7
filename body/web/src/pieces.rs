//! The pieces of answers that one connection holds: read for it, and not taken by its socket.
//!
//! P1  While buffers are over their budget, a connection gets a piece only if it holds fewer than
//!     `PIECES_LEAST`. So all of them together hold no more than the budget and `PIECES_LEAST` of
//!     the smallest pieces each, whatever the number of their streams and the size of their
//!     windows.

use bytes::Bytes;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};

/// Pieces that a connection gets whatever others hold. With one alone, a stream that its client
/// lets wait would hold up the others, and the socket would have a rest after each piece.
const PIECES_LEAST: u32 = 4;
/// Tasks that wait on one connection: more than it has streams. Some of them may be of streams that
/// were given up.
const WAITING_MAX: usize = 256;

/// The pieces of a connection, and the tasks that wait for it to hold fewer.
#[derive(Debug, Default)]
pub struct Pieces {
    held: AtomicU32,
    /// At most `WAITING_MAX`.
    waiting: Mutex<Vec<Waker>>,
}

impl Pieces {
    /// Whether it holds few enough to get one more. If not, the task is woken when it may be so.
    pub fn are_few(&self, context: &Context<'_>) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock: a piece that is given back after this finds us waiting.
        if self.held.load(Ordering::SeqCst) < PIECES_LEAST {
            return true;
        }
        let is_known = waiting.iter().any(|waker| waker.will_wake(context.waker()));
        if !is_known && waiting.len() < WAITING_MAX {
            waiting.push(context.waker().clone());
        } else if !is_known {
            // Those that are gone do not come again.
            let all = std::mem::replace(&mut *waiting, vec![context.waker().clone()]);
            drop(waiting);
            all.into_iter().for_each(Waker::wake);
        }
        false
    }

    /// Bytes that count as a piece of the connection until they are dropped.
    pub fn count(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        self.held.fetch_add(1, Ordering::SeqCst);
        Bytes::from_owner(Piece { bytes, pieces: self.clone() })
    }

    fn give_back(&self) {
        if self.held.fetch_sub(1, Ordering::SeqCst) <= PIECES_LEAST {
            let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
            waiting.into_iter().for_each(Waker::wake);
        }
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
        // A woken task finds the place that it makes.
        self.bytes = Bytes::new();
        self.pieces.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;
    use std::task::Wake;

    #[derive(Default)]
    struct Bell(AtomicU32);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn who_holds_many_waits_until_it_holds_few() {
        let pieces = Arc::<Pieces>::default();
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(bell.clone());
        let context = Context::from_waker(&waker);
        let take = || pieces.count(Bytes::from_static(b"piece"));
        let mut held = Vec::new();
        for _ in 0..PIECES_LEAST {
            assert!(pieces.are_few(&context));
            held.push(take());
        }
        held.push(take());
        let slice = held[0].slice(1..3);
        for _ in 0..100 {
            assert!(!pieces.are_few(&context));
        }
        assert_eq!(pieces.waiting.lock().unwrap().len(), 1);
        for _ in 0..1000 {
            let gone = Waker::from(Arc::new(Bell::default()));
            assert!(!pieces.are_few(&Context::from_waker(&gone)));
            assert!(pieces.waiting.lock().unwrap().len() <= WAITING_MAX);
        }
        assert!(!pieces.are_few(&context));
        held.pop();
        assert!(!pieces.are_few(&context));
        held.remove(0);
        assert!(!pieces.are_few(&context), "a part of it is still there");
        let before = bell.0.load(Ordering::SeqCst);
        drop(slice);
        assert_eq!(bell.0.load(Ordering::SeqCst), before + 1);
        assert!(pieces.are_few(&context));
        drop(held);
        assert_eq!(pieces.held.load(Ordering::SeqCst), 0);
    }
}
