//! Memory for bytes on their way from a file to a socket: counted, bounded where it matters, and
//! used again.
//!
//! B1  `outstanding` is the sum of the sizes of all buffers that are out.

use bytes::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Largest buffer.
pub const CHUNK_BYTES: usize = 256 << 10;
/// Sizes of buffers. They are kept for later: clearing a new one costs as much as reading into it,
/// and buffers of all sizes, made by one thread and dropped by another, would leave holes in every
/// thread's heap.
const SIZES: [usize; 4] = [4 << 10, 16 << 10, 64 << 10, CHUNK_BYTES];
/// Buffers of each size kept for later: three megabytes and a half.
const IDLE_MAX: [usize; SIZES.len()] = [64, 32, 12, 10];
/// Smallest piece of a file that is read at a time when memory is short.
const CHUNK_BYTES_MIN: usize = 16 << 10;

/// All buffers of a server.
#[derive(Debug)]
pub struct Buffers {
    budget: u64,
    outstanding: AtomicU64,
    idle: [Mutex<Vec<Vec<u8>>>; SIZES.len()],
}

impl Buffers {
    /// With a budget in bytes. A single answer gets what it needs beyond it.
    pub fn new(budget: u64) -> Arc<Self> {
        Arc::new(Self { budget, outstanding: AtomicU64::new(0), idle: Default::default() })
    }

    /// Bytes that are out.
    pub fn outstanding(&self) -> u64 {
        self.outstanding.load(Ordering::Relaxed)
    }

    /// Whether `bytes` more are within the budget.
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
        let class = SIZES.iter().position(|size| length <= *size).unwrap_or(SIZES.len() - 1);
        let kept = self.idle[class].lock().expect("no panic while it is held").pop();
        let bytes = kept.unwrap_or_else(|| vec![0; SIZES[class]]);
        self.outstanding.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Buffer { bytes, length, buffers: self.clone() }
    }
}

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
        let class = SIZES.iter().position(|size| self.bytes.len() == *size);
        if let Some(class) = class
            && let Ok(mut idle) = self.buffers.idle[class].lock()
            && idle.len() < IDLE_MAX[class]
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
        assert_eq!((&more[..], buffers.outstanding()), (&b"ell"[..], 4096));
        drop(more);
        assert_eq!(buffers.outstanding(), 0);
        for length in [CHUNK_BYTES, 20_000, 4097, 4096, 0] {
            drop(buffers.take(length));
        }
        let idle: Vec<usize> = buffers.idle.iter().map(|idle| idle.lock().unwrap().len()).collect();
        assert_eq!(idle, [1; SIZES.len()]);
        let held: Vec<Buffer> = (0..4).map(|_| buffers.take(CHUNK_BYTES)).collect();
        assert!(!buffers.has_room(1));
        assert_eq!(buffers.chunk_bytes(), CHUNK_BYTES_MIN);
        drop(held);
        assert_eq!((buffers.outstanding(), buffers.chunk_bytes()), (0, CHUNK_BYTES));
    }
}
