//! The files that a run reads: from device and inode, which is all that an event tells, to
//! something to act on.
//!
//! A file is found through the descriptors of the process that reads it (`/proc/PID/fd`), never by
//! a path. Descriptors that are kept are read-only, regular files only, and at most
//! [`DESCRIPTORS_MAX`]; beyond that, and for files that were closed long ago, a file handle
//! (`open_by_handle_at`) opens the file again where its file system has handles.
//!
//! D1  Every held descriptor is a regular file with the inode and device of its entry.
//! D2  At most `DESCRIPTORS_MAX` descriptors are held, by the slots that are named as held.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pantler_pagecache::FileKey;

use pantler_kernel::file_handle::FileHandle;
use pantler_kernel::mapped::{Mapper, mappings_of};
use pantler_kernel::mount_table::kernel_dev;
use pantler_kernel::pages::block_bytes;

pub(crate) mod devices;
mod layers;
mod mappers;

pub use devices::Descriptor;
use devices::Devices;
use mappers::{Mappers, Threads};

/// Descriptors held at once.
pub const DESCRIPTORS_MAX: usize = 256;
/// A descriptor unused for this time is closed: it keeps deleted files and mounts alive.
const IDLE_NS: u64 = 2_000_000_000;

/// One file that can be acted on, or was.
#[derive(Debug, Default)]
struct OpenFile {
    key: FileKey,
    /// Size in blocks when it was last opened; 0 before that.
    size_blocks: u64,
    /// Path when it was opened, for profiles and for people.
    path: Option<PathBuf>,
    descriptor: Option<OwnedFd>,
    handle: Option<FileHandle>,
    mappers: Mappers,
    used_ns: u64,
}

/// The files of a run, by the engine's numbers.
#[derive(Debug, Default)]
pub struct Files {
    slots: Vec<OpenFile>,
    /// Files that were opened since the last [`take_resized`](Files::take_resized), with their
    /// sizes.
    resized: Vec<(u32, u64)>,
    /// The slots whose descriptors are held: of thousands of files that were read, few are open.
    held: Vec<u32>,
    devices: Devices,
    threads: Threads,
}

impl Files {
    /// Whether files of a device are steered: those of a mounted file system. Block devices and
    /// pipes have none. Files of a mount of Pantler have a steward there, and may be served by this
    /// process: opening one under a lock could wait for itself.
    pub fn are_steered(&mut self, dev: u32) -> bool {
        self.devices.mount_of(dev).is_some_and(|mount| !mount.is_pantler())
    }

    /// The same of an open file, without asking what serves its file system.
    pub fn is_steered(&mut self, file: BorrowedFd<'_>) -> bool {
        let mount = self.devices.mount_of_descriptor(std::process::id(), file.as_raw_fd());
        mount.is_some_and(|mount| !mount.is_pantler())
    }

    /// Forgets the mounted file systems if any came or went: their devices have numbers that are
    /// used again.
    pub fn look_at_mounts(&mut self) {
        self.devices.look();
    }

    /// Whether any overlay is mounted.
    pub fn have_overlays(&self) -> bool {
        self.devices.have_overlays()
    }

    /// From now on this number is that file.
    pub fn begin(&mut self, slot: u32, key: FileKey) {
        if self.slots.len() <= slot as usize {
            self.slots.resize_with(slot as usize + 1, OpenFile::default);
        }
        self.close(slot);
        self.resized.retain(|&(resized, _)| resized != slot);
        self.slots[slot as usize] = OpenFile { key, ..OpenFile::default() };
    }

    /// Size in blocks when the file was last opened; 0 before that.
    pub fn size_blocks(&self, slot: u32) -> u64 {
        self.slots[slot as usize].size_blocks
    }

    /// The path under which it was opened.
    pub fn path(&self, slot: u32) -> Option<&Path> {
        self.slots[slot as usize].path.as_deref()
    }

    /// Takes the sizes of files that were opened.
    pub fn take_resized(&mut self) -> std::vec::Drain<'_, (u32, u64)> {
        self.resized.drain(..)
    }

    /// Looks for the file among the descriptors of a thread, then among what its process has
    /// mapped, if it may be there, and at last by its number, for a program that closed it at once.
    /// Returns the descriptors under which the thread has it open.
    pub fn resolve(&mut self, slot: u32, tid: u32, may_be_mapped: bool, now_ns: u64) -> Vec<Descriptor> {
        let file = &self.slots[slot as usize];
        let (key, resolved) = (file.key, file.size_blocks != 0 && file.path.is_some());
        let descriptors = self.devices.descriptors_of(tid, key);
        if resolved {
            return descriptors;
        }
        let opened = |descriptor: &Descriptor| format!("/proc/{tid}/fd/{}", descriptor.number);
        let found = descriptors.iter().map(opened).any(|link| self.accept_link(slot, &link, now_ns));
        let is_it = |dev, ino| self.devices.is_mapped_as(key, dev, ino);
        let mapped = if found || !may_be_mapped { None } else { mappings_of(tid, is_it).first().copied() };
        let link = mapped.map(|mapping| format!("/proc/{tid}/map_files/{}", mapping.name()));
        let found = found || link.is_some_and(|link| self.accept_link(slot, &link, now_ns));
        if !found {
            self.name_by_number(slot, now_ns);
        }
        descriptors
    }

    /// Looks for a name of a file that has none yet, and keeps nothing open for it. What is small
    /// is acted on without one.
    pub fn name(&mut self, slot: u32) {
        let Some(file) = self.slots.get(slot as usize).filter(|file| file.path.is_none()) else { return };
        let held = file.descriptor.as_ref().and_then(|held| held.try_clone().ok());
        let opened = held.or_else(|| self.open_again(slot));
        let ino = self.slots[slot as usize].key.ino;
        self.slots[slot as usize].path = opened.and_then(|file| name_of(file.as_fd(), ino));
    }

    /// Opens a file by the number of its inode, where its file system knows files by that, and
    /// takes its name.
    fn name_by_number(&mut self, slot: u32, now_ns: u64) {
        let ino = self.slots[slot as usize].key.ino;
        let Some(file) = self.descriptor(slot, now_ns) else { return };
        let name = name_of(file, ino);
        self.slots[slot as usize].path = name;
    }

    /// Takes an open file, or one opened by name only, so that the slot can be acted on; it is not
    /// kept open where its file system has handles. Says whether that is possible.
    pub fn accept_opened(&mut self, slot: u32, file: BorrowedFd<'_>, now_ns: u64) -> bool {
        let was_open = self.slots[slot as usize].descriptor.is_some();
        if !self.accept_link(slot, &format!("/proc/self/fd/{}", file.as_raw_fd()), now_ns) {
            return false;
        }
        if !was_open && self.slots[slot as usize].handle.is_some() {
            self.close(slot);
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

    /// Whether files of a device that is known are on another machine.
    pub fn is_remote(&self, dev: u32) -> bool {
        self.devices.is_remote(dev)
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
        file.size_blocks = meta.size().div_ceil(block_bytes()).max(1);
        self.resized.push((slot, file.size_blocks));
        if file.handle.is_none() {
            file.handle = FileHandle::of(opened.as_fd()).ok();
        }
        file.used_ns = now_ns;
        if file.descriptor.replace(opened.into()).is_none() {
            self.held.push(slot);
        }
        if self.held.len() > DESCRIPTORS_MAX {
            self.close_oldest(slot);
        }
        true
    }

    /// All may have been used in the same round: the one that is about to be used stays open.
    fn close_oldest(&mut self, except: u32) {
        let others = self.held.iter().copied().filter(|&slot| slot != except);
        if let Some(oldest) = others.min_by_key(|&slot| self.slots[slot as usize].used_ns) {
            self.close(oldest);
        }
    }

    fn close(&mut self, slot: u32) {
        if self.slots[slot as usize].descriptor.take().is_some() {
            self.held.retain(|&held| held != slot);
        }
    }

    /// A descriptor of the file to act on, opened again by its file handle if need be; `None` when
    /// it cannot be reached.
    pub fn descriptor(&mut self, slot: u32, now_ns: u64) -> Option<BorrowedFd<'_>> {
        if self.slots[slot as usize].descriptor.is_none() {
            let opened = self.open_again(slot)?;
            if !self.accept(slot, opened, now_ns) {
                return None;
            }
        }
        let file = &mut self.slots[slot as usize];
        file.used_ns = now_ns;
        file.descriptor.as_ref().map(OwnedFd::as_fd)
    }

    /// Opens a file by its handle. A program that read a file and ended at once took its descriptor
    /// along: then by the inode's number.
    fn open_again(&mut self, slot: u32) -> Option<OwnedFd> {
        let file = &self.slots[slot as usize];
        let place = &self.devices.mount_of(file.key.dev)?.place;
        match &file.handle {
            Some(handle) => layers::open_handle(handle, place),
            None => layers::open_handle(&FileHandle::by_inode(file.key.ino)?, place),
        }
    }

    /// The descriptor of the file if one is held; not a use of it.
    pub fn open_descriptor(&self, slot: u32) -> Option<BorrowedFd<'_>> {
        self.slots[slot as usize].descriptor.as_ref().map(OwnedFd::as_fd)
    }

    /// Pages of the file were mapped for a thread.
    pub fn note_mapped(&mut self, slot: u32, thread: u32) {
        self.slots[slot as usize].mappers.note(thread, &mut self.threads);
    }

    /// Whether pages of the file were mapped for a thread, as far as that was told.
    pub fn was_mapped(&self, slot: u32) -> bool {
        !self.slots[slot as usize].mappers.processes().is_empty()
    }

    /// A thread began or ended.
    pub fn forget_thread(&mut self, thread: u32) {
        self.threads.forget(thread);
    }

    /// These processes are steered no more: what they have mapped stays.
    pub fn forget_mappers(&mut self, processes: impl Fn(u32) -> bool) {
        self.slots.iter_mut().for_each(|file| file.mappers.forget(&processes));
    }

    /// The processes that have the file mapped as data. On an overlay `/proc` names it by numbers
    /// that another file may have, too: there none is found.
    pub fn mappers(&mut self, slot: u32) -> Vec<Mapper> {
        let file = &mut self.slots[slot as usize];
        let key = file.key;
        let look = |&process: &u32| {
            let mapper = Mapper::look(process, |dev, ino| (dev, ino) == (key.dev, key.ino));
            (process, mapper.ok().flatten())
        };
        let looked: Vec<_> = file.mappers.processes().iter().map(look).collect();
        file.mappers.forget(|process| looked.iter().any(|(gone, it)| *gone == process && it.is_none()));
        looked.into_iter().filter_map(|(_, mapper)| mapper).collect()
    }

    /// Closes descriptors that were idle for a while, and those of deleted files at once.
    pub fn close_idle(&mut self, now_ns: u64) {
        for slot in self.held.clone() {
            let file = &self.slots[slot as usize];
            let is_deleted = |descriptor| rustix::fs::fstat(descriptor).is_ok_and(|stat| stat.st_nlink == 0);
            let is_idle = now_ns.saturating_sub(file.used_ns) > IDLE_NS;
            if is_idle || file.descriptor.as_ref().is_some_and(is_deleted) {
                self.close(slot);
            }
        }
    }

    /// Descriptors held now.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// The name of an opened file in events. `None` when it is not steered.
    pub fn key_of_opened(&mut self, file: BorrowedFd<'_>) -> Option<FileKey> {
        self.devices.named_by_events(file).filter(|key| self.are_steered(key.dev))
    }
}

/// The name that the kernel still has for an open file with this inode. One that leads elsewhere
/// is none.
fn name_of(file: BorrowedFd<'_>, ino: u64) -> Option<PathBuf> {
    let identity = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
    let opened = rustix::fs::fstat(file).map(identity).ok().filter(|&(_, opened)| opened == ino)?;
    let name = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    let named = rustix::fs::lstat(&name).map(identity).ok()?;
    (named == opened).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_descriptor_is_found_and_verified() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), vec![1; 2 * block_bytes() as usize + 1]).expect("written");
        let mut files = Files::default();
        let key = files.key_of_opened(file.as_file().as_fd()).expect("a mounted file system");
        let slot = 0;
        files.begin(slot, key);
        let numbers = files.resolve(slot, std::process::id(), true, 1);
        let numbers: Vec<i32> = numbers.iter().map(|found| found.number).collect();
        assert_eq!(numbers, [file.as_file().as_raw_fd()]);
        assert_eq!(files.size_blocks(slot), 3);
        assert_eq!(files.path(slot), Some(file.path()));
        assert!(files.descriptor(slot, 2).is_some());
        assert_eq!(files.held(), 1);
        files.close_idle(3 + IDLE_NS);
        assert_eq!(files.held(), 0);
    }

    /// The file that was opened last was closed for the others, where its number was the lowest of
    /// those used at that time.
    #[test]
    fn of_more_files_than_are_held_open_each_is_open_when_it_is_used() {
        let folder = tempfile::tempdir_in(".").expect("a folder");
        let mut files = Files::default();
        let mut opened = |slot: u32| {
            let path = folder.path().join(slot.to_string());
            fs::write(&path, b"x").expect("written");
            let file = fs::File::open(path).expect("opened");
            let key = files.key_of_opened(file.as_fd()).expect("a mounted file system");
            files.begin(slot, key);
            assert!(files.accept_opened(slot, file.as_fd(), 1));
            let is_open = files.descriptor(slot, 1).is_some();
            (is_open, files.held())
        };
        for slot in (0..DESCRIPTORS_MAX as u32 + 10).rev() {
            let (is_open, held) = opened(slot);
            assert!(is_open && held <= DESCRIPTORS_MAX, "{slot}: {held}");
        }
    }
}
