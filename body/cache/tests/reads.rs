//! Threads and io_uring bring the same bytes and meet the same errors: of files with holes, of
//! files that shrink meanwhile, and where io_uring is refused at once or half-way.

mod common;

use std::fs::File;
use std::io::{self, IoSliceMut, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::Served;
use pantler_cache::{ListEntry, Listed, Options, Request};
use pantler_origin::{Directory, LocalFile, OpenMode, Reads, ReadsStat, Ring, Source};
use pantler_rig::{eventually, forbid};
use pantler_steward::lists::Chunk;
use pantler_steward::{FileId, OwnerId};
use proptest::prelude::*;

const BLOCK: usize = 4096;
const FILE: FileId = FileId(1);

/// Whether this machine has io_uring. Where it has not, the same tests hold of threads, and that is
/// said past the capture of tests.
fn has_ring() -> bool {
    match Ring::new(1) {
        Ok(_) => true,
        Err(error) => {
            let text = format!(
                "NOT TESTED: io_uring, which this machine refuses ({error}); tested: threads instead\n"
            );
            let _ = io::stderr().write_all(text.as_bytes());
            false
        }
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn local(path: &Path) -> Arc<LocalFile> {
    let root = Directory::open(path.parent().unwrap()).unwrap().root().unwrap();
    Arc::new(root.lookup(path.file_name().unwrap()).unwrap().open(OpenMode::READ).unwrap())
}

/// A file of so many bytes: data where `data` says so, and holes.
fn make(path: &Path, size: usize, data: &[(usize, usize)]) -> Vec<u8> {
    let file = File::create(path).unwrap();
    file.set_len(size as u64).unwrap();
    let mut bytes = vec![0; size];
    for &(start, length) in data {
        let (start, end) = (start.min(size), (start + length).min(size));
        for (at, byte) in bytes[start..end].iter_mut().enumerate() {
            *byte = ((start + at) / BLOCK * 7 + at + 1) as u8;
        }
        file.write_all_at(&bytes[start..end], start as u64).unwrap();
    }
    file.sync_all().unwrap();
    bytes
}

struct Aligned(Vec<u8>, usize);

impl Aligned {
    fn new(length: usize) -> Self {
        Self(vec![0xaa; length + BLOCK], length)
    }

    fn bytes(&mut self) -> &mut [u8] {
        let start = self.0.as_ptr().align_offset(BLOCK);
        &mut self.0[start..start + self.1]
    }
}

/// Reads through a ring, all at once.
fn by_ring(ring: &mut Ring, file: &Arc<File>, reads: &[(u64, usize)]) -> Vec<io::Result<Vec<u8>>> {
    let mut buffers: Vec<Aligned> = reads.iter().map(|&(_, length)| Aligned::new(length)).collect();
    for (tag, (buffer, &(offset, _))) in buffers.iter_mut().zip(reads).enumerate() {
        let mut pieces: Vec<IoSliceMut<'_>> = buffer.bytes().chunks_mut(BLOCK).map(IoSliceMut::new).collect();
        // SAFETY: the buffers are left alone until everything has come back.
        unsafe { ring.read(tag as u64, Arc::clone(file), offset, &mut pieces) };
    }
    let mut results: Vec<Option<io::Result<usize>>> = reads.iter().map(|_| None).collect();
    while ring.on_their_way() > 0 {
        for (tag, result) in ring.wait() {
            assert!(results[tag as usize].replace(result).is_none(), "I2: {tag} came back twice");
        }
    }
    let read = results.into_iter().zip(&mut buffers);
    read.map(|(result, buffer)| result.expect("I2").map(|count| buffer.bytes()[..count].to_vec())).collect()
}

fn by_thread(source: &dyn Source, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut buffer = Aligned::new(length);
    let mut pieces: Vec<IoSliceMut<'_>> = buffer.bytes().chunks_mut(BLOCK).map(IoSliceMut::new).collect();
    let count = source.read_at(offset, &mut pieces)?;
    Ok(buffer.bytes()[..count].to_vec())
}

/// A cache of which one worker reads in a way; `prepare` is done in the worker before.
struct Scene {
    cache: Served,
}

impl Scene {
    fn new(reads: Reads, workers: usize, prepare: fn()) -> Self {
        let options =
            Options { cache_bytes: 4 << 20, block_bytes: BLOCK, trusting: true, reads, ..Options::default() };
        Self { cache: Served::new(options, workers, prepare) }
    }

    /// Brings blocks by a list, and waits until they are there or have failed.
    fn fetch(&self, source: &Arc<dyn Source>, blocks: &[u64]) {
        let listed = Listed { source: Arc::clone(source), position: Some(0) };
        let entry = |&block: &u64| ListEntry {
            chunk: Chunk { file: FILE, first: block, last: block },
            listed: listed.clone(),
        };
        let entries: Vec<ListEntry> = blocks.iter().map(entry).collect();
        self.cache.give_list(OwnerId(1), &entries).unwrap();
        eventually("nothing is on its way", || {
            let activity = self.cache.activity();
            activity.on_their_way == 0 && activity.waiting == 0
        });
    }

    fn read(&self, source: &Arc<dyn Source>, block: u64, size: usize) -> io::Result<Vec<u8>> {
        let (owner, offset) = (OwnerId(1), block * BLOCK as u64);
        let request = Request { owner, file: FILE, offset, length: BLOCK, size: size as u64, source };
        self.cache.read(&request, |bytes| bytes.to_vec())
    }
}

fn forbid_setup() {
    forbid(libc::SYS_io_uring_setup);
}

fn forbid_enter() {
    forbid(libc::SYS_io_uring_enter);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn both_ways_bring_the_same_of_any_file(
        size in 0..20 * BLOCK,
        data in prop::collection::vec((0..20 * BLOCK, 1..4 * BLOCK), 0..4),
        reads in prop::collection::vec((0..24u64, 1..6usize), 1..20),
    ) {
        let folder = folder();
        let path = folder.path().join("f");
        let bytes = make(&path, size, &data);
        let source = local(&path);
        let reads: Vec<(u64, usize)> =
            reads.iter().map(|&(block, count)| (block * BLOCK as u64, count * BLOCK)).collect();
        if has_ring() && let Some(file) = Source::direct(&*source).unwrap() {
            let mut ring = Ring::new(32).unwrap();
            for (result, &(offset, length)) in by_ring(&mut ring, &file, &reads).into_iter().zip(&reads) {
                let got = result.unwrap();
                prop_assert_eq!(&got, &by_thread(&*source, offset, length).unwrap());
                let start = size.min(offset as usize);
                prop_assert!(got == bytes[start..size.min(start + length)]);
            }
        }
        let source: Arc<dyn Source> = source;
        let blocks: Vec<u64> = reads.iter().map(|&(offset, _)| offset / BLOCK as u64).collect();
        for way in [Reads::Threads, Reads::IoUring, Reads::Auto] {
            let scene = Scene::new(way, 2, || ());
            scene.fetch(&source, &blocks);
            for &block in &blocks {
                let start = size.min(block as usize * BLOCK);
                let got = scene.read(&source, block, size).unwrap();
                prop_assert!(got == bytes[start..size.min(start + BLOCK)], "{} {}", way, block);
            }
        }
    }
}

/// A directory where a file is expected: reading it fails.
struct Unreadable(Arc<File>);

impl Source for Unreadable {
    fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Ok(rustix::io::preadv(&self.0, buffers, offset)?)
    }

    fn direct(&self) -> io::Result<Option<Arc<File>>> {
        Ok(Some(Arc::clone(&self.0)))
    }
}

/// Nobody may open it any more.
struct Denied;

impl Source for Denied {
    fn read_at(&self, _: u64, _: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(libc::EACCES))
    }

    fn direct(&self) -> io::Result<Option<Arc<File>>> {
        Err(io::Error::from_raw_os_error(libc::EACCES))
    }
}

#[test]
fn both_ways_meet_the_same_errors() {
    let folder = folder();
    let directory = Arc::new(File::open(folder.path()).unwrap());
    let sources: [(Arc<dyn Source>, i32); 2] =
        [(Arc::new(Unreadable(Arc::clone(&directory))), libc::EISDIR), (Arc::new(Denied), libc::EACCES)];
    for (source, expected) in sources {
        for way in [Reads::Threads, Reads::IoUring] {
            let scene = Scene::new(way, 1, || ());
            scene.fetch(&source, &[0, 1, 900]);
            let failed = || scene.cache.with_steward(|steward| steward.prefetched().failed);
            eventually("counted", || failed() == 3);
            let traffic = scene.cache.traffic();
            assert_eq!((traffic.fetches, traffic.failed, traffic.fetched_bytes), (2, 2, 0), "{way}");
            let error = scene.read(&source, 0, 9 * BLOCK).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(expected), "{way}");
        }
    }
    if has_ring() {
        let results = by_ring(&mut Ring::new(4).unwrap(), &directory, &[(0, BLOCK)]);
        assert_eq!(results[0].as_ref().unwrap_err().raw_os_error(), Some(libc::EISDIR));
    }
}

#[test]
fn a_file_that_shrinks_and_grows_meanwhile_gives_its_bytes_or_zeros_or_its_end() {
    let folder = folder();
    let path = folder.path().join("f");
    let size = 32 * BLOCK;
    let bytes = make(&path, size, &[(0, size)]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = File::options().write(true).open(&path).unwrap();
            while !stop.load(Ordering::Relaxed) {
                file.set_len(5 * BLOCK as u64 + 77).unwrap();
                file.set_len(size as u64).unwrap();
                file.write_all_at(&bytes[..16 * BLOCK], 0).unwrap();
            }
        });
        for way in [Reads::Threads, Reads::IoUring] {
            for _ in 0..20 {
                let source: Arc<dyn Source> = local(&path);
                let scene = Scene::new(way, 2, || ());
                scene.fetch(&source, &(0..32).collect::<Vec<_>>());
                for block in 0..32 {
                    let got = scene.read(&source, block, size).unwrap();
                    let expected = &bytes[block as usize * BLOCK..];
                    let fits = got.iter().zip(expected).all(|(got, expected)| *got == 0 || got == expected);
                    assert!(fits, "{way}: block {block} has bytes of nobody");
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn where_io_uring_is_refused_threads_read() {
    let folder = folder();
    let path = folder.path().join("f");
    let size = 64 * BLOCK + 100;
    let bytes = make(&path, size, &[(0, size)]);
    for forbid in [forbid_setup as fn(), forbid_enter] {
        let source: Arc<dyn Source> = local(&path);
        let scene = Scene::new(Reads::IoUring, 3, forbid);
        assert_eq!(scene.cache.reads().asked, Reads::IoUring);
        scene.fetch(&source, &(40..65).step_by(2).collect::<Vec<_>>());
        // On file systems that cannot be read past the page cache nobody asks for io_uring.
        if source.direct().unwrap().is_some() {
            let stat = scene.cache.reads();
            assert!(!stat.uses_ring, "{stat:?}");
            assert!(stat.refused.is_some(), "{stat:?}");
        }
        let fetches = scene.cache.traffic().fetches;
        for block in (40..65).step_by(2) {
            let start = block as usize * BLOCK;
            assert!(scene.read(&source, block, size).unwrap() == bytes[start..size.min(start + BLOCK)]);
        }
        assert_eq!(scene.cache.traffic().fetches, fetches, "everything was there before it was read");
    }
}

#[test]
fn what_was_handed_over_comes_back_though_the_ring_is_refused_half_way() {
    if !has_ring() {
        return;
    }
    let folder = folder();
    let path = folder.path().join("f");
    let bytes = make(&path, 16 * BLOCK, &[(0, 16 * BLOCK)]);
    let source = local(&path);
    let file = Arc::new(File::open(&path).unwrap());
    // A filter is for the life of its thread.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut ring = Ring::new(16).unwrap();
            let mut buffers: Vec<Aligned> = (0..16).map(|_| Aligned::new(BLOCK)).collect();
            for (tag, buffer) in buffers.iter_mut().enumerate() {
                if tag == 8 {
                    ring.submit();
                    forbid_enter();
                }
                let offset = (tag * BLOCK) as u64;
                // SAFETY: the buffers are left alone until everything has come back.
                unsafe {
                    ring.read(tag as u64, Arc::clone(&file), offset, &mut [IoSliceMut::new(buffer.bytes())])
                };
            }
            let mut seen = [false; 16];
            while ring.on_their_way() > 0 {
                for (tag, result) in ring.wait() {
                    assert!(!std::mem::replace(&mut seen[tag as usize], true), "I2: twice");
                    let start = tag as usize * BLOCK;
                    match result {
                        Ok(count) => {
                            assert!(
                                tag < 8
                                    && buffers[tag as usize].bytes()[..count] == bytes[start..start + count]
                            );
                        }
                        Err(error) => assert!(tag >= 8, "{tag}: {error}"),
                    }
                }
            }
            assert_eq!(seen, [true; 16]);
            assert_eq!(ring.refused().and_then(io::Error::raw_os_error), Some(libc::EPERM));
            assert!(by_thread(&*source, 0, BLOCK).unwrap() == bytes[..BLOCK]);
        });
    });
}

#[test]
fn a_ring_that_is_dropped_waits_for_what_is_on_its_way() {
    if !has_ring() {
        return;
    }
    let folder = folder();
    let path = folder.path().join("f");
    let bytes = make(&path, 64 * BLOCK, &[(0, 64 * BLOCK)]);
    let file = Arc::new(File::open(&path).unwrap());
    for _ in 0..50 {
        let mut buffer = Aligned::new(64 * BLOCK);
        let mut ring = Ring::new(1).unwrap();
        // SAFETY: the ring is dropped before the buffer is looked at.
        unsafe { ring.read(1, Arc::clone(&file), 0, &mut [IoSliceMut::new(buffer.bytes())]) };
        assert!(ring.is_full());
        ring.submit();
        drop(ring);
        let end = buffer.bytes();
        assert!(end.iter().zip(&bytes).all(|(got, expected)| got == expected), "it was awaited");
    }
}

#[test]
fn a_choice_is_made_by_reading_what_is_read_anyhow() {
    let folder = folder();
    let path = folder.path().join("f");
    make(&path, 64 * BLOCK, &[(0, 64 * BLOCK)]);
    let source: Arc<dyn Source> = local(&path);
    if source.direct().unwrap().is_none() {
        return;
    }
    let scene = Scene::new(Reads::Auto, 2, || ());
    assert!(!scene.cache.reads().uses_ring, "threads until it is known");
    scene.fetch(&source, &[0, 7, 9]);
    let decided = |stat: &ReadsStat| stat.threads.is_some() || stat.untried.is_some();
    eventually("tried", || decided(&scene.cache.reads()));
    let stat = scene.cache.reads();
    match (stat.ring, stat.threads) {
        (Some(ring), Some(threads)) => assert!(!stat.uses_ring || ring >= 1.2 * threads, "{stat:?}"),
        // A disk that is slow at that moment.
        _ if stat.untried.is_some() => assert!(!stat.uses_ring, "{stat:?}"),
        _ => assert!(!stat.uses_ring && stat.refused.is_some() && !has_ring(), "{stat:?}"),
    }
}
