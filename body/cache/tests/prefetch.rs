//! Prefetching on real threads: the bytes are those of a plain array whatever is in flight, lists
//! and lookahead bring blocks before they are read, and a prefetch that fails is no reader's error.

mod common;

use std::io::{self, IoSliceMut, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use common::Served;
use pantler_cache::{ListEntry, Listed, Options, Request};
use pantler_origin::Source;
use pantler_rig::eventually;
use pantler_steward::lists::Chunk;
use pantler_steward::{FileId, HintError, Lookahead, OwnerId};
use proptest::prelude::*;

const BLOCK: usize = 4096;
const FILE: FileId = FileId(1);

/// An origin in memory: it can fail, panic, and be held up, and notes what it was asked for.
#[derive(Default)]
struct Memory {
    bytes: Mutex<Vec<u8>>,
    fails: AtomicBool,
    panics: AtomicBool,
    /// Reads wait while this is set.
    held: Mutex<bool>,
    released: Condvar,
    waiting: AtomicU64,
    asked: Mutex<Vec<(u64, usize)>>,
}

impl Memory {
    fn new(blocks: usize) -> Arc<Self> {
        let memory = Self::default();
        *memory.bytes.lock().unwrap() = (0..blocks * BLOCK).map(|at| (at / BLOCK * 7 + at) as u8).collect();
        Arc::new(memory)
    }

    fn hold(&self) {
        *self.held.lock().unwrap() = true;
    }

    fn release(&self) {
        *self.held.lock().unwrap() = false;
        self.released.notify_all();
    }

    fn asked(&self) -> Vec<(u64, usize)> {
        self.asked.lock().unwrap().clone()
    }
}

impl Source for Memory {
    fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.asked.lock().unwrap().push((offset / BLOCK as u64, buffers.len()));
        // The bytes as they are when the read begins: the worst that a device may give.
        let bytes = self.bytes.lock().unwrap().clone();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut held = self.held.lock().unwrap();
        while *held {
            held = self.released.wait(held).unwrap();
        }
        drop(held);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        assert!(!self.panics.load(Ordering::SeqCst), "as told to by a test");
        if self.fails.load(Ordering::SeqCst) {
            return Err(io::Error::from_raw_os_error(5));
        }
        (&bytes[bytes.len().min(offset as usize)..]).read_vectored(buffers)
    }
}

/// A cache with workers, which end with it.
struct Scene {
    cache: Served,
}

impl Scene {
    fn new(frames: u64, lookahead: Lookahead, window: u32, workers: usize) -> Self {
        let spare = 2;
        let cache_bytes =
            frames * (BLOCK as u64 + pantler_cache::FRAME_METADATA_BYTES) + spare * BLOCK as u64;
        let spare = spare as u32;
        let options = Options {
            cache_bytes,
            block_bytes: BLOCK,
            spare,
            lookahead,
            window,
            trusting: true,
            ..Options::default()
        };
        Self { cache: Served::new(options, workers, || ()) }
    }

    fn read(&self, owner: u64, source: &Arc<Memory>, offset: usize, length: usize) -> io::Result<Vec<u8>> {
        let size = source.bytes.lock().unwrap().len() as u64;
        let shared: Arc<dyn Source> = Arc::clone(source) as _;
        let (owner, offset) = (OwnerId(owner), offset as u64);
        let request = Request { owner, file: FILE, offset, length, size, source: &shared, kernel: None };
        self.cache.read(&request, |bytes| bytes.to_vec())
    }

    fn check(&self, owner: u64, source: &Arc<Memory>, offset: usize, length: usize) {
        let got = self.read(owner, source, offset, length).unwrap();
        let bytes = source.bytes.lock().unwrap();
        let start = offset.min(bytes.len());
        let expected = &bytes[start..(offset + length).min(bytes.len()).max(start)];
        let differs = got.iter().zip(expected).position(|(one, other)| one != other);
        let (count, size) = (got.len(), bytes.len());
        assert!(got == expected, "{length} bytes at {offset} of {size}: {count}, {differs:?} differs");
    }

    fn list(&self, owner: u64, source: &Arc<Memory>, ranges: &[(u64, u64)]) -> Result<(), HintError> {
        let listed = Listed { source: Arc::clone(source) as _, position: Some(0) };
        let entry = |&(first, last): &(u64, u64)| ListEntry {
            chunk: Chunk { file: FILE, first, last },
            listed: listed.clone(),
        };
        self.cache.give_list(OwnerId(owner), &ranges.iter().map(entry).collect::<Vec<_>>())
    }

    fn write(&self, source: &Arc<Memory>, at: usize, data: &[u8]) {
        let before = {
            let mut bytes = source.bytes.lock().unwrap();
            let before = bytes.len();
            let needed = before.max(at + data.len());
            bytes.resize(needed, 0);
            bytes[at..at + data.len()].copy_from_slice(data);
            before
        };
        self.cache.written(OwnerId(9), FILE, at as u64, data, before as u64);
    }

    /// Until nothing is in flight.
    fn quiet(&self) {
        eventually("quiet", || {
            self.cache.with_steward(|s| {
                let cached: Vec<u64> = s.cached(FILE).collect();
                let arriving = |index| s.explain(pantler_steward::Block::new(FILE, index)).unwrap().arriving;
                !cached.into_iter().any(arriving)
            })
        });
    }
}

#[test]
fn a_list_is_fetched_before_it_is_read_and_neighbours_in_one_read() {
    let source = Memory::new(64);
    let scene = Scene::new(32, Lookahead::None, 1, 2);
    scene.list(1, &source, &[(0, 3), (8, 9)]).unwrap();
    scene.quiet();
    assert_eq!(source.asked(), [(0, 4), (8, 2)]);
    for block in [0, 1, 2, 3, 8, 9] {
        scene.check(1, &source, block * BLOCK, BLOCK);
    }
    assert_eq!(source.asked().len(), 2, "nothing was read again");
    let seen = scene.cache.with_steward(|steward| steward.prefetched());
    assert_eq!((seen.prefetched, seen.used, seen.wasted, seen.failed), (6, 6, 0, 0));
    assert_eq!(scene.cache.list(OwnerId(1)), None, "a list that is done is forgotten");
}

#[test]
fn a_block_on_its_way_is_waited_for_and_one_of_a_list_keeps_its_place_in_the_queue() {
    let source = Memory::new(64);
    let scene = Scene::new(32, Lookahead::None, 1, 1);
    source.hold();
    scene.list(1, &source, &[(0, 0), (8, 8)]).unwrap();
    eventually("the first is on its way", || source.waiting.load(Ordering::SeqCst) == 1);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| scene.check(1, &source, 0, BLOCK));
        // The one worker is busy with the first: a reader of the second waits for its turn (Q6).
        let second = scope.spawn(|| scene.check(1, &source, 8 * BLOCK, BLOCK));
        eventually("both wait", || scene.cache.activity().sleepers == 2);
        assert_eq!(source.asked(), [(0, 1)], "the second was not read out of turn");
        source.release();
        first.join().unwrap();
        second.join().unwrap();
    });
    scene.quiet();
    assert_eq!(source.asked(), [(0, 1), (8, 1)]);
    let seen = scene.cache.with_steward(|steward| steward.prefetched());
    assert_eq!((seen.prefetched, seen.used, seen.used_late), (2, 2, 2));
}

#[test]
fn a_scan_is_looked_ahead_and_large_reads_stay_one_read() {
    for lookahead in [Lookahead::Obl, Lookahead::W2r, Lookahead::SaW2r] {
        let source = Memory::new(64);
        let scene = Scene::new(32, lookahead, 4, 2);
        for block in 0..64 {
            scene.check(1, &source, block * BLOCK, BLOCK);
            scene.quiet();
        }
        // Nothing behind the end of the file is asked for.
        let seen = scene.cache.with_steward(|steward| steward.looked());
        assert_eq!((seen.prefetched, seen.used, seen.wasted, seen.failed), (63, 63, 0, 0), "{lookahead}");
        // What came counts for its reader and its file, and adds up.
        let all = 64 * BLOCK as u64;
        assert_eq!(scene.cache.traffic().fetched_bytes, all, "{lookahead}");
        scene.cache.with_steward(|steward| {
            let of_owner = steward.owner(OwnerId(1)).expect("it read").counters.read_bytes;
            let of_file = steward.files().next().expect("it is cached").traffic.read_bytes;
            assert_eq!((of_owner, of_file), (all, all), "{lookahead}");
        });
        let totals = scene.cache.with_steward(|steward| steward.totals());
        assert_eq!(totals.misses, 1, "{lookahead}: only the first block was missed");

        let source = Memory::new(64);
        let scene = Scene::new(32, lookahead, 4, 2);
        source.hold();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| scene.check(1, &source, 0, 16 * BLOCK));
            eventually("the read began", || source.asked().iter().any(|&(block, _)| block == 0));
            source.release();
            reader.join().unwrap();
            let first = source.asked().into_iter().find(|&(block, _)| block == 0);
            assert_eq!(first, Some((0, 16)), "{lookahead}: what is queued goes with the read");
        });
    }
}

#[test]
fn a_prefetch_that_fails_is_forgotten_and_the_reader_meets_the_error() {
    let source = Memory::new(64);
    let scene = Scene::new(32, Lookahead::None, 1, 1);
    source.fails.store(true, Ordering::SeqCst);
    scene.list(1, &source, &[(0, 3)]).unwrap();
    scene.quiet();
    let failed = || scene.cache.with_steward(|steward| steward.prefetched().failed);
    eventually("counted", || failed() == 4);
    assert_eq!(scene.cache.with_steward(|steward| steward.used()), 0, "and forgotten");
    assert_eq!(scene.read(1, &source, 0, BLOCK).unwrap_err().raw_os_error(), Some(5));
    source.fails.store(false, Ordering::SeqCst);
    scene.check(1, &source, 0, 4 * BLOCK);
    // One that panics is no other.
    source.panics.store(true, Ordering::SeqCst);
    scene.list(1, &source, &[(32, 32)]).unwrap();
    eventually("counted", || failed() == 5);
    source.panics.store(false, Ordering::SeqCst);
    scene.check(1, &source, 32 * BLOCK, BLOCK);
}

#[test]
fn what_changes_while_a_prefetch_is_on_its_way_is_never_read_old() {
    type Change = fn(&Scene, &Arc<Memory>);
    let write: Change = |scene, source| scene.write(source, 100, &[0xee; 50]);
    let cut: Change = |scene, source| {
        source.bytes.lock().unwrap().truncate(10);
        scene.cache.resized(FILE, 16 * BLOCK as u64, 10);
    };
    let void: Change = |scene, source| {
        source.bytes.lock().unwrap()[..BLOCK].reverse();
        scene.cache.void(FILE, 0, BLOCK as u64);
    };
    for (name, change) in [("write", write), ("cut", cut), ("void", void)] {
        let source = Memory::new(16);
        let scene = Scene::new(32, Lookahead::None, 1, 1);
        source.hold();
        scene.list(1, &source, &[(0, 1), (4, 4)]).unwrap();
        eventually("on its way", || source.waiting.load(Ordering::SeqCst) == 1);
        change(&scene, &source);
        source.release();
        scene.quiet();
        println!("{name}");
        scene.check(1, &source, 0, 5 * BLOCK);
    }
}

#[test]
fn without_anybody_who_serves_nothing_is_wanted_and_everything_is_read() {
    let source = Memory::new(64);
    let scene = Scene::new(8, Lookahead::W2r, 4, 0);
    scene.list(1, &source, &[(0, 63)]).unwrap();
    for block in 0..64 {
        scene.check(1, &source, block * BLOCK, BLOCK);
    }
    let scene = Scene::new(8, Lookahead::W2r, 4, 1);
    source.hold();
    scene.list(1, &source, &[(0, 0), (2, 2), (4, 4)]).unwrap();
    eventually("on its way", || source.waiting.load(Ordering::SeqCst) == 1);
    scene.cache.stop_prefetches();
    source.release();
    eventually("the worker ended", || scene.cache.have_ended());
    for block in 0..64 {
        scene.check(1, &source, block * BLOCK, BLOCK);
    }
}

#[test]
fn a_list_of_any_length_is_refilled_and_its_files_are_let_go() {
    let source = Memory::new(8);
    let scene = Scene::new(32, Lookahead::None, 1, 2);
    let entry = |file: u64| ListEntry {
        chunk: Chunk { file: FileId(file), first: 0, last: 0 },
        listed: Listed { source: Arc::clone(&source) as _, position: Some(0) },
    };
    let all: Vec<ListEntry> = (1..20_000).map(entry).collect();
    let mut rest = &all[..];
    let shared: Arc<dyn Source> = Arc::clone(&source) as _;
    for file in 1..20_000 {
        let left = scene.cache.list(OwnerId(1)).map_or(0, |list| list.ranges as usize);
        if left < 1000 && !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(4000));
            scene.cache.extend_list(OwnerId(1), now).unwrap();
            rest = later;
            assert!(Arc::strong_count(&source) < 20_000 + 12_000, "files behind the cursor are let go");
        }
        let file = FileId(file);
        let request = Request {
            owner: OwnerId(1),
            file,
            offset: 0,
            length: 1,
            size: BLOCK as u64,
            source: &shared,
            kernel: None,
        };
        scene.cache.read(&request, |bytes| assert_eq!(bytes.len(), 1)).unwrap();
    }
    let seen = scene.cache.with_steward(|steward| steward.prefetched());
    assert!(seen.used > 19_000, "{seen:?}");
    assert!(matches!(scene.cache.give_list(OwnerId(1), &all), Err(HintError::TooManyEntries(5000))));
}

#[derive(Debug, Clone)]
enum Step {
    Read(u64, usize, usize),
    Write(usize, usize, u8),
    Resize(usize),
    List(u64, Vec<(u64, u64)>),
    EndList(u64),
    Fails(bool),
    Exit(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let at = || prop_oneof![0usize..20 * BLOCK, (0usize..20).prop_map(|block| block * BLOCK)];
    let length = || prop_oneof![1usize..200, 1usize..6 * BLOCK, Just(BLOCK), Just(3 * BLOCK)];
    let ranges = prop::collection::vec((0u64..24, 0u64..5).prop_map(|(first, n)| (first, first + n)), 1..5);
    prop_oneof![
        8 => (1u64..3, at(), length()).prop_map(|(o, a, l)| Step::Read(o, a, l)),
        4 => (at(), length(), any::<u8>()).prop_map(|(a, l, b)| Step::Write(a, l, b)),
        1 => at().prop_map(Step::Resize),
        3 => (1u64..3, ranges).prop_map(|(o, r)| Step::List(o, r)),
        1 => (1u64..3).prop_map(Step::EndList),
        1 => any::<bool>().prop_map(Step::Fails),
        1 => (1u64..3).prop_map(Step::Exit),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Workers run as they like: whatever they do when, the bytes are right.
    #[test]
    fn bytes_equal_the_model_whatever_is_on_its_way(
        frames in 6u64..24,
        lookahead in proptest::sample::select(&Lookahead::ALL[..]),
        window in 1u32..6,
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let source = Memory::new(20);
        let scene = Scene::new(frames, lookahead, window, 2);
        for step in &steps {
            match *step {
                Step::Read(owner, at, length) => match scene.read(owner, &source, at, length) {
                    Ok(_) if source.fails.load(Ordering::SeqCst) => {}
                    Ok(_) => scene.check(owner, &source, at, length),
                    Err(error) => {
                        assert_eq!(error.raw_os_error(), Some(5));
                        assert!(source.fails.load(Ordering::SeqCst));
                    }
                },
                Step::Write(at, length, byte) => {
                    let data: Vec<u8> = (0..length).map(|i| byte.wrapping_add(i as u8)).collect();
                    scene.write(&source, at, &data);
                }
                Step::Resize(size) => {
                    let before = {
                        let mut bytes = source.bytes.lock().unwrap();
                        let before = bytes.len();
                        bytes.resize(size, 0);
                        before
                    };
                    scene.cache.resized(FILE, before as u64, size as u64);
                }
                Step::List(owner, ref ranges) => scene.list(owner, &source, ranges).unwrap(),
                Step::EndList(owner) => scene.cache.end_list(OwnerId(owner)),
                Step::Fails(fails) => source.fails.store(fails, Ordering::SeqCst),
                Step::Exit(owner) => scene.cache.with_steward(|s| s.exit(OwnerId(owner))),
            }
            scene.cache.validate();
        }
        source.fails.store(false, Ordering::SeqCst);
        scene.check(1, &source, 0, 24 * BLOCK);
    }
}
