//! One version of a file, open for reading.

use pantler_origin::Version;
use rustix::io::{Errno, ReadWriteFlags};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};

use crate::conditions::Validators;

/// A regular file below the root.
#[derive(Debug)]
pub struct Opened {
    descriptor: OwnedFd,
    /// What names its content.
    pub version: Version,
    /// The same, as HTTP says it.
    pub validators: Validators,
}

impl Opened {
    pub(crate) fn new(descriptor: OwnedFd, version: Version, validators: Validators) -> Self {
        Self { descriptor, version, validators }
    }

    /// Bytes, when it was opened. It may have been cut since: every read says how much there is.
    pub fn size(&self) -> u64 {
        self.version.size
    }

    /// Reads what the page cache holds. `None` if that is nothing: then the kernel has begun to read it from the disk.
    /// `Some(0)` where the file ends.
    ///
    /// # Errors
    /// The system's.
    pub fn read_now(&self, into: &mut [u8], offset: u64) -> io::Result<Option<usize>> {
        loop {
            let mut buffers = [IoSliceMut::new(into)];
            match rustix::io::preadv2(&self.descriptor, &mut buffers, offset, ReadWriteFlags::NOWAIT) {
                Ok(count) => return Ok(Some(count)),
                // A file system that cannot say what it holds is asked by threads that may wait.
                Err(Errno::AGAIN | Errno::OPNOTSUPP) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Reads from the disk if need be. 0 where the file ends.
    ///
    /// # Errors
    /// The system's.
    pub fn read_waiting(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match rustix::io::pread(&self.descriptor, &mut *into, offset) {
                Err(Errno::INTR) => {}
                result => return Ok(result?),
            }
        }
    }

    /// Whether the page cache holds all of a piece; `None` where the kernel does not tell us.
    pub fn is_cached(&self, start: u64, end: u64) -> Option<bool> {
        pantler_origin::is_cached(self.descriptor.as_fd(), start, end.min(self.size())).ok()
    }
}

impl pantler_origin::Source for Opened {
    fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut done = 0;
        for buffer in buffers {
            let mut filled = 0;
            while filled < buffer.len() {
                match self.read_waiting(&mut buffer[filled..], offset + done as u64)? {
                    0 => return Ok(done),
                    count => (filled, done) = (filled + count, done + count),
                }
            }
        }
        Ok(done)
    }
}
