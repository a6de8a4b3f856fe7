//! The entries of a directory, from any point on.

use rustix::fs::{RawDir, SeekFrom};
use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;

use crate::Entry;
use crate::attributes::Kind;

/// Bytes of entries that are fetched at once.
const BUFFER_BYTES: usize = 32 << 10;

/// A directory open for listing.
#[derive(Debug)]
pub struct LocalEntries {
    fd: OwnedFd,
}

impl LocalEntries {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self { fd }
    }

    /// Some entries from the point `from` on: 0 is the start, else the `next` of an entry. Nothing
    /// at the end.
    pub fn read(&mut self, from: u64) -> io::Result<Vec<Entry>> {
        rustix::fs::seek(&self.fd, SeekFrom::Start(from))?;
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut raw = RawDir::new(&self.fd, &mut buffer);
        let mut entries = Vec::new();
        while let Some(entry) = raw.next() {
            let entry = entry?;
            entries.push(Entry {
                name: OsString::from_vec(entry.file_name().to_bytes().to_vec()),
                inode: entry.ino(),
                kind: Kind::from_mode(entry.file_type().as_raw_mode()),
                next: entry.next_entry_cookie(),
            });
            if raw.is_buffer_empty() {
                break;
            }
        }
        Ok(entries)
    }

    /// Makes the names safe against power failure.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.fd)?)
    }
}
