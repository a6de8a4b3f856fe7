//! The files that a run reads: from device and inode, which is all that an event tells, to
//! something to act on.
//!
//! A file is found through the descriptors of the process that reads it (`/proc/PID/fd`), never by
//! a path. Descriptors that are kept are read-only, regular files only, and at most
//! [`DESCRIPTORS_MAX`]; beyond that, and for files that were closed long ago, a file handle
//! (`open_by_handle_at`) opens the file again where its file system has handles.
//!
//! D1  Every held descriptor is a regular file whose inode and device are those of its entry.
//! D2  At most `DESCRIPTORS_MAX` descriptors are held.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use foldhash::fast::FixedState;

use crate::sys::{self, BLOCK_BYTES, FileHandle};

pub(crate) mod devices;
mod layers;

pub use devices::Descriptor;
use devices::{Devices, kernel_dev};

/// Descriptors held at once.
pub const DESCRIPTORS_MAX: usize = 256;
/// Entries kept; past it files without cached blocks are forgotten, then new files are not steered.
pub const FILES_MAX: usize = 65_536;
/// Tries to find a descriptor before a file counts as unreachable.
const TRIES_MAX: u8 = 8;
/// A descriptor unused for so long is closed: it keeps deleted files and mounts alive.
const IDLE_NS: u64 = 2_000_000_000;

/// One file, named as events name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey {
    /// Device of the super block, `major << 20 | minor`.
    pub dev: u32,
    /// Inode.
    pub ino: u64,
}

/// What is known about one file.
#[derive(Debug)]
pub struct File {
    /// Its name in events.
    pub key: FileKey,
    /// Version: counts up when the file is truncated or its inode used anew. With the slot it names
    /// the steward's file.
    pub version: u32,
    /// Size in blocks when it was last looked at; 0 while unresolved.
    pub size_blocks: u64,
    /// Path when it was opened, for profiles and for people.
    pub path: Option<PathBuf>,
    /// Blocks believed cached because of the run.
    pub blocks: u32,
    /// References seen and blocks brought in, for `stat`.
    pub references: u64,
    /// Blocks brought in.
    pub brought_in: u64,
    /// Whether a hint gave it a priority: then it is not forgotten while nothing of it is cached.
    pub hinted: bool,
    descriptor: Option<OwnedFd>,
    handle: Option<Box<FileHandle>>,
    used_ns: u64,
    tries: u8,
}

impl File {
    fn new(key: FileKey) -> File {
        File {
            key,
            version: 0,
            size_blocks: 0,
            path: None,
            blocks: 0,
            references: 0,
            brought_in: 0,
            hinted: false,
            descriptor: None,
            handle: None,
            used_ns: 0,
            tries: 0,
        }
    }

    /// Whether it was found once.
    pub fn is_resolved(&self) -> bool {
        self.size_blocks != 0
    }

    /// Whether looking for it (again) may help.
    pub fn is_worth_a_try(&self) -> bool {
        !self.is_resolved() && self.tries < TRIES_MAX
    }
}

/// The table of files, by slot.
#[derive(Debug, Default)]
pub struct Files {
    slots: Vec<File>,
    free: Vec<u32>,
    by_key: HashMap<FileKey, u32, FixedState>,
    last: Option<(FileKey, u32)>,
    held: usize,
    devices: Devices,
}

impl Files {
    /// The slot of a file, new if need be. `None` for what is no file of a mounted file system
    /// (block devices, pipes), and when the table is full of files in use.
    pub fn slot(&mut self, key: FileKey) -> Option<u32> {
        if let Some((last, slot)) = self.last
            && last == key
        {
            return Some(slot);
        }
        let slot = match self.by_key.get(&key) {
            Some(&slot) => slot,
            None => self.insert(key)?,
        };
        self.last = Some((key, slot));
        Some(slot)
    }

    /// The slot of a file that is known already.
    pub fn known(&mut self, key: FileKey) -> Option<u32> {
        match self.last {
            Some((last, slot)) if last == key => Some(slot),
            _ => self.by_key.get(&key).copied(),
        }
    }

    fn insert(&mut self, key: FileKey) -> Option<u32> {
        self.devices.mount_of(key.dev)?;
        if self.by_key.len() >= FILES_MAX && self.forget_unused() == 0 {
            return None;
        }
        let slot = match self.free.pop() {
            Some(slot) => {
                let version = self.slots[slot as usize].version.wrapping_add(1);
                self.slots[slot as usize] = File { version, ..File::new(key) };
                slot
            }
            None => {
                self.slots.push(File::new(key));
                (self.slots.len() - 1) as u32
            }
        };
        self.by_key.insert(key, slot);
        Some(slot)
    }

    /// Forgets files without cached blocks; returns how many.
    fn forget_unused(&mut self) -> usize {
        let before = self.by_key.len();
        let (slots, free, held) = (&mut self.slots, &mut self.free, &mut self.held);
        self.by_key.retain(|_, &mut slot| {
            let file = &mut slots[slot as usize];
            let unused = file.blocks == 0 && !file.hinted;
            if unused {
                *held -= usize::from(file.descriptor.take().is_some());
                free.push(slot);
            }
            !unused
        });
        self.last = None;
        before - self.by_key.len()
    }

    /// The entry of a slot.
    pub fn get(&self, slot: u32) -> &File {
        &self.slots[slot as usize]
    }

    /// The entry of a slot.
    pub fn get_mut(&mut self, slot: u32) -> &mut File {
        &mut self.slots[slot as usize]
    }

    /// All entries in use.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &File)> {
        self.by_key.values().map(|&slot| (slot, &self.slots[slot as usize]))
    }

    /// Looks for the file among the descriptors of a thread, then among what its process has
    /// mapped, and at last by its number, for a program that closed it at once. Returns the
    /// descriptors under which the thread has it open.
    pub fn resolve(&mut self, slot: u32, tid: u32, now_ns: u64) -> Vec<Descriptor> {
        let file = &mut self.slots[slot as usize];
        file.tries = file.tries.saturating_add(1);
        let (key, resolved) = (file.key, file.is_resolved());
        let descriptors = self.devices.descriptors_of(tid, key);
        if resolved {
            return descriptors;
        }
        let opened = |descriptor: &Descriptor| format!("/proc/{tid}/fd/{}", descriptor.number);
        let found = descriptors.iter().map(opened).any(|link| self.accept_link(slot, &link, now_ns));
        let mapped = if found { None } else { self.devices.mapping_of(tid, key) };
        let link = mapped.map(|range| format!("/proc/{tid}/map_files/{range}"));
        let found = found || link.is_some_and(|link| self.accept_link(slot, &link, now_ns));
        if !found {
            self.name_by_number(slot, now_ns);
        }
        descriptors
    }

    /// Opens a file by the number of its inode, where its file system knows files by that, and
    /// takes the name that the kernel still has for it. A name that leads elsewhere is none.
    fn name_by_number(&mut self, slot: u32, now_ns: u64) {
        let Some(file) = self.descriptor(slot, now_ns) else { return };
        let identity = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
        let opened = rustix::fs::fstat(file).map(identity);
        let name = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok();
        self.slots[slot as usize].path =
            name.filter(|name| opened.is_ok() && rustix::fs::lstat(name).map(identity) == opened);
    }

    /// Takes an open file, or one opened by name only, so that the slot can be acted on; it is not
    /// kept open where its file system has handles. Says whether that is possible.
    pub fn accept_opened(&mut self, slot: u32, file: BorrowedFd<'_>, now_ns: u64) -> bool {
        let was_open = self.slots[slot as usize].descriptor.is_some();
        if !self.accept_link(slot, &format!("/proc/self/fd/{}", file.as_raw_fd()), now_ns) {
            return false;
        }
        let file = &mut self.slots[slot as usize];
        if !was_open && file.handle.is_some() && file.descriptor.take().is_some() {
            self.held -= 1;
        }
        true
    }

    /// Opens a file through a link of `/proc` and takes it, or the file below it on an overlay, if
    /// it is that file.
    fn accept_link(&mut self, slot: u32, link: &str, now_ns: u64) -> bool {
        let name = fs::read_link(link).ok();
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        let opened = rustix::fs::open(link, flags | rustix::fs::OFlags::CLOEXEC, rustix::fs::Mode::empty());
        let Ok(opened) = opened else { return false };
        let accepted = match self.below(slot, link.as_ref(), &opened) {
            Some(below) => self.accept(slot, below, now_ns),
            None => self.accept(slot, opened, now_ns),
        };
        if accepted {
            // Of a file on an overlay its name there: the one that the program knows.
            self.slots[slot as usize].path = name;
        }
        accepted
    }

    /// The file below one that is open on an overlay, if it can be that of the slot.
    fn below(&mut self, slot: u32, link: &Path, opened: &OwnedFd) -> Option<OwnedFd> {
        let key = self.slots[slot as usize].key;
        let mount = self.devices.mount_of_descriptor(std::process::id(), opened.as_raw_fd())?.clone();
        if !mount.is_overlay() {
            return None;
        }
        let place = &self.devices.mount_of(key.dev)?.place;
        layers::below_as(opened.as_fd(), link, &mount, place, key)
    }

    /// Takes a descriptor for a file, if it is that file (D1).
    fn accept(&mut self, slot: u32, opened: OwnedFd, now_ns: u64) -> bool {
        let opened = fs::File::from(opened);
        let Ok(meta) = opened.metadata() else { return false };
        let key = self.slots[slot as usize].key;
        let same_device = |devices: &mut Devices| {
            let mount = |devices: &mut Devices| {
                devices.mount_of_descriptor(std::process::id(), opened.as_raw_fd()).map(|mount| mount.dev)
            };
            kernel_dev(meta.dev()) == key.dev || mount(devices) == Some(key.dev)
        };
        if !meta.is_file() || meta.ino() != key.ino || !same_device(&mut self.devices) {
            return false;
        }
        let file = &mut self.slots[slot as usize];
        file.size_blocks = meta.size().div_ceil(BLOCK_BYTES).max(1);
        if file.handle.is_none() {
            file.handle = FileHandle::of(opened.as_fd()).ok().map(Box::new);
        }
        file.used_ns = now_ns;
        if file.descriptor.replace(opened.into()).is_none() {
            self.held += 1;
        }
        if self.held > DESCRIPTORS_MAX {
            self.close_oldest();
        }
        true
    }

    fn close_oldest(&mut self) {
        let oldest =
            self.slots.iter_mut().filter(|file| file.descriptor.is_some()).min_by_key(|file| file.used_ns);
        if let Some(file) = oldest {
            file.descriptor = None;
            self.held -= 1;
        }
    }

    /// A descriptor of the file to act on, opened again by its handle if need be; `None` when it
    /// cannot be reached.
    pub fn descriptor(&mut self, slot: u32, now_ns: u64) -> Option<BorrowedFd<'_>> {
        if self.slots[slot as usize].descriptor.is_none() {
            let file = &self.slots[slot as usize];
            let mount = self.devices.mount_of(file.key.dev)?;
            // Not O_PATH: `open_by_handle_at` answers EBADF to such a descriptor.
            let flags =
                rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
            let mount = rustix::fs::open(&mount.place, flags, rustix::fs::Mode::empty()).ok()?;
            // A program that read a file and ended at once took its descriptor along: try the
            // inode's number.
            let opened = match &file.handle {
                Some(handle) => handle.open(mount.as_fd()),
                None => FileHandle::by_inode(file.key.ino)?.open(mount.as_fd()),
            };
            let opened = opened.ok()?;
            if !self.accept(slot, opened, now_ns) {
                return None;
            }
        }
        let file = &mut self.slots[slot as usize];
        file.used_ns = now_ns;
        file.descriptor.as_ref().map(OwnedFd::as_fd)
    }

    /// The descriptor of the file if one is held; not a use of it.
    pub fn open_descriptor(&self, slot: u32) -> Option<BorrowedFd<'_>> {
        self.slots[slot as usize].descriptor.as_ref().map(OwnedFd::as_fd)
    }

    /// Closes descriptors that were idle for a while, and those of deleted files at once.
    pub fn close_idle(&mut self, now_ns: u64) {
        if self.held == 0 {
            return;
        }
        for file in &mut self.slots {
            let Some(descriptor) = &file.descriptor else { continue };
            let deleted = rustix::fs::fstat(descriptor).is_ok_and(|stat| stat.st_nlink == 0);
            if deleted || now_ns.saturating_sub(file.used_ns) > IDLE_NS {
                file.descriptor = None;
                self.held -= 1;
            }
        }
    }

    /// Descriptors held now.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Files with a priority by hint.
    pub fn hinted(&self) -> usize {
        self.by_key.values().filter(|&&slot| self.slots[slot as usize].hinted).count()
    }

    /// The slot of an opened file, new if need be.
    pub fn slot_of_opened(&mut self, file: BorrowedFd<'_>) -> Option<u32> {
        let key = self.key_of_opened(file)?;
        self.slot(key)
    }

    /// The slot of an opened file that is known already.
    pub fn known_opened(&mut self, file: BorrowedFd<'_>) -> Option<u32> {
        let key = self.key_of_opened(file)?;
        self.known(key)
    }

    fn key_of_opened(&mut self, file: BorrowedFd<'_>) -> Option<FileKey> {
        self.devices.named_by_events(file)
    }
}

/// Drops runs of blocks of one file and tells how many stayed.
pub(crate) fn drop_span(file: BorrowedFd<'_>, first: u64, blocks: u64) -> std::io::Result<u64> {
    sys::drop_blocks(file, first, blocks)?;
    Ok(sys::cachestat(file, first, blocks)?.cached)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_descriptor_is_found_and_verified() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), vec![1; 10_000]).expect("written");
        let mut files = Files::default();
        let Some(slot) = files.slot_of_opened(file.as_file().as_fd()) else {
            panic!("the file is on a mounted file system");
        };
        assert!(!files.get(slot).is_resolved());
        let numbers = files.resolve(slot, std::process::id(), 1);
        let numbers: Vec<i32> = numbers.iter().map(|found| found.number).collect();
        assert_eq!(numbers, [file.as_file().as_raw_fd()]);
        assert_eq!(files.get(slot).size_blocks, 3);
        assert_eq!(files.get(slot).path.as_deref(), Some(file.path()));
        assert!(files.descriptor(slot, 2).is_some());
        assert_eq!(files.held(), 1);
        files.close_idle(3 + IDLE_NS);
        assert_eq!(files.held(), 0);
    }
}
