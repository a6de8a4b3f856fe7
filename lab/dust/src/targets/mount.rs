//! A mount with a cache of its own, by timing alone: Pantler's, or any other that reads past the
//! kernel's page cache.
//!
//! ```text
//!   seed file, written               its blocks are cached, as they were written; it is deleted
//!     | copy_file_range: the bytes do not pass through the cache
//!     v
//!   test files  [0 1 2 ..] [4096 ..] one byte read of each block, timed
//!                  |          ^
//!                  +----------+      later files are copies of the first: a seed would evict
//! ```
//!
//! T1  Every block is read for the first time by a script: nothing is ever flushed, because files
//!     that are deleted leave what a policy has learnt.
//! T2  Blocks are as large as those of the cache, which are measured first: a second read at a
//!     distance is a hit if it is in the same block.
//!
//! T3  A file is never changed after its first read, and rests before it: a cache must not believe
//!     in what has just changed.
//!
//! T4  The way to the mount and back, which takes 5 us on one processor and 40 us between two, is
//!     measured each time with questions for attributes, and taken off: else hits that travel far
//!     would look like misses that do not. A question that waited for a processor takes off no more
//!     than others: see [`way`].
//!
//! T5  Files of runs that were killed are deleted by the next run on the mount:
//!     `.pantler-4711-99-dust_a0`, where no process 4711 began at 99. Why so:
//!     docs/decisions/0103-what-json-and-names-say-already.md.
//!
//! T6  Files have no more bytes at a time than were allowed, however large the cache is.
//!
//! A mount without `copy_file_range` gets its files written, and first reads may be hits.

mod way;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pantler_kernel::names::{is_leftover, run_name};
use rustix::fs::{Advice, AtFlags, OFlags, StatxFlags, copy_file_range, fadvise, statx};
use rustix::io::Errno;
use rustix::process::geteuid;

use self::way::Way;
use super::{Stop, Target, TargetError, failed};
use crate::infer::random::Random;
use crate::{Reading, Script};

/// What tells our files from others of runs.
const NAME: &str = "dust_";
/// Sizes of blocks that are told apart.
const BLOCK_MIN: u64 = 4096;
const BLOCK_MAX: u64 = 1 << 20;
/// Distances, each twice the one before, and places at which each is tried: the median decides.
const DISTANCES: u64 = (BLOCK_MAX / BLOCK_MIN).ilog2() as u64 + 1;
const PLACES: u64 = 5;
/// Bytes that are read for it, and how often that is done before a mount counts as one without a
/// cache.
const MEASURED_BYTES: u64 = DISTANCES * PLACES * 2 * BLOCK_MAX;
const MEASUREMENTS: u32 = 3;
/// Bytes of the seed file, which is copied again and again.
const SEED_BYTES: u64 = 4 << 20;
/// Bytes of a test file.
const FILE_BYTES: u64 = 32 << 20;
/// See T3: longer than a mount of Pantler takes to believe in a file.
const REST: Duration = Duration::from_millis(250);
/// Put in the place of the way: what is left without it is next to nothing for a hit.
const SHORT_WAY: Duration = Duration::from_micros(5);
/// A miss takes at least this many times as long as a hit, else nothing can be seen.
const APART: f64 = 1.25;

/// Whether a file is one of a run that was killed (T5).
fn is_left(name: &str) -> bool {
    name.strip_prefix('.').is_some_and(|name| name.contains(NAME) && is_leftover(name))
}

/// Frees the bytes of a left-over file of one's own, which another process may have open. In a
/// folder where others write, its name may lead anywhere.
fn emptied(path: &Path) -> io::Result<()> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new().write(true).custom_flags(flags.bits() as i32).open(path)?;
    let about = file.metadata()?;
    if about.is_file() && about.nlink() == 1 && about.uid() == geteuid().as_raw() {
        file.set_len(0)?;
    }
    Ok(())
}

/// See the head of this file.
#[derive(Debug)]
pub struct MountTarget {
    files: TestFiles,
    block_bytes: u64,
}

impl MountTarget {
    /// Makes the file on the mount and measures the size of its blocks.
    ///
    /// # Errors
    ///
    /// When nothing can be written there, hits and misses take the same time, `room_bytes` is not
    /// enough for the measurement, or `stop` says that the answer is not wanted any more.
    pub fn new(directory: &Path, room_bytes: u64, stop: Stop) -> Result<Self, TargetError> {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_name().to_str().is_some_and(is_left) {
                // One that cannot be deleted is in the way of its owner only, and visible.
                let _ = emptied(&entry.path());
                let _ = fs::remove_file(entry.path());
            }
        }
        let files = TestFiles::new(directory, 'a', room_bytes, stop.clone());
        let mut target = Self { files, block_bytes: BLOCK_MIN };
        target.block_bytes = target.measure_block()?;
        // Files of their own for the scripts: what the measurement left in the cache goes with its
        // files.
        target.files = TestFiles::new(directory, 'b', room_bytes, stop);
        Ok(target)
    }

    /// T2. A mount that was slow at first is measured again: hits may have taken as long as misses
    ///     until it had woken.
    fn measure_block(&mut self) -> Result<u64, TargetError> {
        let mut unseen = String::new();
        for round in 1..=MEASUREMENTS {
            match self.files.grow(u64::from(round) * MEASURED_BYTES) {
                // There is room for one round at least.
                Err(TargetError::Missing { .. }) if round > 1 => break,
                grown => grown?,
            }
            let (files, first) = (&mut self.files, u64::from(round - 1) * MEASURED_BYTES);
            match block_of(|at| files.read(first + at))? {
                Ok(bytes) => return Ok(bytes),
                Err(times) => unseen = times,
            }
        }
        Err(TargetError::Unseen { what: unseen })
    }
}

/// The least distance at which a second read takes as long as a first one, or what reads take where
/// that cannot be told.
///
/// Distances take turns: what is slow at first is slow at all of them.
fn block_of(
    mut read: impl FnMut(u64) -> Result<u64, TargetError>,
) -> Result<Result<u64, String>, TargetError> {
    // Far apart and not in order, so that nothing looks like a scan.
    let mut places: Vec<u64> = (0..DISTANCES * PLACES).collect();
    Random::new(1).shuffle(&mut places);
    let (mut firsts, mut agains) = (Vec::new(), Vec::new());
    let mut seconds = [const { Vec::new() }; DISTANCES as usize];
    for (turn, place) in places.into_iter().enumerate() {
        let (at, distance) = (place * 2 * BLOCK_MAX, turn % seconds.len());
        firsts.push(read(at)?);
        agains.push(read(at)?);
        seconds[distance].push(read(at + (BLOCK_MIN << distance))?);
    }
    let (miss, hit) = (median(&mut firsts) as f64, median(&mut agains) as f64);
    if miss < APART * hit {
        return Ok(Err(format!("a hit takes {hit:.0} ns, a miss {miss:.0} ns")));
    }
    let between = (miss * hit).sqrt();
    let found = seconds.iter_mut().position(|seconds| median(seconds) as f64 > between);
    Ok(Ok(found.map_or(BLOCK_MAX, |distance| BLOCK_MIN << distance)))
}

fn median(times: &mut [u64]) -> u64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}

impl Target for MountTarget {
    fn run(&mut self, script: &Script) -> Result<Vec<Reading>, TargetError> {
        self.files.grow(u64::from(script.blocks()) * self.block_bytes)?;
        // Inquiries of targets that cannot be flushed go on to new blocks instead (T1).
        let places = script.accesses.iter().map(|&block| u64::from(block) * self.block_bytes);
        places.map(|at| self.files.read(at).map(Reading::Took)).collect()
    }

    fn block_bytes(&self) -> Option<u64> {
        Some(self.block_bytes)
    }
}

/// Files on the mount, one after the other, deleted with their value.
#[derive(Debug)]
struct TestFiles {
    directory: PathBuf,
    series: char,
    files: Vec<(PathBuf, File)>,
    /// Whether bytes can be copied without passing through the cache; until that fails.
    copies: bool,
    /// Bytes that they may have at most.
    room_bytes: u64,
    way: Way,
    stop: Stop,
}

impl TestFiles {
    fn new(directory: &Path, series: char, room_bytes: u64, stop: Stop) -> Self {
        Self {
            directory: directory.to_owned(),
            series,
            files: Vec::new(),
            copies: true,
            room_bytes,
            way: Way::default(),
            stop,
        }
    }

    fn bytes(&self) -> u64 {
        self.files.len() as u64 * FILE_BYTES
    }

    /// Reads one byte, and says how many nanoseconds it took.
    fn read(&mut self, at: u64) -> Result<u64, TargetError> {
        self.stop.check()?;
        let (path, file) = &self.files[(at / FILE_BYTES) as usize];
        let at = at % FILE_BYTES;
        let mut byte = [0];
        // The first question wakes the answering thread, the second one is timed.
        asked(file);
        let before = asked(file);
        let start = Instant::now();
        file.read_exact_at(&mut byte, at).map_err(failed(path.display()))?;
        let took = start.elapsed();
        let there_and_back = self.way.around(before, asked(file));
        let took = (took.saturating_sub(there_and_back) + SHORT_WAY).as_nanos() as u64;
        // Copies in the kernel's page cache must not answer. Less than a page is never dropped.
        let _ = fadvise(file, 0, None, Advice::DontNeed);
        Ok(took)
    }

    /// Makes more files, until they have `bytes` bytes (T6).
    fn grow(&mut self, bytes: u64) -> Result<(), TargetError> {
        if bytes <= self.bytes() {
            return Ok(());
        }
        let needed = bytes.next_multiple_of(FILE_BYTES);
        if needed > self.room_bytes {
            return Err(TargetError::Missing {
                what: format!(
                    "room on {} for files of {} MiB ({} MiB are allowed)",
                    self.directory.display(),
                    needed >> 20,
                    self.room_bytes >> 20
                ),
                remedy: "allow more with --room, or make the cache smaller",
            });
        }
        while self.bytes() < bytes {
            self.stop.check()?;
            self.add()?;
        }
        self.stop.sleep(REST)
    }

    fn add(&mut self) -> Result<(), TargetError> {
        let name = run_name(&format!("{NAME}{}{}", self.series, self.files.len()));
        let path = self.directory.join(format!(".{name}"));
        let file = File::create_new(&path).map_err(failed(path.display()))?;
        // Where the kernel caches what it reads of a mount, it shall at least read nothing ahead.
        let _ = fadvise(&file, 0, None, Advice::Random);
        let filled = match self.files.first() {
            _ if !self.copies => Ok(false),
            None => sow(&file, &path),
            Some((_, first)) => copy(first, FILE_BYTES, &file),
        };
        self.copies = matches!(filled, Ok(true));
        let filled = filled.and_then(|done| if done { Ok(()) } else { write(&file) });
        // Deleted from now on, whatever happens.
        self.files.push((path.clone(), file));
        let file = &self.files[self.files.len() - 1].1;
        filled.and_then(|()| file.sync_all()).map_err(failed(path.display()))?;
        // Pages that the kernel kept of the write would make hits of first reads.
        let _ = fadvise(file, 0, None, Advice::DontNeed);
        Ok(())
    }
}

/// The time of a question that has nothing to do with the cache (T4).
fn asked(file: &File) -> Duration {
    let start = Instant::now();
    // The answer does not matter.
    let _ = statx(file, "", AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC, StatxFlags::SIZE);
    start.elapsed()
}

fn write(file: &File) -> io::Result<()> {
    let chunk = vec![0x5a; 1 << 20];
    (0..FILE_BYTES).step_by(chunk.len()).try_for_each(|at| file.write_all_at(&chunk, at))
}

/// Fills a file with copies of a seed file. False where that is not possible.
fn sow(file: &File, path: &Path) -> io::Result<bool> {
    let seed_path = path.with_extension("seed");
    let mut seed = File::create_new(&seed_path)?;
    let filled = (0..SEED_BYTES >> 20)
        .try_for_each(|_| seed.write_all(&vec![0x5a; 1 << 20]))
        .and_then(|()| copy(&seed, SEED_BYTES, file));
    // Cutting it drops its blocks from the cache before its name goes.
    let _ = seed.set_len(0);
    let _ = fs::remove_file(&seed_path);
    filled
}

/// Fills a file with copies of the first bytes of another. False where that is not possible.
fn copy(source: &File, bytes: u64, file: &File) -> io::Result<bool> {
    for start in (0..FILE_BYTES).step_by(bytes as usize) {
        let (mut from, mut at) = (0, start);
        while from < bytes {
            let left = (bytes - from) as usize;
            match copy_file_range(source, Some(&mut from), file, Some(&mut at), left) {
                Ok(0) | Err(Errno::XDEV | Errno::NOSYS | Errno::OPNOTSUPP) => return Ok(false),
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(true)
}

impl Drop for TestFiles {
    fn drop(&mut self) {
        for (path, file) in &self.files {
            // Cutting a file drops its blocks from the cache before its name goes. A file that
            // cannot be deleted is in the way of its owner only, and visible.
            let _ = file.set_len(0);
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::{ReadWriteFlags, preadv2};
    use std::io::IoSliceMut;

    /// Whether the kernel has a page; `None` where it does not say.
    fn is_kept(file: &File, at: u64) -> Option<bool> {
        let mut byte = [0];
        match preadv2(file, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT) {
            Ok(count) => Some(count == 1),
            Err(Errno::AGAIN) => Some(false),
            Err(_) => None,
        }
    }

    #[test]
    fn the_kernel_keeps_nothing_of_what_was_read() {
        // On a disk: memory has nowhere to drop its pages to.
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut files = TestFiles::new(folder.path(), 'a', FILE_BYTES, Stop::default());
        files.grow(1).unwrap();
        let places = [0, 4096 * 7 + 5, FILE_BYTES - 1];
        if is_kept(&files.files[0].1, 0).is_none() {
            assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "/var/tmp does not say what it keeps");
            eprintln!("SKIPPED: /var/tmp does not say what it keeps");
            return;
        }
        // A page that another part of the kernel holds just then stays until the next read.
        let written = places.iter().filter(|&&at| is_kept(&files.files[0].1, at) == Some(true)).count();
        assert!(written < 2, "{written} pages that were written");
        for at in places {
            let mut read = || {
                files.read(at).unwrap();
                is_kept(&files.files[0].1, at) == Some(false)
            };
            assert!((0..5).any(|_| read()), "{at}, read");
        }
        // The detector.
        let file = &files.files[0].1;
        file.read_exact_at(&mut [0], 5).unwrap();
        assert_eq!(is_kept(file, 5), Some(true));
    }

    /// Takes as long as a mount with blocks of `block` bytes, and much longer for `slow` reads.
    fn takes(block: u64, mut slow: u32) -> impl FnMut(u64) -> Result<u64, TargetError> {
        let mut read = std::collections::HashSet::new();
        move |at| {
            let took = if read.insert(at / block) { 90_000 } else { 6_000 };
            let wait = if slow > 0 { 3_000_000 } else { 0 };
            slow = slow.saturating_sub(1);
            Ok(took + wait)
        }
    }

    #[test]
    fn blocks_are_as_large_as_they_are_also_where_the_first_answers_are_slow() {
        for block in [4096, 32 << 10, 1 << 20] {
            for slow in [0, 1, 15, 30, 50] {
                assert_eq!(block_of(takes(block, slow)).unwrap(), Ok(block), "{slow} slow");
            }
            // More than half of it tells nothing, and so it is said.
            let unseen = block_of(takes(block, 100)).unwrap();
            assert!(
                unseen.as_ref().is_err_and(|what| what.starts_with("a hit takes 3006000 ns")),
                "{unseen:?}"
            );
        }
        let always = block_of(takes(4096, u32::MAX)).unwrap();
        assert!(always.is_err(), "{always:?}");
    }

    #[test]
    fn files_take_no_more_room_than_they_may() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = TestFiles::new(folder.path(), 'a', FILE_BYTES, Stop::default());
        let error = files.grow(FILE_BYTES + 1).unwrap_err().to_string();
        assert!(error.contains("for files of 64 MiB (32 MiB are allowed)"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_files_of_ended_runs_are_left_over() {
        assert!(is_left(".pantler-4194305-77-dust_a0"), "no such process");
        let own = format!(".{}", run_name("dust_a0"));
        for other in [own.as_str(), "pantler-4194305-77-dust_a0", ".pantler-4194305-77-notes", ".dust_a0"] {
            assert!(!is_left(other), "{other}");
        }
    }

    #[test]
    fn what_is_left_over_leads_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let (precious, left) = (folder.path().join("precious"), folder.path().join("left"));
        fs::write(&precious, "bytes").unwrap();
        std::os::unix::fs::symlink(&precious, &left).unwrap();
        assert!(emptied(&left).is_err());
        fs::remove_file(&left).unwrap();
        fs::hard_link(&precious, &left).unwrap();
        emptied(&left).unwrap();
        assert_eq!(fs::read(&precious).unwrap(), b"bytes");
        fs::remove_file(&left).unwrap();
        // It has no reader, and a reader is not waited for.
        rustix::fs::mkfifoat(rustix::fs::CWD, &left, rustix::fs::Mode::RWXU).unwrap();
        assert!(emptied(&left).is_err());
        emptied(&precious).unwrap();
        assert_eq!(fs::read(&precious).unwrap(), b"");
    }
}
