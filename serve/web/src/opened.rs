//! One version of a file, open for reading.

use bytes::Bytes;
use pantler_origin::{Attributes, Look, Version};
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::buffers::{Buffers, CHUNK_BYTES};
use crate::conditions::Validators;
use crate::descriptors::Seat;
use crate::scheduler::Wish;

/// What keeps a file's bytes in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Below {
    /// The kernel's page cache.
    PageCache,
    /// A mount of ours. Its steward says exactly what is there.
    Mount,
}

/// A regular file below the root.
#[derive(Debug)]
pub struct Opened {
    below: Below,
    descriptor: OwnedFd,
    /// Given back after the descriptor is closed.
    seat: Option<Seat>,
    /// What names its content.
    pub version: Version,
    /// Whether every change since it was opened gives another version.
    pub is_settled: bool,
    /// The version, as HTTP says it.
    pub validators: Validators,
    /// How many names it had.
    links: u32,
}

impl Opened {
    pub(crate) fn new(
        descriptor: OwnedFd,
        (look, links): (Look, u32),
        validators: Validators,
        below: Below,
    ) -> Self {
        let (version, is_settled) = (look.version, look.settled);
        Self { below, descriptor, seat: None, version, is_settled, validators, links }
    }

    /// Keeps the right to its descriptor.
    pub(crate) fn sit(&mut self, seat: Seat) {
        self.seat = Some(seat);
    }

    /// What keeps its bytes in memory.
    pub fn below(&self) -> Below {
        self.below
    }

    /// Bytes, when it was opened. It may have been cut since: every read says how much there is.
    pub fn size(&self) -> u64 {
        self.version.size
    }

    /// Whether the bytes that were read so far may be of several versions; `false` for a file that
    /// is not settled. A writer may have set back the time of modification, as `cp -p` does; the
    /// time of change counts unless a name came or went, as when another version takes it.
    pub fn is_mixed(&self) -> io::Result<bool> {
        if !self.is_settled {
            return Ok(false);
        }
        let now = Attributes::of(self.as_fd())?;
        let was_set_back = now.changed != self.version.changed && now.links == self.links;
        Ok(was_set_back || (now.size, now.modified) != (self.version.size, self.version.modified))
    }

    /// Reads what is in the page cache; 0 where the file ends. What is missing the kernel has begun
    /// to read from the disk.
    ///
    /// # Errors
    /// `EAGAIN` where the first byte is not in memory, `EOPNOTSUPP` where the file system cannot
    /// say what is.
    fn read_now(&self, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
        retry_on_intr(|| {
            let mut buffers = [IoSliceMut::new(&mut *into)];
            rustix::io::preadv2(self.as_fd(), &mut buffers, offset, ReadWriteFlags::NOWAIT)
        })
    }

    /// Whether reading without waiting tells what is in memory.
    pub fn can_say(&self) -> bool {
        self.read_now(&mut [0], 0) != Err(Errno::OPNOTSUPP)
    }

    /// Reads from the disk if need be. 0 where the file ends.
    pub fn read_waiting(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(retry_on_intr(|| rustix::io::pread(self.as_fd(), &mut *into, offset))?)
    }

    /// The beginning of a piece, if it is there; empty where the file ends. The kernel gives what
    /// lies before the first missing page. A mount has been asked before: what left it in between
    /// is read again.
    pub fn look(&self, wish: Wish, buffers: &Arc<Buffers>) -> io::Result<Option<Bytes>> {
        let mut buffer = buffers.take((wish.length() as usize).min(buffers.chunk_bytes()));
        let count = match self.below {
            Below::Mount => self.read_waiting(buffer.space(), wish.start)?,
            Below::PageCache => match self.read_now(buffer.space(), wish.start) {
                Err(Errno::AGAIN | Errno::OPNOTSUPP) => return Ok(None),
                read => read?,
            },
        };
        Ok(Some(buffer.freeze(count)))
    }

    /// Reads a piece, waiting for the disk. The result is short where the file ends. With `keep`
    /// the bytes are returned, else they are only brought into the cache.
    pub fn read(&self, wish: Wish, keep: bool, buffers: &Arc<Buffers>) -> io::Result<Vec<Bytes>> {
        let mut chunks = Vec::new();
        let mut at = wish.start;
        while at < wish.end {
            let mut buffer = buffers.take((wish.end - at).min(CHUNK_BYTES as u64) as usize);
            let bytes = self.read_waiting(buffer.space(), at).map(|count| buffer.freeze(count))?;
            if bytes.is_empty() {
                break;
            }
            at += bytes.len() as u64;
            if keep {
                chunks.push(bytes);
            }
        }
        Ok(chunks)
    }

    /// Whether all of a piece is in memory; `None` where that is not told.
    pub fn holds(&self, start: u64, end: u64) -> Option<bool> {
        match self.below {
            Below::PageCache => pantler_kernel::pages::is_cached(self.as_fd(), start, end).ok(),
            Below::Mount => pantler_kernel::held::is_held(self.as_fd(), start, end).ok(),
        }
    }
}

impl AsFd for Opened {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
