//! Q7 on real threads: what is read through holes has the bytes that it has anywhere else, and a
//!    bad spot that nobody wants
//! spoils nothing.
//!
//! The cache's clock goes on with the reads of its origin, as if each took 5 ms and 50 µs a block.

use std::fs::File;
use std::io::{self, IoSliceMut, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pantler_cache::{Cache, ListEntry, Listed, Options, Request};
use pantler_origin::{Reads, Ring, Source};
use pantler_steward::lists::Chunk;
use pantler_steward::{FileId, OwnerId};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 4000;
const FILE: FileId = FileId(1);

struct Disk {
    now_ns: Arc<AtomicU64>,
    bytes: Vec<u8>,
    /// A block that cannot be read.
    bad: Option<u64>,
    /// Blocks of each read by a thread.
    asked: Mutex<Vec<(u64, u64)>>,
    /// The same bytes, for who reads by io_uring.
    file: Option<Arc<File>>,
}

impl Source for Disk {
    fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let length: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        let (first, count) = (offset / BLOCK as u64, (length / BLOCK) as u64);
        self.asked.lock().unwrap().push((first, count));
        self.now_ns.fetch_add(5_000_000 + count * 50_000, Ordering::SeqCst);
        if self.bad.is_some_and(|bad| (first..first + count).contains(&bad)) {
            return Err(io::Error::from_raw_os_error(5));
        }
        // Else it would go through the page cache.
        let is_aligned = |buffer: &IoSliceMut<'_>| buffer.as_ptr().align_offset(BLOCK) == 0;
        assert!(buffers.iter().all(is_aligned), "reads past the page cache cannot fill that");
        (&self.bytes[self.bytes.len().min(offset as usize)..]).read_vectored(buffers)
    }

    fn direct(&self) -> io::Result<Option<Arc<File>>> {
        // Nobody says how much will be read.
        self.now_ns.fetch_add(5_800_000, Ordering::SeqCst);
        Ok(self.file.clone())
    }
}

/// Reads a list of blocks to its end. Returns what the disk was asked for.
fn read_list(order: &[u64], bad: Option<u64>) -> Vec<(u64, u64)> {
    let (disk, _) = read_by(order, bad, |_| None);
    disk.asked.lock().unwrap().clone()
}

/// The same, by io_uring where there is a file. Returns the disk, and how many bytes were read.
fn read_by(order: &[u64], bad: Option<u64>, file: impl FnOnce(&[u8]) -> Option<File>) -> (Arc<Disk>, u64) {
    let now_ns = Arc::new(AtomicU64::new(0));
    // The file ends within a block.
    let bytes: Vec<u8> = (0..BLOCKS as usize * BLOCK - 100).map(|at| (at / BLOCK * 31 + at) as u8).collect();
    let file = file(&bytes).map(Arc::new);
    let reads = if file.is_some() { Reads::IoUring } else { Reads::Threads };
    let disk = Arc::new(Disk { now_ns: Arc::clone(&now_ns), bytes, bad, asked: Mutex::default(), file });
    let options =
        Options { cache_bytes: 5 << 20, block_bytes: BLOCK, prefetchers: 1, reads, ..Options::default() };
    let cache = Cache::new(options).unwrap();
    cache.set_clock(move || now_ns.load(Ordering::SeqCst));
    let source: Arc<dyn Source> = Arc::clone(&disk) as _;
    std::thread::scope(|scope| {
        scope.spawn(|| cache.serve_prefetches());
        while cache.prefetch_workers() == 0 {
            std::thread::yield_now();
        }
        let listed = Listed { source: Arc::clone(&source), position: Some(0) };
        let entry = |&first: &u64| ListEntry {
            chunk: Chunk { file: FILE, first, last: first },
            listed: listed.clone(),
        };
        cache.give_list(OwnerId(1), &order.iter().map(entry).collect::<Vec<_>>()).unwrap();
        for &block in order {
            let (offset, size) = (block * BLOCK as u64, disk.bytes.len() as u64);
            let request =
                Request { owner: OwnerId(1), file: FILE, offset, length: BLOCK, size, source: &source };
            let read = cache.read(&request, |bytes| {
                let start = offset as usize;
                let expected = &disk.bytes[start..(start + BLOCK).min(disk.bytes.len())];
                assert!(bytes == expected, "block {block}: {} bytes", bytes.len());
            });
            assert_eq!(read.is_err(), Some(block) == bad, "block {block}");
        }
        cache.stop_prefetches();
    });
    cache.validate();
    let (by_ring, fetched_bytes) = (cache.reads().by_ring, cache.traffic().fetched_bytes);
    println!("{by_ring} reads by io_uring, {fetched_bytes} bytes in all");
    (disk, fetched_bytes)
}

/// Whether this machine has io_uring. Where it has not, the same holds of threads, and that is said
/// past the capture of tests.
fn has_ring() -> bool {
    let refused = Ring::new(1).err();
    if let Some(error) = &refused {
        let _ = writeln!(io::stderr(), "NOT TESTED: io_uring, which this machine refuses ({error})");
    }
    refused.is_none()
}

/// Blocks all over the file, each once, its last one among them.
fn scattered(count: u64) -> Vec<u64> {
    // 1,499 and 4,000 have no common divisor.
    (1..=count).map(|at| (at * 1499 + BLOCKS - 1) % BLOCKS).chain([BLOCKS - 1]).collect()
}

#[test]
fn blocks_are_read_through_holes_and_right() {
    let order = scattered(1800);
    let asked = read_list(&order, None);
    let (reads, passed) = (asked.len(), asked.iter().map(|(_, count)| count).sum::<u64>());
    println!("{} blocks: {reads} reads of {passed} blocks", order.len());
    assert!(reads * 2 < order.len(), "{reads} reads of {} blocks", order.len());
    assert!(asked.iter().any(|(_, count)| *count >= 64), "none is long");
}

#[test]
fn a_bad_spot_in_a_hole_spoils_nothing() {
    let order = scattered(1800);
    let bad = (0..BLOCKS).find(|block| *block > 2000 && !order.contains(block)).expect("there are holes");
    let asked = read_list(&order, Some(bad));
    let met = asked.iter().filter(|(first, count)| (*first..first + count).contains(&bad)).count();
    assert!(met > 0, "no read went through {bad}");
}

#[test]
fn a_bad_block_is_the_error_of_who_reads_it() {
    let order = scattered(1800);
    read_list(&order, Some(order[1200]));
}

#[test]
fn io_uring_reads_through_holes_too() {
    let order = scattered(1800);
    let write = |bytes: &[u8]| {
        let mut file = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        file.write_all(bytes).unwrap();
        Some(file)
    };
    let (disk, fetched_bytes) = read_by(&order, None, write);
    if has_ring() {
        let by_threads = disk.asked.lock().unwrap().len();
        assert!(by_threads * 2 < order.len(), "{by_threads} reads by threads of {} blocks", order.len());
        let wanted = (order.len() * BLOCK) as u64;
        assert!(fetched_bytes > wanted * 5 / 4, "{fetched_bytes} bytes for {wanted}: nothing was in holes");
    }
}

#[test]
fn what_io_uring_cannot_read_threads_read_piece_by_piece() {
    let order = scattered(1800);
    // Open to be written only.
    let write_only = |bytes: &[u8]| {
        let named = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let file = File::options().write(true).open(named.path()).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
        Some(file)
    };
    for bad in [None, Some(order[1200])] {
        let (disk, _) = read_by(&order, bad, write_only);
        assert!(disk.asked.lock().unwrap().len() > 16, "{bad:?}");
    }
}
