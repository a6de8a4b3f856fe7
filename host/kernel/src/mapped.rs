//! Where a process has a file mapped, and how mapped pages leave the page cache.
//!
//! `fadvise` does not drop a page that is mapped. `MADV_PAGEOUT` takes it from the tables of the
//! process first. The kernel keeps a page that several processes have mapped, one that is dirty,
//! and one that waits to enter the order of eviction, and tells of none of them: what stayed has
//! to be counted.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::pages::block_bytes;
use crate::process::read_process;

/// One mapping of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// Bytes of the file before the first that is mapped.
    pub offset: u64,
    /// What the process writes there is its own: a page may be a copy, and not the file's.
    pub is_private: bool,
    /// The process runs what is there.
    pub is_code: bool,
}

impl Mapping {
    /// Its name in `/proc/PID/map_files`.
    pub fn name(&self) -> String {
        format!("{:x}-{:x}", self.start, self.end)
    }

    /// The addresses of these bytes of the file, as far as they are mapped.
    fn addresses(&self, bytes: &Range<u64>) -> Range<u64> {
        let mapped = self.offset..self.offset.saturating_add(self.end - self.start);
        let (from, until) = (bytes.start.max(mapped.start), bytes.end.min(mapped.end));
        if from < until {
            self.start + (from - self.offset)..self.start + (until - self.offset)
        } else {
            0..0
        }
    }
}

/// The mappings of a process that show the right file, by its device, as events write it, and its
/// inode; none when the process is gone.
pub fn mappings_of(tid: u32, is_right: impl Fn(u32, u64) -> bool) -> Vec<Mapping> {
    let maps = read_process(tid, "maps").unwrap_or_default();
    let known = maps.lines().filter_map(parse);
    known.filter(|&(_, dev, ino)| is_right(dev, ino)).map(|(mapping, ..)| mapping).collect()
}

/// A line of `maps`: the mapping, device and inode.
fn parse(line: &str) -> Option<(Mapping, u32, u64)> {
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next()?;
    let (is_private, is_code) = (rights.ends_with('p'), rights.contains('x'));
    let offset = hex(words.next()?)?;
    let (major, minor) = words.next()?.split_once(':')?;
    let mapping = Mapping { start: hex(start)?, end: hex(end)?, offset, is_private, is_code };
    let dev = (hex(major)? << 20 | hex(minor)?).try_into().ok()?;
    (mapping.start < mapping.end).then_some((mapping, dev, words.next()?.parse().ok()?))
}

/// A process that has a file mapped.
#[derive(Debug)]
pub struct Mapper {
    process: OwnedFd,
    pages: File,
    mappings: Vec<Mapping>,
}

/// Marks of a page in `/proc/PID/pagemap`: it is in memory; it is a file's, or shared.
const PRESENT: u64 = 1 << 63;
const PAGE_OF_FILE: u64 = 1 << 61;
/// Entries of `pagemap` that are read at once.
const ENTRIES: u64 = 4096;
/// Ranges that one call takes: `IOV_MAX`.
const VECTORS_MAX: usize = 1024;

impl Mapper {
    /// A process and where it has the right file mapped, as [`mappings_of`]; `None` if nowhere, or
    /// if it is code: the process may run that all the time, and nothing tells.
    ///
    /// # Errors
    /// The process is gone, or we may not look at it.
    pub fn look(process: u32, is_right: impl Fn(u32, u64) -> bool) -> io::Result<Option<Mapper>> {
        let pid = Pid::from_raw(process as i32).ok_or(io::ErrorKind::NotFound)?;
        // Opened first: a process that gets its number later is not acted on. What this one maps
        // there from now on is acted on, and read again at worst.
        let descriptor = pidfd_open(pid, PidfdFlags::empty())?;
        let mappings = mappings_of(process, is_right);
        if mappings.is_empty() || mappings.iter().any(|mapping| mapping.is_code) {
            return Ok(None);
        }
        let pages = File::open(format!("/proc/{process}/pagemap"))?;
        Ok(Some(Mapper { process: descriptor, pages, mappings }))
    }

    /// Has the pages of these blocks of the file leave, that no other process has mapped. Copies
    /// that the process made of them stay. The process reads them anew when it uses them again.
    ///
    /// # Errors
    /// Needs `CAP_SYS_NICE`, the rights of ptrace, Linux 5.10. A page that stays is no error.
    pub fn page_out(&self, first: u64, blocks: u64) -> io::Result<()> {
        let bytes = first * block_bytes()..(first + blocks) * block_bytes();
        let mut done = Ok(());
        for mapping in &self.mappings {
            // Of several mappings one may be locked in memory.
            let given_up = self.of_the_file(mapping, mapping.addresses(&bytes)).and_then(|ranges| {
                ranges.chunks(VECTORS_MAX).try_for_each(|ranges| self.advise_pageout(ranges))
            });
            done = done.and(given_up);
        }
        done
    }

    /// The addresses of this range that show no copy.
    fn of_the_file(&self, mapping: &Mapping, range: Range<u64>) -> io::Result<Vec<Range<u64>>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        if !mapping.is_private {
            return Ok(vec![range]);
        }
        let mut found: Vec<Range<u64>> = Vec::new();
        let (mut at, end) = (range.start / block_bytes(), range.end.div_ceil(block_bytes()));
        while at < end {
            let mut entries = vec![0; 8 * ENTRIES.min(end - at) as usize];
            self.pages.read_exact_at(&mut entries, at * 8)?;
            for entry in entries.chunks_exact(8) {
                let marks = u64::from_ne_bytes(entry.try_into().expect("eight bytes"));
                let page = at * block_bytes()..(at + 1) * block_bytes();
                at += 1;
                if marks & (PRESENT | PAGE_OF_FILE) != PRESENT | PAGE_OF_FILE {
                    continue;
                }
                match found.last_mut() {
                    Some(last) if last.end == page.start => last.end = page.end,
                    _ => found.push(page),
                }
            }
        }
        Ok(found)
    }

    fn advise_pageout(&self, ranges: &[Range<u64>]) -> io::Result<()> {
        let vector = |range: &Range<u64>| libc::iovec {
            iov_base: range.start as *mut _,
            iov_len: (range.end - range.start) as usize,
        };
        let vectors: Vec<libc::iovec> = ranges.iter().map(vector).collect();
        let flags = 0u32;
        // SAFETY: the kernel reads the vectors, which live through the call. Their addresses are
        // those of another process, whose bytes stay what they are: a page of a file that leaves is
        // read again.
        let advised = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                self.process.as_raw_fd(),
                vectors.as_ptr(),
                vectors.len(),
                libc::MADV_PAGEOUT,
                flags,
            )
        };
        if advised < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::metadata;
    use std::os::unix::fs::MetadataExt;

    use crate::mount_table::kernel_dev;

    #[test]
    fn this_process_has_its_program_mapped() {
        let (own, program) = (std::process::id(), metadata("/proc/self/exe").expect("a file"));
        let is_program = |dev, ino| (dev, ino) == (kernel_dev(program.dev()), program.ino());
        let mappings = mappings_of(own, is_program);
        assert!(metadata(format!("/proc/self/map_files/{}", mappings[0].name())).is_ok());
        assert!(mappings.iter().all(|mapping| mapping.is_private));
        assert_eq!(mappings_of(own, |_, _| false), []);
        assert!(Mapper::look(own, |_, _| false).expect("this process").is_none());
        assert!(Mapper::look(own, is_program).expect("this process").is_none(), "it is code");
    }

    #[test]
    fn a_line_says_what_is_mapped_where() {
        let mapping =
            Mapping { start: 0x7f00_0000, end: 0x7f00_4000, offset: 0x2000, is_private: true, is_code: true };
        let line = "7f000000-7f004000 r-xp 00002000 fd:1a 131 /usr/lib/a b";
        assert_eq!(parse(line), Some((mapping, 0xfd << 20 | 0x1a, 131)));
        assert_eq!(mapping.addresses(&(0..0x3000)), 0x7f00_0000..0x7f00_1000);
        assert_eq!(mapping.addresses(&(0x3000..0x4000)), 0x7f00_1000..0x7f00_2000);
        assert_eq!(mapping.addresses(&(0x5000..0x9000)), 0x7f00_3000..0x7f00_4000);
        assert!(mapping.addresses(&(0x6000..0x9000)).is_empty());
        assert!(mapping.addresses(&(0..0x2000)).is_empty());
        assert_eq!(
            parse("7f00-7f10 rw-s 00000000 00:00 0 [heap]").map(|(it, ..)| it.is_private),
            Some(false)
        );
        assert_eq!(parse("7f00-7f00 r--p 00000000 fd:1a 131"), None);
        assert_eq!(parse(""), None);
    }
}
