//! Objects and directories of a store, as files.
//!
//! A node is one *version*: an object that is replaced is another file with another inode number,
//! as if the new one had been renamed over the old one. A program that has the old one open reads
//! what is cached of it, and `ESTALE` for the rest; never a mixture. So nothing has to be asked
//! about a node once it was found.

use rustix::fs::{StatVfs, StatVfsMountFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io::{self, IoSliceMut};
use std::sync::Arc;

use super::Store;
use super::object::{Found, Object};
use crate::attributes::{Attributes, Kind};
use crate::source::{READ_BUFFERS_MAX, Source};
use crate::{Entry, OpenMode};

/// An object or a directory.
#[derive(Debug, Clone)]
pub struct StoreNode {
    store: Arc<Store>,
    path: String,
    found: Found,
}

impl StoreNode {
    pub(super) fn new(store: Arc<Store>, path: String, found: Found) -> Self {
        Self { store, path, found }
    }

    /// Where it is, below the origin.
    pub fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn attributes(&self) -> Attributes {
        self.store.attributes(&self.path, &self.found)
    }

    pub(crate) fn lookup(&self, child: &OsStr) -> io::Result<StoreNode> {
        let path = self.child(child)?;
        let found = self.store.find(&path)?;
        Ok(Self { store: Arc::clone(&self.store), path, found })
    }

    pub(crate) fn open(&self, mode: OpenMode) -> io::Result<StoreFile> {
        if mode.writes() || mode.truncates() {
            return Err(Errno::ROFS.into());
        }
        match &self.found {
            Found::Directory => Err(Errno::ISDIR.into()),
            Found::Object(object) => Ok(StoreFile {
                store: Arc::clone(&self.store),
                path: self.path.clone(),
                object: object.clone(),
            }),
        }
    }

    pub(crate) fn entries(&self) -> io::Result<StoreEntries> {
        if self.found != Found::Directory {
            return Err(Errno::NOTDIR.into());
        }
        let own = [".", ".."].map(|name| (name.to_owned(), Found::Directory));
        let children = self.store.list(&self.path)?;
        let entry = |(index, (child, found)): (usize, (String, Found))| Entry {
            inode: self.store.attributes(&join(&self.path, &child), &found).inode,
            kind: Some(match found {
                Found::Directory => Kind::Directory,
                Found::Object(_) => Kind::Regular,
            }),
            name: child.into(),
            next: index as u64 + 1,
        };
        let all = own.into_iter().chain(children);
        Ok(StoreEntries { entries: all.enumerate().map(entry).collect() })
    }

    pub(crate) fn file_system(&self) -> StatVfs {
        StatVfs {
            f_bsize: 4096,
            f_frsize: 4096,
            f_blocks: 0,
            f_bfree: 0,
            f_bavail: 0,
            f_files: 0,
            f_ffree: 0,
            f_favail: 0,
            f_fsid: 0,
            f_flag: StatVfsMountFlags::RDONLY,
            f_namemax: super::NAME_BYTES_MAX as u64,
        }
    }

    fn child(&self, child: &OsStr) -> io::Result<String> {
        let child = child.to_str().ok_or(Errno::NOENT)?;
        if !super::is_name(child) {
            return Err(
                if child.len() > super::NAME_BYTES_MAX { Errno::NAMETOOLONG } else { Errno::INVAL }.into()
            );
        }
        Ok(join(&self.path, child))
    }
}

pub(super) fn join(path: &str, child: &str) -> String {
    if path.is_empty() { child.to_owned() } else { format!("{path}/{child}") }
}

/// An object open for reading.
#[derive(Debug)]
pub struct StoreFile {
    store: Arc<Store>,
    path: String,
    object: Object,
}

impl StoreFile {
    pub(crate) fn attributes(&self) -> Attributes {
        self.store.version_attributes(&self.path, &self.object)
    }
}

impl Source for StoreFile {
    fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if buffers.len() > READ_BUFFERS_MAX {
            return Err(Errno::INVAL.into());
        }
        self.store.read(&self.path, &self.object, offset, buffers)
    }
}

/// The entries of a directory as they were when it was opened.
#[derive(Debug)]
pub struct StoreEntries {
    entries: Vec<Entry>,
}

/// Entries that are given at once.
const ENTRIES_AT_ONCE: usize = 1024;

impl StoreEntries {
    pub(crate) fn read(&self, from: u64) -> Vec<Entry> {
        let rest = usize::try_from(from).ok().and_then(|from| self.entries.get(from..)).unwrap_or(&[]);
        rest[..rest.len().min(ENTRIES_AT_ONCE)].to_vec()
    }
}

/// Device and inode numbers: 127 bits of a hash, so that no two versions have the same ones.
pub(super) fn split(hash: [u8; 16]) -> (u64, u64) {
    let (device, inode) = hash.split_at(8);
    let number = |bytes: &[u8]| bytes.iter().fold(0, |number: u64, &byte| number << 8 | u64::from(byte));
    // 1 is the root's for the kernel, and half of the numbers are kept for others.
    (number(device), (number(inode) >> 1).max(2))
}
