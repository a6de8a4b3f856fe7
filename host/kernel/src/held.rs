//! The blocks of a file that a mount of Pantler holds, asked through the file itself.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Number of the call `PANTLER_HELD`, `_IOWR(0xA7, 6, uint64_t[3])`; docs/SEMANTICS.md says what it
/// means.
const HELD: u64 = 3 << 30 | 24 << 16 | 0xa7 << 8 | 6;

/// Whether the mount of ours that a file lies on holds bytes `start..end` of it; of a directory,
/// only whether it lies on one.
///
/// # Errors
/// `ENOTTY` for what lies on no mount of ours.
pub fn is_held(file: BorrowedFd<'_>, start: u64, end: u64) -> io::Result<bool> {
    Ok(held_bytes(file, start, end)? >= end.saturating_sub(start))
}

/// How many of bytes `start..end` of a file the mount of ours that it lies on holds.
///
/// # Errors
/// As [`is_held`].
pub fn held_bytes(file: BorrowedFd<'_>, start: u64, end: u64) -> io::Result<u64> {
    let mut range = [start, end, 0];
    // SAFETY: the number says that three u64 go in and come back, and `range` lives through the
    // call. A driver that means something else by this number is none of a regular file's or a
    // directory's.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), HELD as libc::Ioctl, range.as_mut_ptr()) };
    if result == 0 { Ok(range[2].min(end.saturating_sub(start))) } else { Err(io::Error::last_os_error()) }
}
