//! Q7 on real threads: a read through holes brings the right bytes, and a bad spot in a hole
//! spoils no block.
//!
//! The cache's clock goes on with the reads of its origin, as if each took 5 ms and 50 µs a block.

use std::io::{self, IoSliceMut, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pantler_cache::{Cache, ListEntry, Listed, Options, Request};
use pantler_origin::Source;
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
}

/// Reads a list of blocks to its end. Returns what the disk was asked for.
fn read_list(order: &[u64], bad: Option<u64>) -> Vec<(u64, u64)> {
    let now_ns = Arc::new(AtomicU64::new(0));
    // The file ends within a block.
    let bytes: Vec<u8> = (0..BLOCKS as usize * BLOCK - 100).map(|at| (at / BLOCK * 31 + at) as u8).collect();
    let disk = Arc::new(Disk { now_ns: Arc::clone(&now_ns), bytes, bad, asked: Mutex::default() });
    let options = Options { cache_bytes: 5 << 20, block_bytes: BLOCK, prefetchers: 1, ..Options::default() };
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
            let request = Request {
                owner: OwnerId(1),
                file: FILE,
                offset,
                length: BLOCK,
                size,
                source: &source,
                kernel: None,
            };
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
    disk.asked.lock().unwrap().clone()
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
