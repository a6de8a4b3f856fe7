//! Open files and directories.

use std::io;
use std::sync::{Arc, Mutex, RwLock};

use fuser::ReplyData;
use pantler_origin::{Entries, OpenFile, Source};
use pantler_pagecache::ReadThrough;
use pantler_steward::OwnerId;

use crate::content::{Content, Writing};
use crate::descriptors::Charge;

/// An open regular file.
pub(crate) struct Handle {
    /// The inode's number.
    pub(crate) number: u64,
    pub(crate) content: Arc<Content>,
    pub(crate) file: Arc<OpenFile>,
    /// Where its bytes come from: the file, or what stands before it.
    pub(crate) source: Arc<dyn Source>,
    /// Opened with `O_APPEND`.
    pub(crate) append: bool,
    /// How far the last block that was read has been read, for files with blocks that are done with
    /// then.
    pub(crate) done_with: Option<Mutex<ReadThrough>>,
    /// Held while it may write.
    #[expect(dead_code, reason = "its end is what counts")]
    pub(crate) writing: Option<Writing>,
    #[expect(dead_code, reason = "its end is what counts")]
    pub(crate) charge: Charge,
}

/// A read that the kernel waits for.
pub(crate) struct Read {
    pub(crate) owner: OwnerId,
    pub(crate) handle: Arc<Handle>,
    pub(crate) offset: u64,
    pub(crate) length: usize,
    /// For the kernel's own pages, because the file is mapped.
    pub(crate) is_mapped: bool,
    pub(crate) reply: ReplyData,
}

/// An open directory.
pub(crate) struct Listing {
    pub(crate) entries: Mutex<Entries>,
    #[expect(dead_code, reason = "its end is what counts")]
    pub(crate) charge: Charge,
}

/// Things by number. Numbers are used again.
pub(crate) struct Table<T> {
    slots: RwLock<Slots<T>>,
}

struct Slots<T> {
    slots: Vec<Option<Arc<T>>>,
    free: Vec<usize>,
}

impl<T> Table<T> {
    pub(crate) fn new() -> Self {
        Self { slots: RwLock::new(Slots { slots: Vec::new(), free: Vec::new() }) }
    }

    pub(crate) fn insert(&self, thing: T) -> u64 {
        let mut slots = self.slots.write().expect("the table is in order");
        let thing = Some(Arc::new(thing));
        match slots.free.pop() {
            Some(index) => {
                slots.slots[index] = thing;
                index as u64
            }
            None => {
                slots.slots.push(thing);
                slots.slots.len() as u64 - 1
            }
        }
    }

    /// The thing of that number; `EBADF` when there is none.
    pub(crate) fn get(&self, number: u64) -> io::Result<Arc<T>> {
        let slots = self.slots.read().expect("the table is in order");
        let found = slots.slots.get(number as usize).cloned().flatten();
        found.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }

    pub(crate) fn remove(&self, number: u64) -> Option<Arc<T>> {
        let mut slots = self.slots.write().expect("the table is in order");
        let thing = slots.slots.get_mut(number as usize)?.take()?;
        slots.free.push(number as usize);
        Some(thing)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        let slots = self.slots.read().expect("the table is in order");
        slots.slots.len() - slots.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again_but_not_while_in_use() {
        let table = Table::new();
        let (a, b) = (table.insert('a'), table.insert('b'));
        assert_ne!(a, b);
        assert_eq!(table.remove(a).as_deref(), Some(&'a'));
        assert_eq!(table.get(a).unwrap_err().raw_os_error(), Some(libc::EBADF));
        assert_eq!(table.insert('c'), a);
        assert_eq!((*table.get(b).unwrap(), table.len()), ('b', 2));
    }
}
