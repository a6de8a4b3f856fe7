//! From device and inode to a path and a size, without opening the file and without asking a
//! process that serves it: one that stands still would hold up what is counted.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use foldhash::fast::FixedState;
use pantler_kernel::file_handle::FileHandle;
use pantler_kernel::mapped::mappings_of;
use pantler_kernel::pages::block_bytes;
use pantler_kernel::process::{numbers_in, read_process};
use pantler_pagecache::FileKey;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Statx, StatxFlags};

use crate::files::devices::Devices;

/// Names that are remembered at once; of more files the number alone is shown.
const NAMES_MAX: usize = 16_384;
/// Descriptors of one thread that are looked at.
const DESCRIPTORS_MAX: usize = 4096;

/// The paths of files.
#[derive(Debug, Default)]
pub(super) struct Paths {
    devices: Devices,
    names: HashMap<FileKey, PathBuf, FixedState>,
}

impl Paths {
    /// Whether a device belongs to a mounted file system. Block devices hold no files.
    pub(super) fn is_mounted(&mut self, dev: u32) -> bool {
        self.devices.mount_of(dev).is_some()
    }

    /// Forgets names and mounts: both change.
    pub(super) fn clear(&mut self) {
        *self = Paths::default();
    }

    /// The name that was found, if any.
    pub(super) fn name(&self, file: FileKey) -> Option<&Path> {
        self.names.get(&file).map(PathBuf::as_path)
    }

    /// Looks for a file that a thread uses, and remembers its name. Its size in blocks; `None` if
    /// it was not found.
    pub(super) fn find(&mut self, file: FileKey, thread: u32) -> Option<u64> {
        let found = self.by_number(file);
        let found = found.or_else(|| self.by_descriptor(file, thread)).or_else(|| by_mapping(file, thread));
        let (name, size) = found?;
        if self.names.len() < NAMES_MAX {
            self.names.insert(file, name);
        }
        Some(size.div_ceil(block_bytes()))
    }

    /// Where the file system knows files by the numbers of their inodes, and the kernel has a name
    /// for it that leads there.
    fn by_number(&mut self, file: FileKey) -> Option<(PathBuf, u64)> {
        let mount = self.devices.mount_of(file.dev)?;
        if mount.is_served() || mount.is_remote() {
            return None;
        }
        let folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let place = rustix::fs::open(&mount.place, folder, Mode::empty()).ok()?;
        let opened = FileHandle::by_inode(file.ino)?.name(place.as_fd()).ok()?;
        let name = fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd())).ok()?;
        let by_name = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let here = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
        let below = name.strip_prefix(&mount.place).ok()?;
        let named = rustix::fs::openat2(&place, below, by_name, Mode::empty(), here).ok()?;
        let size = size_of(&opened, file)?;
        size_of(&named, file).map(|_| (name, size))
    }

    fn by_descriptor(&mut self, file: FileKey, thread: u32) -> Option<(PathBuf, u64)> {
        let entries = fs::read_dir(format!("/proc/{thread}/fdinfo")).ok()?.flatten();
        let mut numbers =
            entries.take(DESCRIPTORS_MAX).filter_map(|entry| entry.file_name().into_string().ok());
        numbers.find_map(|number| {
            // The kernel tells this without a call of the file system.
            let info = read_process(thread, &format!("fdinfo/{number}")).ok()?;
            let is_it = info
                .lines()
                .any(|line| line.strip_prefix("ino:").is_some_and(|ino| ino.trim().parse() == Ok(file.ino)));
            let mount = *numbers_in(&info, "mnt_id:").first().filter(|_| is_it)?;
            (self.devices.mount(mount)?.dev == file.dev).then_some(())?;
            at_link(&format!("/proc/{thread}/fd/{number}"), file)
        })
    }
}

fn by_mapping(file: FileKey, thread: u32) -> Option<(PathBuf, u64)> {
    let mappings = mappings_of(thread, |dev, ino| (dev, ino) == (file.dev, file.ino));
    at_link(&format!("/proc/{thread}/map_files/{}", mappings.first()?.name()), file)
}

/// The name of the file that a link of `/proc` leads to, and its size, if it is that file still.
fn at_link(link: &str, file: FileKey) -> Option<(PathBuf, u64)> {
    let name = fs::read_link(link).ok()?;
    // The kernel tells what it knows: nothing that serves the file system is asked.
    let known = rustix::fs::statx(rustix::fs::CWD, link, AtFlags::STATX_DONT_SYNC, WANTED).ok()?;
    (known.stx_ino == file.ino).then_some((name, known.stx_size))
}

const WANTED: StatxFlags = StatxFlags::INO.union(StatxFlags::SIZE);

fn size_of(opened: &OwnedFd, file: FileKey) -> Option<u64> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let Statx { stx_ino, stx_size, .. } = rustix::fs::statx(opened, c"", flags, WANTED).ok()?;
    (stx_ino == file.ino).then_some(stx_size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_file_is_found_by_number_descriptor_or_mapping() {
        let mut paths = Paths::default();
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder");
        let path = folder.path().join("a\u{1b}[2Jfile");
        fs::write(&path, vec![1; block_bytes() as usize + 1]).expect("written");
        let opened = fs::File::open(&path).expect("opened");
        let key = paths.devices.named_by_events(opened.as_fd()).expect("a mounted file system");
        assert_eq!(key.ino, opened.metadata().expect("looked at").ino());
        let expected = Some((path.clone(), block_bytes() + 1));
        assert_eq!(paths.by_descriptor(key, std::process::id()), expected);
        assert_eq!(by_mapping(key, std::process::id()), None, "not mapped");
        assert_eq!(paths.find(key, u32::MAX), Some(2), "on ext4 by its number");
        assert_eq!(paths.name(key), Some(path.as_path()));
        let program = fs::File::open("/proc/self/exe").expect("opened");
        let program = paths.devices.named_by_events(program.as_fd()).expect("a mounted file system");
        let (name, size) = by_mapping(program, std::process::id()).expect("mapped");
        assert_eq!((Ok(name), size > 0), (std::env::current_exe().map_err(|_| ()), true));
        fs::remove_file(&path).expect("removed");
        assert!(paths.by_number(key).is_none(), "it has no name");
        assert_eq!(paths.find(FileKey { dev: key.dev, ino: u64::MAX }, std::process::id()), None);
    }
}
