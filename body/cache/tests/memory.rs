//! The cache stays within the memory it was given, bookkeeping included.

use std::io::{self, IoSliceMut};
use std::sync::{Arc, Mutex};

use pantler_cache::{Cache, Options, Request};
use pantler_origin::Source;
use pantler_steward::{FileId, OwnerId, PolicyName};

struct Zeros;

impl Source for Zeros {
    fn read_at(&self, _: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Ok(buffers
            .iter_mut()
            .map(|buffer| {
                buffer.fill(1);
                buffer.len()
            })
            .sum())
    }
}

/// Memory that the process uses: pages of its program are not the cache's, nor are freed tables
/// that the allocator keeps.
fn resident_bytes() -> u64 {
    // SAFETY: it gives free pages of the heap back.
    unsafe { libc::malloc_trim(0) };
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    };
    of("RssAnon:") + of("RssShmem:")
}

/// Nothing else runs in this process meanwhile.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn blocks_and_bookkeeping_fit_in_the_size_given() {
    let _alone = ALONE.lock().unwrap();
    // The smallest blocks have the most bookkeeping.
    let options = Options { cache_bytes: 64 << 20, block_bytes: 4096, ..Options::default() };
    let manage =
        |cache: &Cache| cache.with_steward(|steward| steward.set_policy(OwnerId(1), 0, PolicyName::Mru));
    fits("mru", options, |cache| manage(cache).unwrap());
    for policy in PolicyName::ALL {
        let cache_bytes = 16 << 20;
        let options = Options { cache_bytes, block_bytes: 4096, policy: policy.spec(), ..Options::default() };
        fits(policy.as_str(), options, |_| ());
    }
}

/// What the kernel keeps takes no memory here but for its bookkeeping.
#[test]
fn blocks_that_are_lent_take_their_bookkeeping() {
    let _alone = ALONE.lock().unwrap();
    let options = Options { cache_bytes: 64 << 20, block_bytes: 4096, ..Options::default() };
    let cache_bytes = options.cache_bytes;
    let before = resident_bytes();
    let cache = Cache::lending(options, |_, _| ()).unwrap();
    let zeros: Arc<dyn Source> = Arc::new(Zeros);
    let (file, size) = (FileId(1), 1 << 30);
    for pass in 0..2_u64 {
        for block in 0..3 * u64::from(cache.capacity()) {
            let offset = (pass + block) * 4096;
            let (owner, length) = (OwnerId(block % 3), 4096);
            let request = Request { owner, file, offset, length, size, source: &zeros, kernel: Some(9) };
            cache.read(&request, |bytes| assert_eq!(bytes.len(), 4096)).unwrap();
        }
    }
    cache.validate();
    let used = resident_bytes().saturating_sub(before);
    let bookkeeping = cache_bytes - u64::from(cache.capacity()) * 4096;
    println!("lent: {used} of {bookkeeping}");
    assert!(used <= bookkeeping, "{used} bytes for {} blocks, {bookkeeping} at most", cache.capacity());
}

/// Short blocks take the memory of their pages, whatever the buffers held before.
#[test]
fn short_blocks_fit_in_the_size_given() {
    const FILE: u64 = 12 << 10;
    let _alone = ALONE.lock().unwrap();
    let options = Options { cache_bytes: 64 << 20, ..Options::default() };
    let zeros: Arc<dyn Source> = Arc::new(Zeros);
    let read = |cache: &Cache, file: u64, offset: u64, length: usize, size: u64| {
        let file = FileId(file);
        let request = Request { owner: OwnerId(1), file, offset, length, size, source: &zeros, kernel: None };
        cache.read(&request, |bytes| assert_eq!(bytes.len(), length)).unwrap();
    };
    // The stack that a read takes is there before, and is not the cache's.
    let small = Cache::new(Options { cache_bytes: 1 << 20, ..options.clone() }).unwrap();
    (0..64).for_each(|file| read(&small, file, 0, FILE as usize, FILE));
    small.validate();
    drop(small);
    let (cache_bytes, before) = (options.cache_bytes, resident_bytes());
    let cache = Cache::new(options).unwrap();
    let read = |file: u64, offset: u64, length: usize, size: u64| read(&cache, file, offset, length, size);
    let large = 2 * cache_bytes;
    for round in 0..3 {
        (0..large).step_by(64 << 10).for_each(|offset| read(round, offset, 64 << 10, large));
        (0..8000).for_each(|file| read(10 + file + 10_000 * round, 0, FILE as usize, FILE));
        let blocks = cache.with_steward(|steward| u64::from(steward.used()));
        assert!(blocks * FILE > cache_bytes / 100 * 97, "{blocks} files of 12 KiB");
        let used = resident_bytes().saturating_sub(before);
        // And a record of each file, of those without blocks the last 4,096.
        let metadata = blocks * pantler_cache::FRAME_METADATA_BYTES + (blocks + 4096) * 128;
        assert!(used <= cache_bytes + metadata, "{used} bytes for {blocks} files");
        // A page of each block: every one in a buffer of its own.
        (0..16_384).for_each(|block| read(5, (block * 16 + 3) << 12, 4096, 1 << 30));
        let used = resident_bytes().saturating_sub(before);
        let metadata =
            cache.with_steward(|steward| u64::from(steward.used())) * pantler_cache::FRAME_METADATA_BYTES;
        assert!(used <= cache_bytes + metadata, "{used} bytes for single pages");
    }
    cache.validate();
}

fn fits(name: &str, options: Options, prepare: impl FnOnce(&Cache)) {
    let before = resident_bytes();
    let cache_bytes = options.cache_bytes;
    let cache = Cache::new(options).unwrap();
    prepare(&cache);
    let size = 4 * cache_bytes;
    let zeros: Arc<dyn Source> = Arc::new(Zeros);
    for offset in (0..size).step_by(4096) {
        for owner in [1, 2] {
            let file = FileId(owner);
            let request = Request {
                owner: OwnerId(owner),
                file,
                offset,
                length: 4096,
                size,
                source: &zeros,
                kernel: None,
            };
            cache.read(&request, |bytes| assert_eq!(bytes.len(), 4096)).unwrap();
        }
    }
    let used = resident_bytes().saturating_sub(before);
    let bookkeeping = used as f64 - cache.with_steward(|s| f64::from(s.used())) * 4096.0;
    let per_frame = bookkeeping / cache.with_steward(|s| f64::from(s.capacity()));
    println!("{name}: {used} of {cache_bytes} bytes; {per_frame:.0} bytes of bookkeeping per frame");
    assert!(used <= cache_bytes, "{name}: {used} bytes, {per_frame:.0} per frame beside the block");
}
