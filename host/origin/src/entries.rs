//! The entries of a directory of an origin.

use std::ffi::OsString;
use std::io;

use crate::attributes::Kind;
use crate::{LocalEntries, StoreEntries};

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: OsString,
    /// Inode number.
    pub inode: u64,
    /// Type, where the file system tells it here.
    pub kind: Option<Kind>,
    /// Where the entry after this one begins; the file system's own cookie.
    pub next: u64,
}

/// A directory of an origin, open for listing.
#[derive(Debug)]
pub enum Entries {
    /// Of a directory.
    Local(LocalEntries),
    /// Of an object store.
    Stored(StoreEntries),
}

impl Entries {
    /// Some entries from the point `from` on: 0 is the start, else the `next` of an entry. Nothing
    /// at the end.
    pub fn read(&mut self, from: u64) -> io::Result<Vec<Entry>> {
        match self {
            Self::Local(entries) => entries.read(from),
            Self::Stored(entries) => Ok(entries.read(from)),
        }
    }

    /// Makes the names safe against power failure.
    pub fn sync(&self) -> io::Result<()> {
        match self {
            Self::Local(entries) => entries.sync(),
            Self::Stored(_) => Ok(()),
        }
    }
}
