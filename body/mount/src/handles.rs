//! Open files and directories.

use std::io;
use std::sync::{Arc, Mutex, RwLock};

use fuser::ReplyData;
use pantler_origin::{Entries, OpenFile, Source};
use pantler_pagecache::ReadThrough;
use pantler_steward::OwnerId;
use slab::Slab;

use crate::content::{Content, Writing};
use crate::descriptors::Charge;
use crate::inodes::{HeldNode, Inode};

/// What becomes of blocks that were read to their end.
pub(crate) struct DoneWith {
    /// Which priority they get.
    pub(crate) priority: i32,
    /// How far the last block that was read has been read.
    pub(crate) progress: Mutex<ReadThrough>,
}

/// An open regular file.
pub(crate) struct OpenedFile {
    /// The inode's number.
    pub(crate) number: u64,
    pub(crate) content: Arc<Content>,
    pub(crate) file: Arc<OpenFile>,
    /// Where its bytes come from: the file, or what stands before it.
    pub(crate) source: Arc<dyn Source>,
    /// Opened with `O_APPEND`.
    pub(crate) append: bool,
    /// For files with blocks that are done with once they are read.
    pub(crate) done_with: Option<DoneWith>,
    /// Held while it may write.
    #[expect(dead_code, reason = "its end is what counts")]
    pub(crate) writing: Option<Writing>,
    #[expect(dead_code, reason = "its end is what counts")]
    pub(crate) charges: (Charge, Option<Arc<HeldNode>>),
}

/// A read that the kernel waits for.
pub(crate) struct Read {
    pub(crate) owner: OwnerId,
    pub(crate) handle: Arc<OpenedFile>,
    pub(crate) offset: u64,
    pub(crate) length: usize,
    /// For pages of the kernel: because the file is mapped, or because these are lent.
    pub(crate) is_for_pages: bool,
    pub(crate) reply: ReplyData,
}

/// An open directory.
pub(crate) struct Listing {
    pub(crate) directory: Arc<Inode>,
    /// None without a descriptor: then each look opens the directory anew.
    pub(crate) entries: Option<Mutex<Entries>>,
    #[expect(dead_code, reason = "its end is what counts")]
    pub(crate) charge: Option<Charge>,
}

impl Listing {
    pub(crate) fn look<R>(&self, look: impl FnOnce(&mut Entries) -> io::Result<R>) -> io::Result<R> {
        match &self.entries {
            Some(entries) => look(&mut entries.lock().expect("listing does not panic")),
            None => look(&mut self.directory.node()?.entries()?),
        }
    }
}

/// Things by number. Numbers are used again.
pub(crate) struct Table<T>(RwLock<Slab<Arc<T>>>);

impl<T> Table<T> {
    pub(crate) fn new() -> Self {
        Self(RwLock::new(Slab::new()))
    }

    pub(crate) fn insert(&self, thing: T) -> u64 {
        self.0.write().expect("the table is in order").insert(Arc::new(thing)) as u64
    }

    /// The thing of that number; `EBADF` when there is none.
    pub(crate) fn get(&self, number: u64) -> io::Result<Arc<T>> {
        let found = self.0.read().expect("the table is in order").get(number as usize).cloned();
        found.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }

    pub(crate) fn remove(&self, number: u64) -> Option<Arc<T>> {
        self.0.write().expect("the table is in order").try_remove(number as usize)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.read().expect("the table is in order").len()
    }
}
