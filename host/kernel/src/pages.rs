//! The pages of an open file in the page cache: count them, read them ahead, write them back, drop
//! them.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{Advice, fadvise};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Bytes of one block: what the page cache calls a page. 4 KiB on x86, up to 64 KiB on others.
pub fn block_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// What `cachestat` counts, in pages.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStat {
    /// In the page cache.
    pub cached: u64,
    /// Not yet written back.
    pub dirty: u64,
    /// Being written back.
    pub writeback: u64,
    /// Left the cache at some time.
    pub evicted: u64,
    /// Left it recently.
    pub recently_evicted: u64,
}

/// Number of the system call on every architecture.
const SYS_CACHESTAT: libc::c_long = 451;

/// Counts the cached pages of a range of blocks, Linux 6.5 and newer. Kernels before 6.15 say that
/// everything is cached to a caller that neither owns the file nor may write it.
///
/// # Errors
/// `ENOSYS` before 6.5. `EPERM` for a caller that neither owns the file nor may write it.
pub fn cachestat(file: BorrowedFd<'_>, first: u64, blocks: u64) -> io::Result<CacheStat> {
    let range = [first * block_bytes(), blocks * block_bytes()];
    let mut answer = CacheStat::default();
    // SAFETY: `range` is the kernel's `struct cachestat_range` (two u64) and `answer` its `struct
    // cachestat` (five u64, `repr(C)`); both live through the call, and the kernel writes nothing
    // else.
    let result = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), std::ptr::from_mut(&mut answer), 0u32)
    };
    if result == 0 { Ok(answer) } else { Err(io::Error::last_os_error()) }
}

/// Counts the cached pages of a range of blocks: by `cachestat`, or by `mincore` before Linux 6.5.
///
/// # Errors
/// `EPERM` for a caller that neither owns the file nor may write it; before Linux 6.5 that caller
/// is told that everything is cached.
pub fn count_cached(file: BorrowedFd<'_>, first: u64, blocks: u64) -> io::Result<u64> {
    match cachestat(file, first, blocks) {
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => count_mapped(file, first, blocks),
        answer => answer.map(|stat| stat.cached),
    }
}

/// Blocks that are looked at in one go: a mapping of them gives as many bytes of answers.
const LOOKED_AT: u64 = 64 << 10;

/// Where fewer than one block in 512 is cached, halves are counted and blocks are not looked at.
const SPARSE_ONE_IN: u64 = 512;

/// Cached blocks among `blocks` from `first` on, ascending, neighbours as one range. By `cachestat`
/// where all or none are cached, or few, and else by `mincore`. It takes time for what is cached,
/// not for how long the file is.
///
/// # Errors
/// As [`count_cached`].
pub fn cached_ranges(file: BorrowedFd<'_>, first: u64, blocks: u64) -> io::Result<Vec<Range<u64>>> {
    cached_ranges_while(file, first, blocks, || true)
}

/// The same, for as long as `goes_on` says so.
///
/// # Errors
/// As [`count_cached`], and `Interrupted` if it was stopped.
pub fn cached_ranges_while(
    file: BorrowedFd<'_>,
    first: u64,
    blocks: u64,
    goes_on: impl Fn() -> bool,
) -> io::Result<Vec<Range<u64>>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut add = |found: Range<u64>| match ranges.last_mut() {
        Some(last) if last.end == found.start => last.end = found.end,
        _ => ranges.push(found),
    };
    // Parts that are still to be looked at, the first of them last; at most one for each halving.
    let mut parts = Vec::new();
    parts.extend((blocks > 0).then(|| first..first + blocks));
    while let Some(part) = parts.pop() {
        if !goes_on() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let blocks = part.end - part.start;
        let cached = match cachestat(file, part.start, blocks) {
            Ok(stat) => Some(stat.cached),
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => None,
            Err(error) => return Err(error),
        };
        match cached {
            Some(0) => {}
            Some(cached) if cached >= blocks => add(part),
            _ if blocks > LOOKED_AT || cached.is_some_and(|cached| cached < blocks / SPARSE_ONE_IN) => {
                let middle = part.start + blocks / 2;
                parts.extend([middle..part.end, part.start..middle]);
            }
            _ => {
                let answers = look(file, part.start, blocks)?;
                for (block, _) in part.zip(&answers).filter(|(_, answer)| **answer & 1 == 1) {
                    add(block..block + 1);
                }
            }
        }
    }
    Ok(ranges)
}

/// Counts the cached pages of a range of blocks by mapping it, which touches none of them.
fn count_mapped(file: BorrowedFd<'_>, first: u64, blocks: u64) -> io::Result<u64> {
    let mut cached = 0;
    for begin in (first..first + blocks).step_by(LOOKED_AT as usize) {
        let answers = look(file, begin, LOOKED_AT.min(first + blocks - begin))?;
        cached += answers.iter().filter(|&&answer| answer & 1 == 1).count() as u64;
    }
    Ok(cached)
}

/// What `mincore` says of blocks, one byte for each: bit 0 is set if it is cached.
fn look(file: BorrowedFd<'_>, first: u64, blocks: u64) -> io::Result<Vec<u8>> {
    let mut answers = vec![0u8; blocks as usize];
    let length = answers.len() * block_bytes() as usize;
    // SAFETY: a new mapping at a place of the kernel's choice; it is not read, so no file that
    // shrinks meanwhile is a signal.
    let place = unsafe {
        mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, first * block_bytes())
    }?;
    // SAFETY: `place` is mapped over `length` bytes, and the kernel writes one byte for each page
    // of them, as many as `answers` has.
    let told = unsafe { libc::mincore(place, length, answers.as_mut_ptr()) };
    let error = io::Error::last_os_error();
    // SAFETY: the mapping that was just made, and that nothing refers to.
    unsafe { munmap(place, length) }?;
    if told == 0 { Ok(answers) } else { Err(error) }
}

/// Drops the clean, unmapped folios that lie wholly in these blocks from the page cache.
///
/// # Errors
/// The kernel's answer; a page that stays is no error.
pub fn drop_blocks(file: BorrowedFd<'_>, first: u64, blocks: u64) -> io::Result<()> {
    let length = std::num::NonZeroU64::new(blocks * block_bytes());
    if length.is_none() {
        return Ok(());
    }
    fadvise(file, first * block_bytes(), length, Advice::DontNeed).map_err(io::Error::from)
}

/// Starts reading these blocks into the page cache; returns when the reads are queued.
///
/// # Errors
/// The kernel's answer.
pub fn read_ahead(file: BorrowedFd<'_>, first: u64, blocks: u64) -> io::Result<()> {
    // SAFETY: no memory is passed; the descriptor is borrowed and open.
    let result = unsafe {
        libc::readahead(
            file.as_raw_fd(),
            (first * block_bytes()) as libc::off64_t,
            (blocks * block_bytes()) as usize,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether this kernel knows `cachestat`.
pub fn has_cachestat() -> bool {
    // SAFETY: a descriptor that is none and null pointers: the kernel answers EBADF before it looks
    // at them.
    let result =
        unsafe { libc::syscall(SYS_CACHESTAT, -1, std::ptr::null::<u8>(), std::ptr::null::<u8>(), 0u32) };
    result == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS)
}

/// Whether the page cache holds all pages of bytes `start..end` of a file. The system call costs
/// 0.2 us for 4 KiB, 3 us for 1 MiB.
///
/// # Errors
/// As [`cachestat`].
pub fn is_cached(file: BorrowedFd<'_>, start: u64, end: u64) -> io::Result<bool> {
    Ok(cached_bytes(file, start, end)? >= end.saturating_sub(start))
}

/// Bytes of `start..end` of a file that the page cache holds: all but those of missing pages.
///
/// # Errors
/// As [`cachestat`].
pub fn cached_bytes(file: BorrowedFd<'_>, start: u64, end: u64) -> io::Result<u64> {
    if end <= start {
        return Ok(0);
    }
    let first = start / block_bytes();
    let blocks = end.div_ceil(block_bytes()) - first;
    let missing = blocks.saturating_sub(cachestat(file, first, blocks)?.cached);
    Ok((end - start).saturating_sub(missing * block_bytes()))
}

/// Has byte ranges of a file written to its disk and drops their pages from the page cache, those
/// at both ends with them. Returns when that is done. The disk is not told to empty a cache of its
/// own, so this is no `fsync`.
///
/// # Errors
/// Those of `sync_file_range`: what could not be written stays in the page cache.
pub fn write_out(file: BorrowedFd<'_>, ranges: &[Range<u64>]) -> io::Result<()> {
    let whole = |range: &Range<u64>| {
        let start = range.start / block_bytes() * block_bytes();
        (start, range.end.next_multiple_of(block_bytes()) - start)
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
        let page = block_bytes();
        let end = 10_000u64.next_multiple_of(page) + 2 * page;
        assert_eq!(cached_bytes(file.as_fd(), 0, end).unwrap(), end - 2 * page, "all pages but two");
        assert!(!is_cached(file.as_fd(), 0, end).unwrap(), "beyond the end there is nothing");
        assert!(is_cached(file.as_fd(), 5, 5).unwrap());
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        assert!(!is_cached(file.as_fd(), 0, 1).unwrap());
    }

    #[test]
    fn mappings_count_what_cachestat_counts() {
        let mut file = tempfile::tempfile_in(".").unwrap();
        let page = vec![7; block_bytes() as usize];
        (0..10).for_each(|_| file.write_all(&page).unwrap());
        file.sync_all().unwrap();
        let by_mapping = |first, blocks| count_mapped(file.as_fd(), first, blocks).unwrap();
        assert_eq!((by_mapping(0, 10), by_mapping(8, 10), by_mapping(20, 1)), (10, 2, 0), "at the end, too");
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        assert_eq!(by_mapping(0, 10), 0);
        let mut byte = [0];
        std::os::unix::fs::FileExt::read_at(&file, &mut byte, 5 * block_bytes()).unwrap();
        if let Ok(stat) = cachestat(file.as_fd(), 0, 10) {
            assert_eq!(by_mapping(0, 10), stat.cached);
        }
    }

    #[test]
    fn cached_neighbours_are_one_range() {
        let mut file = tempfile::tempfile_in(".").unwrap();
        let page = vec![7; block_bytes() as usize];
        (0..12).for_each(|_| file.write_all(&page).unwrap());
        let ranges = || cached_ranges(file.as_fd(), 0, 12).unwrap();
        let range = |start, end| vec![Range { start, end }];
        assert_eq!(ranges(), range(0, 12));
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        assert_eq!(ranges(), []);
        fadvise(&file, 0, None, Advice::Random).unwrap();
        for block in [2, 3, 7] {
            let mut byte = [0];
            std::os::unix::fs::FileExt::read_at(&file, &mut byte, block * block_bytes()).unwrap();
        }
        assert_eq!(ranges(), [2..4, 7..8]);
        assert_eq!(cached_ranges(file.as_fd(), 3, 1).unwrap(), range(3, 4));
    }

    #[test]
    fn a_long_file_of_which_little_is_cached_is_looked_through_at_once() {
        let file = tempfile::tempfile_in(".").unwrap();
        // As long as the file system has them; ext4 ends at 16 TiB.
        let length =
            [1 << 62, (1 << 44) - block_bytes()].into_iter().find(|&bytes| file.set_len(bytes).is_ok());
        let blocks = length.unwrap() / block_bytes();
        fadvise(&file, 0, None, Advice::Random).unwrap();
        let spots = [5, 6, blocks / 3, blocks - 1];
        for block in spots {
            std::os::unix::fs::FileExt::read_at(&file, &mut [0], block * block_bytes()).unwrap();
        }
        let (asked, begun) = (std::cell::Cell::new(0), std::time::Instant::now());
        let count = || asked.replace(asked.get() + 1) < 1000;
        let ranges = cached_ranges_while(file.as_fd(), 0, blocks, count).unwrap();
        assert_eq!(ranges, [5..7, spots[2]..spots[2] + 1, spots[3]..blocks]);
        assert!(asked.get() > 1 && begun.elapsed().as_secs() < 10, "{} questions", asked.get());
        let stopped = cached_ranges_while(file.as_fd(), 0, blocks, || false).unwrap_err();
        assert_eq!(stopped.kind(), io::ErrorKind::Interrupted);
        assert_eq!(cached_ranges(file.as_fd(), 0, 0).unwrap(), []);
    }

    #[test]
    fn what_is_written_out_is_not_cached_any_more() {
        let mut file = tempfile::tempfile_in(".").unwrap();
        // Written at once they would be one folio, which leaves as a whole.
        let page = vec![7; block_bytes() as usize];
        (0..10).for_each(|_| file.write_all(&page).unwrap());
        let cached = |file: &std::fs::File| cached_bytes(file.as_fd(), 0, 10 * block_bytes());
        if let Err(error) = cached(&file) {
            eprintln!("skipped: cachestat: {error}");
            return;
        }
        let page = block_bytes();
        // Parts of pages stand for all of them.
        write_out(file.as_fd(), &[100..page + 1, 5 * page..5 * page + 1]).unwrap();
        assert_eq!(cached(&file).unwrap(), 7 * page);
        let all = 0..10 * page;
        write_out(file.as_fd(), std::slice::from_ref(&all)).unwrap();
        assert_eq!(cached(&file).unwrap(), 0);
    }
}
