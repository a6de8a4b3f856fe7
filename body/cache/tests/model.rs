//! What is read equals a plain array of bytes, whatever was read, written, cut, replaced and
//! refused before.

use std::io::{self, IoSliceMut, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pantler_cache::{Cache, Options, Request};
use pantler_origin::Source;
use pantler_policy::Draws;
use pantler_steward::{Allocation, FileId, OwnerId, PolicyName};
use proptest::prelude::*;

const BLOCK: usize = 4096;

/// An origin in memory that can fail and can be held up.
#[derive(Default)]
struct Memory {
    bytes: Mutex<Vec<u8>>,
    fails: AtomicBool,
    panics: AtomicBool,
    reads: AtomicU64,
    /// While a test holds it, a read gets no further.
    gate: Mutex<()>,
}

impl Source for Memory {
    fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        drop(self.gate.lock());
        assert!(!self.panics.load(Ordering::SeqCst), "as told to by a test");
        if self.fails.load(Ordering::SeqCst) {
            return Err(io::Error::from_raw_os_error(5));
        }
        let bytes = self.bytes.lock().unwrap();
        (&bytes[bytes.len().min(offset as usize)..]).read_vectored(buffers)
    }
}

fn cache(frames: u64, allocation: Allocation) -> Cache {
    cache_of(frames, BLOCK, allocation)
}

fn cache_of(frames: u64, block_bytes: usize, allocation: Allocation) -> Cache {
    let spare = 2;
    let block = block_bytes as u64;
    let cache_bytes = frames * (block + pantler_cache::FRAME_METADATA_BYTES) + spare * block;
    let spare = spare as u32;
    Cache::new(Options { cache_bytes, block_bytes, spare, allocation, ..Options::default() }).unwrap()
}

fn read(
    cache: &Cache,
    owner: u64,
    source: &Arc<Memory>,
    offset: usize,
    length: usize,
) -> io::Result<Vec<u8>> {
    let size = source.bytes.lock().unwrap().len() as u64;
    let (owner, file, offset) = (OwnerId(owner), FileId(1), offset as u64);
    let source: Arc<dyn Source> = Arc::clone(source) as _;
    cache.read(&Request { owner, file, offset, length, size, source: &source, kernel: None }, |bytes| {
        bytes.to_vec()
    })
}

#[derive(Debug, Clone)]
enum Step {
    Read(u64, usize, usize),
    /// Reads while the origin fails: either the right bytes or an error.
    ReadFailing(usize, usize),
    Write(u64, usize, usize, u8),
    Resize(usize),
    Void(usize, usize),
    Policy(u64, bool),
    Exit(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let at = || 0usize..20 * BLOCK;
    let length = || prop_oneof![1usize..200, 1usize..6 * BLOCK, Just(BLOCK), Just(3 * BLOCK)];
    // Block boundaries are where mistakes live.
    let at = move || prop_oneof![at(), (0usize..20).prop_map(|block| block * BLOCK)];
    prop_oneof![
        6 => (0u64..3, at(), length()).prop_map(|(o, a, l)| Step::Read(o, a, l)),
        1 => (at(), length()).prop_map(|(a, l)| Step::ReadFailing(a, l)),
        4 => (0u64..3, at(), length(), any::<u8>()).prop_map(|(o, a, l, b)| Step::Write(o, a, l, b)),
        1 => at().prop_map(Step::Resize),
        1 => (at(), length()).prop_map(|(a, l)| Step::Void(a, l)),
        1 => (1u64..3, any::<bool>()).prop_map(|(o, m)| Step::Policy(o, m)),
        1 => (1u64..3).prop_map(Step::Exit),
    ]
}

fn take(cache: &Cache, source: &Arc<Memory>, step: &Step) {
    let file = FileId(1);
    match *step {
        Step::Read(owner, at, length) => check(cache, owner, source, at, length),
        Step::ReadFailing(at, length) => {
            source.fails.store(true, Ordering::SeqCst);
            let got = read(cache, 0, source, at, length);
            source.fails.store(false, Ordering::SeqCst);
            if let Ok(got) = got {
                let bytes = source.bytes.lock().unwrap();
                assert_eq!(got, bytes[at.min(bytes.len())..][..got.len()]);
            }
        }
        Step::Write(owner, at, length, byte) => {
            let data: Vec<u8> = (0..length).map(|i| byte.wrapping_add(i as u8)).collect();
            let mut bytes = source.bytes.lock().unwrap();
            let before = bytes.len();
            let needed = before.max(at + length);
            bytes.resize(needed, 0);
            bytes[at..at + length].copy_from_slice(&data);
            drop(bytes);
            cache.written(OwnerId(owner), file, at as u64, &data, before as u64);
        }
        Step::Resize(size) => {
            let mut bytes = source.bytes.lock().unwrap();
            let before = bytes.len();
            bytes.resize(size, 0);
            drop(bytes);
            cache.resized(file, before as u64, size as u64);
        }
        Step::Void(at, length) => {
            let mut bytes = source.bytes.lock().unwrap();
            let end = bytes.len().min(at + length);
            let start = at.min(end);
            bytes[start..end].reverse();
            drop(bytes);
            cache.void(file, at as u64, length as u64);
        }
        Step::Policy(owner, mru) => {
            let policy = if mru { PolicyName::Mru } else { PolicyName::Lru };
            cache.with_steward(|s| s.set_policy(OwnerId(owner), 0, policy)).unwrap();
        }
        Step::Exit(owner) => cache.with_steward(|s| s.exit(OwnerId(owner))),
    }
}

fn check(cache: &Cache, owner: u64, source: &Arc<Memory>, at: usize, length: usize) {
    let got = read(cache, owner, source, at, length).unwrap();
    let bytes = source.bytes.lock().unwrap();
    let start = at.min(bytes.len());
    let expected = &bytes[start..(at + length).min(bytes.len()).max(start)];
    assert!(got == expected, "{length} bytes at {at}: got {} bytes that differ", got.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn bytes_equal_the_model(
        frames in 4u64..12,
        size in 0usize..20 * BLOCK,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        // Blocks of a page, and of four, which are there in parts.
        let cuts = [(Allocation::GlobalLru, 1), (Allocation::LruSp, 1), (Allocation::LruSp, 4)];
        for (allocation, pages) in cuts {
            let cache = cache_of((frames / pages).max(4), BLOCK * pages as usize, allocation);
            let source = Arc::new(Memory::default());
            *source.bytes.lock().unwrap() = (0..size).map(|i| (i / 7) as u8).collect();
            for step in &steps {
                take(&cache, &source, step);
                cache.validate();
            }
            check(&cache, 0, &source, 0, 32 * BLOCK);
        }
    }
}

#[test]
fn concurrent_misses_of_a_block_make_one_read() {
    let cache = cache(8, Allocation::LruSp);
    let source = Arc::new(Memory::default());
    *source.bytes.lock().unwrap() = vec![7; 2 * BLOCK];
    let closed = source.gate.lock().unwrap();
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..6)
            .map(|owner| {
                scope.spawn({
                    let (cache, source) = (&cache, &source);
                    move || read(cache, owner, source, 100, 50)
                })
            })
            .collect();
        // The fetch is held up until every reader asked: a reader asks exactly once before it
        // waits.
        while cache.with_steward(|steward| steward.totals().references) < 6 {
            std::thread::yield_now();
        }
        drop(closed);
        for reader in readers {
            assert_eq!(reader.join().unwrap().unwrap(), vec![7; 50]);
        }
    });
    assert_eq!(source.reads.load(Ordering::SeqCst), 1);
    cache.validate();
}

#[test]
fn contiguous_missing_blocks_are_one_read() {
    let cache = cache(16, Allocation::LruSp);
    let source = Arc::new(Memory::default());
    *source.bytes.lock().unwrap() = vec![1; 12 * BLOCK];
    check(&cache, 1, &source, 4 * BLOCK, BLOCK);
    check(&cache, 1, &source, 0, 12 * BLOCK);
    // One for block 4, one for what lies before it, one for what lies after.
    assert_eq!(source.reads.load(Ordering::SeqCst), 3);
}

#[test]
fn a_write_during_a_fetch_wins() {
    let cache = cache(8, Allocation::LruSp);
    let source = Arc::new(Memory::default());
    *source.bytes.lock().unwrap() = vec![1; BLOCK];
    let closed = source.gate.lock().unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(&cache, 1, &source, 0, 10).unwrap());
        while source.reads.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        // The write is acknowledged while the fetch is on its way with whatever it found.
        source.bytes.lock().unwrap()[..10].fill(2);
        cache.written(OwnerId(2), FileId(1), 0, &[2; 10], BLOCK as u64);
        let later = scope.spawn(|| read(&cache, 2, &source, 0, 10).unwrap());
        drop(closed);
        assert_eq!(later.join().unwrap(), [2; 10], "a read that began after the write was acknowledged");
        reader.join().unwrap();
    });
    cache.validate();
}

#[test]
fn readers_writers_and_evictions_at_once_see_whole_blocks() {
    let cache = cache(6, Allocation::LruSp);
    let source = Arc::new(Memory::default());
    let blocks = 16;
    *source.bytes.lock().unwrap() = vec![0; blocks * BLOCK];
    let turn = Mutex::new(());
    std::thread::scope(|scope| {
        for writer in 0..2u64 {
            let (cache, source, turn) = (&cache, &source, &turn);
            scope.spawn(move || {
                for round in 0..1500usize {
                    let block = (round * 7 + writer as usize) % blocks;
                    let data = vec![(round % 251) as u8; BLOCK];
                    let _turn = turn.lock().unwrap();
                    source.bytes.lock().unwrap()[block * BLOCK..][..BLOCK].copy_from_slice(&data);
                    cache.written(
                        OwnerId(writer),
                        FileId(1),
                        (block * BLOCK) as u64,
                        &data,
                        (blocks * BLOCK) as u64,
                    );
                }
            });
        }
        for reader in 0..3u64 {
            let (cache, source) = (&cache, &source);
            scope.spawn(move || {
                for round in 0..3000usize {
                    let block = (round * 5 + reader as usize * 3) % blocks;
                    let got = read(cache, 10 + reader, source, block * BLOCK, BLOCK).unwrap();
                    assert!(got.iter().all(|&byte| byte == got[0]), "a torn block");
                }
            });
        }
    });
    cache.validate();
    check(&cache, 1, &source, 0, blocks * BLOCK);
}

#[test]
fn an_error_reaches_the_reader_and_leaves_nothing() {
    let cache = cache(8, Allocation::LruSp);
    let source = Arc::new(Memory::default());
    *source.bytes.lock().unwrap() = vec![3; 2 * BLOCK];
    source.fails.store(true, Ordering::SeqCst);
    assert_eq!(read(&cache, 1, &source, 0, 2 * BLOCK).unwrap_err().raw_os_error(), Some(5));
    assert_eq!(cache.with_steward(|steward| steward.used()), 0);
    source.fails.store(false, Ordering::SeqCst);
    check(&cache, 1, &source, 0, 2 * BLOCK);
}

#[test]
fn the_capacity_is_known_whatever_broke() {
    let cache = cache(8, Allocation::LruSp);
    assert_eq!(cache.capacity(), cache.with_steward(|steward| steward.capacity()));
    let breaks = std::panic::AssertUnwindSafe(|| cache.with_steward(|_| panic!("as told to by a test")));
    assert!(std::panic::catch_unwind(breaks).is_err());
    assert_eq!(cache.capacity(), 8);
}

#[test]
fn a_fetch_that_panics_fails_and_holds_nobody_up() {
    let cache = Arc::new(cache(8, Allocation::LruSp));
    let memory = || Memory { bytes: Mutex::new(vec![7; 4 * BLOCK]), ..Memory::default() };
    let bad = Memory { panics: AtomicBool::new(true), ..memory() };
    let (bad, good) = (Arc::new(bad), Arc::new(memory()));
    let closed = bad.gate.lock().unwrap();
    let start = |source: &Arc<Memory>, block: usize, length: usize| {
        let (cache, source, (sender, answer)) =
            (Arc::clone(&cache), Arc::clone(source), std::sync::mpsc::channel());
        std::thread::spawn(move || sender.send(read(&cache, 1, &source, block * BLOCK, length).unwrap()));
        answer
    };
    let first = start(&bad, 0, 4 * BLOCK);
    while bad.reads.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    // One waits for the block that was asked for, one for a block that comes along.
    let waiters = [start(&good, 0, 10), start(&good, 2, 10)];
    while cache.with_steward(|steward| steward.totals().references) < 6 {
        std::thread::yield_now();
    }
    drop(closed);
    let patience = std::time::Duration::from_secs(10);
    assert!(first.recv_timeout(patience).is_err(), "the panic is its own");
    for waiter in waiters {
        assert_eq!(waiter.recv_timeout(patience).expect("nobody waits for ever"), [7; 10]);
    }
    cache.validate();
}

#[test]
fn a_part_of_a_block_is_read_as_a_part_and_the_rest_after_three_requests_in_order() {
    let page = rustix::param::page_size();
    let cache = cache_of(8, 16 * page, Allocation::LruSp);
    let source = Arc::new(Memory::default());
    *source.bytes.lock().unwrap() = (0..32 * page).map(|i| (i / 11) as u8).collect();
    let fetched = |first: usize, pages: usize| {
        let before = cache.traffic().fetched_bytes;
        check(&cache, 1, &source, first * page, pages * page);
        cache.validate();
        (cache.traffic().fetched_bytes - before) / page as u64
    };
    assert_eq!(fetched(9, 1), 1, "a page");
    assert_eq!(fetched(9, 1), 0, "the same again");
    assert_eq!(fetched(3, 1), 1, "another");
    assert_eq!(fetched(7, 5), 4, "around one that is here");
    assert_eq!(cache.held(FileId(1), 7 * page as u64, 16 * page as u64), 5 * page as u64);
    assert_eq!(fetched(20, 1), 1);
    assert_eq!(fetched(21, 1), 1);
    assert_eq!(fetched(22, 1), 10, "the third in order brings what is left of the block");
    assert_eq!(cache.with_steward(|steward| steward.pages_used()), 6 + 12);
}

#[test]
fn a_reader_that_began_before_the_file_grew_hides_none_of_its_bytes() {
    let page = rustix::param::page_size();
    let cache = cache_of(8, 16 * page, Allocation::LruSp);
    let source = Arc::new(Memory::default());
    for (before, after) in [(1, 2), (page, 3 * page), (3 * page + 5, 7 * page), (7 * page, 20 * page)] {
        *source.bytes.lock().unwrap() = (0..after).map(|i| (i / 7) as u8).collect();
        cache.resized(FileId(1), before as u64, after as u64);
        // It learned the size before the change, and reads after it.
        let late: Arc<dyn Source> = Arc::clone(&source) as _;
        let size = before as u64;
        let request = Request {
            owner: OwnerId(1),
            file: FileId(1),
            offset: 0,
            length: after,
            size,
            source: &late,
            kernel: None,
        };
        assert_eq!(cache.read(&request, |bytes| bytes.len()).unwrap(), before);
        let pages = before.next_multiple_of(page).min(after) as u64;
        assert_eq!(cache.held(FileId(1), 0, after as u64), pages, "what its pages hold, and no more");
        check(&cache, 1, &source, before.saturating_sub(1), after);
        check(&cache, 1, &source, 0, after);
        cache.validate();
    }
}

#[test]
fn a_reader_that_believes_a_file_longer_reads_what_there_is() {
    let cache = cache_of(8, 16 * BLOCK, Allocation::LruSp);
    let source = Arc::new(Memory::default());
    let there = 5 * BLOCK + 7;
    *source.bytes.lock().unwrap() = (0..there).map(|i| (i / 7) as u8).collect();
    let file: Arc<dyn Source> = Arc::clone(&source) as _;
    let read = |offset: usize, length: usize| {
        let (owner, file_id, size) = (OwnerId(1), FileId(1), 12 * BLOCK as u64);
        let offset = offset as u64;
        let request = Request { owner, file: file_id, offset, length, size, source: &file, kernel: None };
        cache.read(&request, |bytes| bytes.len()).unwrap()
    };
    assert_eq!(read(0, 12 * BLOCK), there);
    let reads = source.reads.load(Ordering::SeqCst);
    assert_eq!([read(0, there), read(3 * BLOCK, BLOCK)], [there, BLOCK], "before the end");
    assert_eq!(source.reads.load(Ordering::SeqCst), reads, "it is here");
    assert_eq!([read(0, 12 * BLOCK), read(there - 3, BLOCK)], [there, 3], "past it");
    assert!(source.reads.load(Ordering::SeqCst) <= reads + 4, "each looks once, and takes what comes");
    cache.validate();
}

#[test]
fn readers_of_a_block_that_grows_read_what_is_there() {
    const PAGES: usize = 64;
    // Less than there is to read: blocks leave while others grow.
    let cache = cache_of(6, 16 * BLOCK, Allocation::LruSp);
    let source = Arc::new(Memory::default());
    *source.bytes.lock().unwrap() = (0..2 * PAGES * BLOCK).map(|i| (i / 13) as u8).collect();
    std::thread::scope(|scope| {
        for reader in 0..4 {
            let (cache, source) = (&cache, &source);
            scope.spawn(move || {
                let mut draws = Draws::new(reader);
                for _ in 0..3000 {
                    let page = draws.below(2 * PAGES as u64) as usize;
                    let length = 1 + draws.below(3 * BLOCK as u64) as usize;
                    check(cache, reader, source, page * BLOCK + 7, length);
                }
            });
        }
    });
    cache.validate();
}
