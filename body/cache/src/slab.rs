//! One piece of memory, cut into buffers of one block each.
//!
//! M1  A buffer is written only by who holds it exclusively: it is in no slot that readers may
//!     take, and its user count was zero when the writer took it.
//! M2  A buffer with users is never handed out again. The count goes up only under the lock of the
//!     frames; it goes down anywhere.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Buffers, by number. Memory is taken from the system as buffers are first written to.
pub(crate) struct Slab {
    memory: NonNull<u8>,
    block_bytes: usize,
    users: Box<[AtomicU32]>,
}

// SAFETY: the memory belongs to the slab for its life, and M1 and M2 say who may touch which part
// of it.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

impl Slab {
    pub(crate) fn new(buffers: usize, block_bytes: usize) -> io::Result<Self> {
        let length = buffers.checked_mul(block_bytes).filter(|&length| length > 0);
        let length = length.ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: asks for fresh memory anywhere; nothing existing is touched.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory =
            NonNull::new(memory.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let users = (0..buffers).map(|_| AtomicU32::new(0)).collect();
        Ok(Self { memory, block_bytes, users })
    }

    pub(crate) fn buffers(&self) -> u32 {
        self.users.len() as u32
    }

    pub(crate) fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Whether nobody reads or fills the buffer. Sees everything that former users did.
    pub(crate) fn is_idle(&self, buffer: u32) -> bool {
        self.users[buffer as usize].load(Ordering::Acquire) == 0
    }

    /// Becomes a user. Only under the lock of the frames (M2).
    pub(crate) fn enter(&self, buffer: u32) {
        self.users[buffer as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Stops being a user.
    pub(crate) fn leave(&self, buffer: u32) {
        let before = self.users[buffer as usize].fetch_sub(1, Ordering::Release);
        assert!(before > 0, "M2: buffer {buffer} had no users");
    }

    /// The bytes of `count` buffers side by side, to read.
    ///
    /// # Safety
    /// The caller is a user of all these buffers, and nobody writes to them for the life of the
    /// slice (M1).
    pub(crate) unsafe fn bytes(&self, buffer: u32, count: u32) -> &[u8] {
        assert!(
            count > 0 && buffer + count <= self.buffers(),
            "M1: there are no {count} buffers at {buffer}"
        );
        // SAFETY: the range lies within the mapping, which lives as long as `self`; the caller
        // keeps writers away.
        unsafe { std::slice::from_raw_parts(self.start(buffer), count as usize * self.block_bytes) }
    }

    /// The bytes of a buffer, to write.
    ///
    /// # Safety
    /// The caller is the only user of the buffer, and it is in no slot that others may take (M1).
    #[allow(clippy::mut_from_ref, reason = "exclusive by M1, not by borrowing")]
    pub(crate) unsafe fn bytes_mut(&self, buffer: u32) -> &mut [u8] {
        // SAFETY: as for `bytes`; the caller keeps everybody else away.
        unsafe { std::slice::from_raw_parts_mut(self.start(buffer), self.block_bytes) }
    }

    fn start(&self, buffer: u32) -> *mut u8 {
        assert!((buffer as usize) < self.users.len(), "M1: there is no buffer {buffer}");
        // SAFETY: the product is below the length of the mapping, checked above.
        unsafe { self.memory.as_ptr().add(buffer as usize * self.block_bytes) }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length, and no slice outlives `self`.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.users.len() * self.block_bytes) };
    }
}
