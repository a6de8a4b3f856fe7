//! What of an open file can be read without waiting: what the page cache holds of it, or the mount
//! that it lies on.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{Advice, fadvise};

/// Number of `cachestat` on every architecture.
const SYS_CACHESTAT: libc::c_long = 451;
/// What `cachestat` counts in.
const PAGE_BYTES: u64 = 4096;

/// Whether the page cache holds all pages that bytes `start..end` of a file lie in. Costs a system
/// call: 0.2 us for 4 KiB, 3 us for 1 MiB.
///
/// # Errors
/// `ENOSYS` before Linux 6.5. `EPERM` when the caller neither owns the file nor may write it;
/// kernels before 6.15 then say that everything is there.
pub fn is_cached(file: BorrowedFd<'_>, start: u64, end: u64) -> io::Result<bool> {
    Ok(cached_bytes(file, start, end)? >= end.saturating_sub(start))
}

/// How many of bytes `start..end` of a file the page cache holds: all but those of pages that are
/// missing.
///
/// # Errors
/// As [`is_cached`].
pub fn cached_bytes(file: BorrowedFd<'_>, start: u64, end: u64) -> io::Result<u64> {
    let first = start / PAGE_BYTES * PAGE_BYTES;
    let pages = end.div_ceil(PAGE_BYTES) - first / PAGE_BYTES;
    if end <= start {
        return Ok(0);
    }
    let range = [first, pages * PAGE_BYTES];
    let mut answer = [0u64; 5];
    // SAFETY: `range` is the kernel's `struct cachestat_range` (two u64) and `answer` its `struct
    // cachestat` (five u64, the first of which counts cached pages); both live through the call,
    // and the kernel writes nothing else.
    let result =
        unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), answer.as_mut_ptr(), 0u32) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((end - start).saturating_sub(pages.saturating_sub(answer[0]) * PAGE_BYTES))
}

/// Has byte ranges of a file written to its disk and drops their pages from the page cache, those
/// at both ends with them. Returns when that is done. The disk is not told to empty a cache of its
/// own, so this is no `fsync`.
///
/// # Errors
/// Those of `sync_file_range`: what could not be written stays in the page cache.
pub fn write_out(file: BorrowedFd<'_>, ranges: &[Range<u64>]) -> io::Result<()> {
    let whole = |range: &Range<u64>| {
        let start = range.start / PAGE_BYTES * PAGE_BYTES;
        (start, range.end.next_multiple_of(PAGE_BYTES) - start)
    };
    let sync = |(start, length): (u64, u64), flags: libc::c_uint| {
        // SAFETY: three numbers and an open descriptor; no memory is passed.
        let result = unsafe { libc::sync_file_range(file.as_raw_fd(), start as i64, length as i64, flags) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // All begin before the first is waited for.
    ranges.iter().try_for_each(|range| sync(whole(range), libc::SYNC_FILE_RANGE_WRITE))?;
    for range in ranges {
        let (start, length) = whole(range);
        let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE
            | libc::SYNC_FILE_RANGE_WRITE
            | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        sync((start, length), all)?;
        fadvise(file, start, std::num::NonZeroU64::new(length), Advice::DontNeed)?;
    }
    Ok(())
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn what_was_written_is_cached_and_what_was_dropped_is_not() {
        let mut file = tempfile::tempfile_in(".").unwrap();
        file.write_all(&[7; 10_000]).unwrap();
        if let Err(error) = is_cached(file.as_fd(), 0, 1) {
            eprintln!("skipped: cachestat: {error}");
            return;
        }
        assert!(is_cached(file.as_fd(), 0, 10_000).unwrap());
        assert_eq!(cached_bytes(file.as_fd(), 100, 10_000).unwrap(), 9900);
        assert_eq!(cached_bytes(file.as_fd(), 0, 20_000).unwrap(), 20_000 - 2 * 4096, "three of five pages");
        assert!(!is_cached(file.as_fd(), 0, 20_000).unwrap(), "beyond the end there is nothing");
        assert!(is_cached(file.as_fd(), 5, 5).unwrap());
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        assert!(!is_cached(file.as_fd(), 0, 1).unwrap());
    }

    #[test]
    fn what_is_written_out_is_not_cached_any_more() {
        let mut file = tempfile::tempfile_in(".").unwrap();
        // Written at once they would be one folio, which leaves as a whole.
        (0..10).for_each(|_| file.write_all(&[7; 4096]).unwrap());
        let cached = |file: &std::fs::File| cached_bytes(file.as_fd(), 0, 10 * 4096);
        if let Err(error) = cached(&file) {
            eprintln!("skipped: cachestat: {error}");
            return;
        }
        // Parts of pages stand for all of them.
        write_out(file.as_fd(), &[100..4097, 5 * 4096..5 * 4096 + 1]).unwrap();
        assert_eq!(cached(&file).unwrap(), 7 * 4096);
        let all = 0..10 * 4096;
        write_out(file.as_fd(), std::slice::from_ref(&all)).unwrap();
        assert_eq!(cached(&file).unwrap(), 0);
    }
}
