//! Files of an overlay: from the file that a program has open to the one below, which has the
//! cached pages and which events name.
//!
//! The overlay tells by a file handle which file is below, as long as it was not copied up: then it
//! names the one that it came from, and the path below the upper directory leads to the copy.
//! Either way what was found is opened and looked at before it is believed.
//!
//! Why so: docs/decisions/0022-files-below-overlays.md.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use pantler_kernel::file_handle::FileHandle;
use pantler_kernel::mount_table::{MountedAt, kernel_dev};
use rustix::fs::{Mode, OFlags, ResolveFlags};

use super::FileKey;

/// Whether the overlay's number of an inode can be that of the inode below: it may hold the number
/// of the layer in its upper bits (`xino`).
pub(super) fn same_number(overlay: u64, below: u64) -> bool {
    overlay as u32 == below as u32
}

/// Whether the file behind this link of `/proc`, on this overlay, is the one below which events
/// call `key`. Cheap, and not the last word: opening it looks again.
pub(super) fn may_be(ino: u64, link: &Path, mount: &MountedAt, key: FileKey) -> bool {
    same_number(ino, key.ino) || copied_up(link, mount).is_some_and(|file| is(file.as_fd(), key))
}

fn is(file: BorrowedFd<'_>, key: FileKey) -> bool {
    // btrfs: `st_dev` is not the super block's. That the inode is the same is enough for a guess.
    rustix::fs::fstat(file).is_ok_and(|stat| {
        stat.st_ino == key.ino && (kernel_dev(stat.st_dev) == key.dev || rustix::fs::major(stat.st_dev) == 0)
    })
}

/// The file below a file of an overlay, opened for reading. `place` is where the file system of
/// `key` is mounted.
pub(super) fn below_as(
    opened: BorrowedFd<'_>,
    link: &Path,
    mount: &MountedAt,
    place: &Path,
    key: FileKey,
) -> Option<OwnedFd> {
    by_handle(opened, place)
        .into_iter()
        .chain(std::iter::once_with(|| copied_up(link, mount).and_then(reopened)).flatten())
        .find(|file| is(file.as_fd(), key))
}

/// The file below a file of an overlay, which may lie on any of the file systems mounted at
/// `places`.
pub(super) fn below(file: BorrowedFd<'_>, mount: &MountedAt, places: &[&Path]) -> Option<OwnedFd> {
    let wanted = rustix::fs::fstat(file).ok()?;
    // A file handle says nothing about its file system: the right one has a file that looks exactly
    // like the overlay's.
    let same = |found: &OwnedFd| {
        rustix::fs::fstat(found).is_ok_and(|found| {
            let times = |stat: &rustix::fs::Stat| {
                (stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec)
            };
            (found.st_mode, found.st_size) == (wanted.st_mode, wanted.st_size)
                && times(&found) == times(&wanted)
        })
    };
    let link = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file)));
    places
        .iter()
        .filter_map(|place| by_handle(file, place))
        .chain(std::iter::once_with(|| copied_up(&link, mount).and_then(reopened)).flatten())
        .find(same)
}

fn by_handle(opened: BorrowedFd<'_>, place: &Path) -> Option<OwnedFd> {
    open_handle(&FileHandle::below(opened)?, place)
}

/// Opens the file of a file handle on the file system that is mounted at `place`.
pub(super) fn open_handle(handle: &FileHandle, place: &Path) -> Option<OwnedFd> {
    // Not O_PATH: `open_by_handle_at` answers EBADF to such a descriptor.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let place = rustix::fs::open(place, flags, Mode::empty()).ok()?;
    handle.open(place.as_fd()).ok()
}

/// The file of the same name in the upper directory. No link is followed on the way; nothing is
/// opened but the name.
fn copied_up(link: &Path, mount: &MountedAt) -> Option<OwnedFd> {
    let path = std::fs::read_link(link).ok()?;
    let name = path.strip_prefix(&mount.place).ok()?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let upper = rustix::fs::open(mount.upper()?, flags | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(upper, name, flags | OFlags::NOFOLLOW, Mode::empty(), resolve).ok()
}

/// Opens for reading what was found by name; regular files only, for others do things when they are
/// opened.
fn reopened(file: OwnedFd) -> Option<OwnedFd> {
    let stat = rustix::fs::fstat(&file).ok()?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::RegularFile {
        return None;
    }
    let link = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOATIME | OFlags::CLOEXEC;
    rustix::fs::open(link, flags, Mode::empty()).ok()
}
