//! Memory for bytes on their way from a file to a socket: counted, bounded where it matters, and used again.
//!
//! B1  `outstanding` is the sum of the sizes of all buffers that are out.

use bytes::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Largest buffer, and the size of those that are kept for later.
pub const CHUNK_BYTES: usize = 256 << 10;
/// Smallest piece of a file that is read at a time when memory is short.
const CHUNK_BYTES_MIN: usize = 16 << 10;
/// Buffers kept for later.
const IDLE_MAX: usize = 32;

/// All buffers of a server.
#[derive(Debug)]
pub struct Buffers {
    budget: u64,
    outstanding: AtomicU64,
    idle: Mutex<Vec<Vec<u8>>>,
}

impl Buffers {
    /// With a budget in bytes. What a single answer cannot do without is given beyond it.
    pub fn new(budget: u64) -> Arc<Self> {
        Arc::new(Self { budget, outstanding: AtomicU64::new(0), idle: Mutex::default() })
    }

    /// Bytes that are out.
    pub fn outstanding(&self) -> u64 {
        self.outstanding.load(Ordering::Relaxed)
    }

    /// Whether so many more are within the budget.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.outstanding() + bytes <= self.budget
    }

    /// How much of a file to read at a time: less while many slow clients hold buffers.
    pub fn chunk_bytes(&self) -> usize {
        let outstanding = self.outstanding();
        if outstanding < self.budget / 2 {
            CHUNK_BYTES
        } else if outstanding < self.budget {
            CHUNK_BYTES / 4
        } else {
            CHUNK_BYTES_MIN
        }
    }

    /// A buffer of `length` bytes, at most [`CHUNK_BYTES`].
    pub fn take(self: &Arc<Self>, length: usize) -> Buffer {
        assert!(length <= CHUNK_BYTES, "B1: buffers have a largest size");
        let is_large = length > CHUNK_BYTES / 2;
        let kept = if is_large { self.idle.lock().expect("nobody panics holding it").pop() } else { None };
        let size = if is_large { CHUNK_BYTES } else { length };
        let bytes = kept.unwrap_or_else(|| vec![0; size]);
        self.outstanding.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Buffer { bytes, length, buffers: self.clone() }
    }
}

/// One buffer.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    length: usize,
    buffers: Arc<Buffers>,
}

impl Buffer {
    /// Where to write to.
    pub fn space(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }

    /// The first `length` bytes, to be shared.
    pub fn freeze(mut self, length: usize) -> Bytes {
        self.length = length.min(self.length);
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.buffers.outstanding.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
        if self.bytes.len() == CHUNK_BYTES
            && let Ok(mut idle) = self.buffers.idle.lock()
            && idle.len() < IDLE_MAX
        {
            idle.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back() {
        let buffers = Buffers::new(1 << 20);
        let mut one = buffers.take(5);
        one.space().copy_from_slice(b"hello");
        let bytes = one.freeze(4);
        let more = bytes.slice(1..);
        drop(bytes);
        assert_eq!((&more[..], buffers.outstanding()), (&b"ell"[..], 5));
        drop(more);
        assert_eq!(buffers.outstanding(), 0);
        drop(buffers.take(CHUNK_BYTES));
        assert_eq!(buffers.idle.lock().unwrap().len(), 1);
        let held: Vec<Buffer> = (0..4).map(|_| buffers.take(CHUNK_BYTES)).collect();
        assert!(!buffers.has_room(1));
        assert_eq!(buffers.chunk_bytes(), CHUNK_BYTES_MIN);
        drop(held);
        assert_eq!((buffers.outstanding(), buffers.chunk_bytes()), (0, CHUNK_BYTES));
    }
}
