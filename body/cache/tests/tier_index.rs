//! The index of blocks in lower tiers takes at most the memory that was announced.

use std::io::{self, IoSliceMut};
use std::sync::Arc;

use pantler_cache::{Cache, Options, Request, tier_index_bytes_max};
use pantler_origin::Source;
use pantler_steward::{FileId, OwnerId};
use pantler_tier::{Given, Key, News, Stem, Tier, TierError, Wanted};

const BLOCK: usize = 4096;

/// A tier with a number of frames that keeps nothing, and says how many blocks it holds from
/// before.
struct Hole(u32, u64);

impl Tier for Hole {
    fn name(&self) -> &str {
        "hole"
    }

    fn retrieve(&self, _: &[Wanted], _: &mut dyn FnMut(usize, &[u8])) -> Result<(), TierError> {
        Ok(())
    }

    fn put(&self, _: &[Given<'_>]) -> Result<(), TierError> {
        Ok(())
    }

    fn remove(&self, _: &[Key]) -> Result<(), TierError> {
        Ok(())
    }

    fn news(&self) -> News {
        News::default()
    }

    fn is_own(&self) -> bool {
        false
    }

    fn frames(&self, _: usize) -> u32 {
        self.0
    }

    fn held(&self) -> Vec<Key> {
        let stem = Stem::new(None, BLOCK as u32, [b"before".as_slice()]);
        (0..self.1).map(|index| stem.block(index)).collect()
    }

    fn heal(&self) -> Result<(), TierError> {
        Ok(())
    }

    fn damaged(&self) -> u64 {
        0
    }
}

struct Zeros;

impl Source for Zeros {
    fn read_at(&self, _: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        buffers.iter_mut().for_each(|buffer| buffer.fill(0));
        Ok(buffers.iter().map(|buffer| buffer.len()).sum())
    }
}

#[test]
fn the_index_of_tiers_stays_below_its_bound_however_many_blocks_are_read() {
    let cache_bytes = 1 << 20;
    // On both sides of where tables are doubled.
    for frames in [1500, 4000, 8500, 16_000, 17_000] {
        let options = Options { cache_bytes, block_bytes: BLOCK, demotions: 8, ..Options::default() };
        let cache = Cache::with_tiers(options, vec![Arc::new(Hole(frames, 0))]).unwrap();
        cache.share(FileId(1), Some(Stem::new(None, BLOCK as u32, [b"file".as_slice()])));
        let bound = tier_index_bytes_max(cache_bytes / BLOCK as u64, &[frames.into()]);
        let source: Arc<dyn Source> = Arc::new(Zeros);
        let mut most = 0;
        for index in 0..4 * u64::from(frames) {
            let (offset, size) = (index * BLOCK as u64, 1 << 40);
            let request = Request {
                owner: OwnerId(1),
                file: FileId(1),
                offset,
                length: BLOCK,
                size,
                source: &source,
                kernel: None,
            };
            cache.read(&request, |bytes| assert_eq!(bytes.len(), BLOCK)).unwrap();
            if index % 64 == 0 {
                most = most.max(cache.tier_index_bytes());
                assert!(most <= bound, "{most} bytes for {frames} frames, at most {bound}");
            }
        }
        println!("{frames} frames: {most} of {bound} bytes");
        assert!(most >= u64::from(frames) * 2 * 56, "it counts what is there: {most}");
        cache.stop_tiers();
        cache.validate();
    }
}

#[test]
fn the_index_of_tiers_stays_below_its_bound_however_many_blocks_a_tier_holds() {
    let cache_bytes = 1 << 20;
    for (frames, held) in [(1500, 100_000), (4000, 4000), (4000, 100_000)] {
        let options = Options { cache_bytes, block_bytes: BLOCK, demotions: 8, ..Options::default() };
        let cache = Cache::with_tiers(options, vec![Arc::new(Hole(frames, held))]).unwrap();
        let bound = tier_index_bytes_max(cache_bytes / BLOCK as u64, &[frames.into()]);
        let bytes = cache.tier_index_bytes();
        assert!(bytes <= bound, "{bytes} bytes for {held} blocks, at most {bound}");
        assert_eq!(cache.tier_stats()[0].blocks, u64::from(frames).min(held));
        cache.stop_tiers();
        cache.validate();
    }
}
