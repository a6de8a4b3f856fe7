//! Blocks that are read ahead have the bytes of their file and meet its errors: files with holes,
//! files that shrink meanwhile, sources that fail.

mod common;

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::Served;
use pantler_cache::{ListEntry, Listed, Options, Request};
use pantler_origin::{Directory, LocalFile, OpenMode, Source};
use pantler_rig::eventually;
use pantler_steward::lists::Chunk;
use pantler_steward::{FileId, OwnerId};
use proptest::prelude::*;

const BLOCK: usize = 4096;
const FILE: FileId = FileId(1);

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn local(path: &Path) -> Arc<LocalFile> {
    let root = Directory::open(path.parent().unwrap()).unwrap().root().unwrap();
    Arc::new(root.lookup(path.file_name().unwrap()).unwrap().open(OpenMode::READ).unwrap())
}

/// A file of `size` bytes: data where `data` says so, and holes.
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

/// A cache with `workers` threads that read ahead.
struct Scene {
    cache: Served,
}

impl Scene {
    fn new(workers: usize) -> Self {
        let options =
            Options { cache_bytes: 4 << 20, block_bytes: BLOCK, trusting: true, ..Options::default() };
        Self { cache: Served::new(options, workers, || ()) }
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
        let request =
            Request { owner, file: FILE, offset, length: BLOCK, size: size as u64, source, kernel: None };
        self.cache.read(&request, |bytes| bytes.to_vec())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn reading_ahead_brings_the_bytes_of_any_file(
        size in 0..20 * BLOCK,
        data in prop::collection::vec((0..20 * BLOCK, 1..4 * BLOCK), 0..4),
        blocks in prop::collection::vec(0..24u64, 1..20),
    ) {
        let folder = folder();
        let path = folder.path().join("f");
        let bytes = make(&path, size, &data);
        let source: Arc<dyn Source> = local(&path);
        let scene = Scene::new(2);
        scene.fetch(&source, &blocks);
        for &block in &blocks {
            let start = size.min(block as usize * BLOCK);
            let got = scene.read(&source, block, size).unwrap();
            prop_assert!(got == bytes[start..size.min(start + BLOCK)], "block {}", block);
        }
    }
}

/// A directory where a file is expected: reading it fails.
struct Unreadable(Arc<File>);

impl Source for Unreadable {
    fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Ok(rustix::io::preadv(&self.0, buffers, offset)?)
    }
}

/// A file that may not be opened any more.
struct Denied;

impl Source for Denied {
    fn read_at(&self, _: u64, _: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(libc::EACCES))
    }
}

#[test]
fn reading_ahead_meets_the_errors_of_its_source() {
    let folder = folder();
    let directory = Arc::new(File::open(folder.path()).unwrap());
    let sources: [(Arc<dyn Source>, i32); 2] =
        [(Arc::new(Unreadable(Arc::clone(&directory))), libc::EISDIR), (Arc::new(Denied), libc::EACCES)];
    for (source, expected) in sources {
        let scene = Scene::new(1);
        scene.fetch(&source, &[0, 1, 900]);
        let failed = || scene.cache.with_steward(|steward| steward.prefetched().failed);
        eventually("counted", || failed() == 3);
        let traffic = scene.cache.traffic();
        assert_eq!((traffic.fetches, traffic.failed, traffic.fetched_bytes), (2, 2, 0));
        let error = scene.read(&source, 0, 9 * BLOCK).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(expected));
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
        for _ in 0..20 {
            let source: Arc<dyn Source> = local(&path);
            let scene = Scene::new(2);
            scene.fetch(&source, &(0..32).collect::<Vec<_>>());
            for block in 0..32 {
                let got = scene.read(&source, block, size).unwrap();
                let expected = &bytes[block as usize * BLOCK..];
                let fits = got.iter().zip(expected).all(|(got, expected)| *got == 0 || got == expected);
                assert!(fits, "block {block} has bytes of another place");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
