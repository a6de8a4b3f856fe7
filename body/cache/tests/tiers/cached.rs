//! A cache over tiers, as the tests read through it.

use super::*;

/// A cache with threads that serve its tiers; they end with it.
pub struct Cached {
    pub cache: Arc<Cache>,
    pub threads: Vec<std::thread::JoinHandle<()>>,
}

impl Cached {
    /// `frames` for blocks that stay, and one for blocks that pass.
    pub fn new(frames: u32, tiers: Vec<Arc<dyn Tier>>) -> Self {
        Self::with_passing(frames + 1, Some(1), tiers)
    }

    /// `frames` for all blocks.
    pub fn with_passing(frames: u32, passing: Option<u32>, tiers: Vec<Arc<dyn Tier>>) -> Self {
        Self::choosing(frames, passing, tiers, |_| ())
    }

    pub fn choosing(
        frames: u32,
        passing: Option<u32>,
        tiers: Vec<Arc<dyn Tier>>,
        choose: impl FnOnce(&mut Options),
    ) -> Self {
        let (spare, demotions) = (4, 64);
        let cache_bytes = u64::from(frames) * (BLOCK as u64 + pantler_cache::FRAME_METADATA_BYTES)
            + (spare + demotions) * BLOCK as u64;
        let (spare, demotions) = (spare as u32, demotions as u32);
        let mut options =
            Options { cache_bytes, block_bytes: BLOCK, spare, demotions, passing, ..Options::default() };
        choose(&mut options);
        assert_eq!(options.frames().unwrap(), frames);
        let cache = Arc::new(Cache::with_tiers(options, tiers).unwrap());
        let serve = |number| {
            let cache = Arc::clone(&cache);
            std::thread::spawn(move || cache.serve_tier(number))
        };
        let threads = (0..cache.tiers()).map(serve).collect();
        Self { cache, threads }
    }

    pub fn share(&self, file: u64, version: u64) {
        let stem = Stem::new(None, BLOCK as u32, [&version.to_le_bytes()[..]]);
        self.cache.share(FileId(file), Some(stem));
    }

    /// Reads a block, and waits until everything that follows from it was done.
    pub fn read(&self, origin: &Arc<Origin>, file: u64, index: u64) -> Vec<u8> {
        let bytes = self.read_now(origin, file, index);
        assert!(self.cache.drain_tiers(PATIENCE));
        bytes
    }

    pub fn read_now(&self, origin: &Arc<Origin>, file: u64, index: u64) -> Vec<u8> {
        self.read_some(origin, file, index, 1).unwrap()
    }

    /// The first of `count` blocks.
    pub fn read_some(
        &self,
        origin: &Arc<Origin>,
        file: u64,
        index: u64,
        blocks: usize,
    ) -> io::Result<Vec<u8>> {
        let (owner, file) = (OwnerId(1), FileId(file));
        let (offset, size) = (index * BLOCK as u64, 1 << 40);
        let source: Arc<dyn Source> = Arc::clone(origin) as _;
        let request =
            Request { owner, file, offset, length: blocks * BLOCK, size, source: &source, kernel: None };
        self.cache.read(&request, |bytes| bytes[..16].to_vec())
    }
}

impl Drop for Cached {
    fn drop(&mut self) {
        self.cache.stop_tiers();
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
        self.cache.close_tiers();
        if !std::thread::panicking() {
            self.cache.validate();
        }
    }
}
