//! Mounts of Pantler below an origin, recognised without asking the process that serves them.
//!
//! A host with a request that enters its own mount waits for itself: with as many such requests as
//! threads, for ever. Opening with `O_PATH`, and the number of the device, come from what the
//! kernel knows already, so neither of them waits.
//!
//! Why so: docs/decisions/0066-no-mount-within-itself.md.

use pantler_kernel::mount_table::{MountedAt, kernel_dev, mounts};
use rustix::fs::{AtFlags, StatxFlags, makedev};
use std::io;
use std::os::fd::BorrowedFd;

/// Whether an open file is on a mount of Pantler.
pub(super) fn is_pantler(fd: BorrowedFd<'_>) -> io::Result<bool> {
    // Without AT_STATX_DONT_SYNC the server of a FUSE mount is asked for attributes. With an empty
    // mask there is none to be asked for, and a mount that lets in its own user alone refuses none.
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(fd, c"", flags, StatxFlags::empty())?;
    Ok(has_pantler(&mounts()?, kernel_dev(makedev(stat.stx_dev_major, stat.stx_dev_minor))))
}

/// Whether a table of mounts says that a device is a mount of Pantler.
fn has_pantler(table: &[MountedAt], dev: u32) -> bool {
    table.iter().any(|mount| mount.dev == dev && mount.is_pantler())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantler_kernel::mount_table::parse;

    #[test]
    fn devices_of_our_mounts_are_found_in_the_table() {
        let table = b"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
            40 22 0:45 / /mnt/a\\040-\\040b rw - fuse.pantler /data rw\n\
            41 22 0:46 / /mnt/c rw shared:2 master:1 - fuse.pantler - rw\n\
            42 22 0:47 / /mnt/d rw - fuse.sshfs fuse.pantler rw\n";
        for (minor, expected) in [(45, true), (46, true), (47, false), (4, false), (48, false)] {
            assert_eq!(has_pantler(&parse(table), minor), expected, "0:{minor}");
        }
        assert!(!has_pantler(&parse(table), 8 << 20 | 1));
        assert!(!has_pantler(&[], 0));
    }
}
