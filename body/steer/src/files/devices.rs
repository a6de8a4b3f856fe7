//! The mounted file systems, as `mountinfo` lists them, and which device events name for an open
//! file.

use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;

use pantler_kernel::mount_table::{MountedAt, kernel_dev, mounts};
use pantler_kernel::opened::{OpenedFile, mount_of, opened_by};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::FileKey;
use super::layers;

/// A descriptor of some process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// Its number there.
    pub number: i32,
    /// The inode that `fstat` tells of it; on an overlay not always that of events.
    pub ino: u64,
}

/// The mounted file systems.
#[derive(Debug, Default)]
pub(crate) struct Devices {
    mounts: Vec<MountedAt>,
    unknown: Vec<u32>,
    /// The kernel's table, to ask whether it changed.
    table: Option<File>,
}

/// Devices remembered as not mounted before the list is read again.
const UNKNOWN_MAX: usize = 64;

impl Devices {
    /// Where the device is mounted. Devices that are not mounted anywhere hold no files for us.
    pub fn mount_of(&mut self, dev: u32) -> Option<&MountedAt> {
        if self.unknown.contains(&dev) {
            return None;
        }
        if !self.mounts.iter().any(|mount| mount.dev == dev) {
            self.reload();
        }
        let found = self.mounts.iter().position(|mount| mount.dev == dev);
        if found.is_none() {
            if self.unknown.len() >= UNKNOWN_MAX {
                self.unknown.clear();
            }
            self.unknown.push(dev);
        }
        found.map(|at| &self.mounts[at])
    }

    /// Forgets everything if a file system was mounted or unmounted since the last look.
    pub fn look(&mut self) {
        let Some(table) = &self.table else { return };
        let mut polled = [PollFd::new(table, PollFlags::PRI)];
        // The kernel says so once for each open file.
        let has_changed = rustix::event::poll(&mut polled, Some(&Timespec::default())) != Ok(0);
        if has_changed {
            self.mounts.clear();
            self.unknown.clear();
        }
    }

    fn reload(&mut self) {
        if self.table.is_none() {
            self.table = File::open("/proc/self/mountinfo").ok();
        }
        self.mounts = mounts().unwrap_or_default();
    }

    /// The mount of a descriptor.
    pub fn mount_of_descriptor(&mut self, tid: u32, number: i32) -> Option<&MountedAt> {
        self.mount(mount_of(tid, number)?)
    }

    /// The mount of this number.
    pub fn mount(&mut self, id: u32) -> Option<&MountedAt> {
        if !self.mounts.iter().any(|mount| mount.id == id) {
            self.reload();
        }
        self.mounts.iter().find(|mount| mount.id == id)
    }

    /// Whether a device that is known is on another machine.
    pub fn is_remote(&self, dev: u32) -> bool {
        self.mounts.iter().any(|mount| mount.dev == dev && mount.is_remote())
    }

    /// Whether any overlay is mounted, as far as known.
    pub fn have_overlays(&self) -> bool {
        self.mounts.iter().any(MountedAt::is_overlay)
    }

    /// The descriptors under which a thread has the file open.
    pub fn descriptors_of(&mut self, tid: u32, key: FileKey) -> Vec<Descriptor> {
        let mut found = Vec::new();
        for OpenedFile { number, link, dev, ino } in opened_by(tid) {
            // Only an overlay may tell another inode than events do: of the others no more is
            // asked.
            if ino != key.ino && self.mounts.iter().any(|mount| mount.dev == dev && !mount.is_overlay()) {
                continue;
            }
            let is_it = ino == key.ino && dev == key.dev
                || self.mount_of_descriptor(tid, number).cloned().is_some_and(|mount| {
                    if mount.is_overlay() {
                        layers::may_be(ino, &link, &mount, key)
                    } else {
                        ino == key.ino && mount.dev == key.dev
                    }
                });
            if is_it {
                found.push(Descriptor { number, ino });
            }
        }
        found
    }

    /// Whether `/proc` means this file by a device and an inode in a list of mappings.
    pub fn is_mapped_as(&self, key: FileKey, dev: u32, ino: u64) -> bool {
        let is_overlay = || self.mounts.iter().any(|mount| mount.dev == dev && mount.is_overlay());
        ino == key.ino && dev == key.dev || layers::same_number(ino, key.ino) && is_overlay()
    }

    /// The file that events name when the file that is open here is used: itself, or the one below
    /// an overlay. `None` where that cannot be found.
    pub fn named_by_events(&mut self, file: BorrowedFd<'_>) -> Option<FileKey> {
        let stat = rustix::fs::fstat(file).ok()?;
        let dev = kernel_dev(stat.st_dev);
        // Of btrfs `st_dev` names the subvolume and events the super block; of overlays it may name
        // nothing at all.
        let mount = match self.mount_of(dev) {
            Some(mount) => mount.clone(),
            None => self.mount_of_descriptor(std::process::id(), file.as_raw_fd())?.clone(),
        };
        if !mount.is_overlay() {
            return Some(FileKey { dev: mount.dev, ino: stat.st_ino });
        }
        let mut seen = Vec::new();
        let mut places: Vec<&Path> = Vec::new();
        for other in self.mounts.iter().filter(|other| !other.is_overlay() && !other.is_served()) {
            if !seen.contains(&other.dev) {
                seen.push(other.dev);
                places.push(&other.place);
            }
        }
        let below = layers::below(file, &mount, &places)?;
        let stat = rustix::fs::fstat(&below).ok()?;
        let dev = match kernel_dev(stat.st_dev) {
            dev if self.mount_of(dev).is_some() => dev,
            _ => self.mount_of_descriptor(std::process::id(), below.as_raw_fd())?.dev,
        };
        Some(FileKey { dev, ino: stat.st_ino })
    }
}
