//! An origin that counts, waits and fails as it is told.

use super::*;

/// Bytes that say which version of which block they are.
pub struct Origin {
    pub version: AtomicU64,
    pub reads: AtomicU64,
    pub fails: AtomicBool,
    /// No read of this block works.
    pub bad: AtomicU64,
    /// Reads from this block on wait.
    pub held: Mutex<u64>,
    pub released: Condvar,
    pub waiting: AtomicU64,
}

impl Origin {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            version: AtomicU64::new(1),
            reads: AtomicU64::new(0),
            fails: AtomicBool::new(false),
            bad: AtomicU64::new(u64::MAX),
            held: Mutex::new(u64::MAX),
            released: Condvar::new(),
            waiting: AtomicU64::new(0),
        })
    }

    pub fn hold(&self, first: u64) {
        *self.held.lock().unwrap() = first;
    }

    pub fn release(&self) {
        self.hold(u64::MAX);
        self.released.notify_all();
    }

    pub fn wait(&self, first: u64) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let held = self.held.lock().unwrap();
        drop(self.released.wait_while(held, |held| *held <= first).unwrap());
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

pub fn content(version: u64, index: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&version.to_le_bytes());
    bytes[8..].copy_from_slice(&index.to_le_bytes());
    bytes
}

impl Source for Origin {
    fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let first = offset / BLOCK as u64;
        self.wait(first);
        let is_bad = (first..first + buffers.len() as u64).contains(&self.bad.load(Ordering::SeqCst));
        if is_bad || self.fails.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let version = self.version.load(Ordering::SeqCst);
        for (index, buffer) in (first..).zip(buffers.iter_mut()) {
            self.reads.fetch_add(1, Ordering::SeqCst);
            buffer.fill(0);
            buffer[..16].copy_from_slice(&content(version, index));
        }
        Ok(buffers.iter().map(|buffer| buffer.len()).sum())
    }
}
