//! A slow link to a tier: no batch is lost to the time limit because too much went together (B7),
//! and an ending cache does not wait for all that is queued.

use std::collections::HashMap;
use std::io::{self, IoSliceMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use pantler_cache::{Cache, Options, Request};
use pantler_origin::Source;
use pantler_rig::eventually;
use pantler_steward::{FileId, OwnerId};
use pantler_tier::{Given, Key, News, Stem, Tier, TierError, Wanted};

const BLOCK: usize = 4096;
/// What a block takes on the link, and how many the time limit is enough for.
const BLOCK_TIME: Duration = Duration::from_millis(20);
const BLOCKS_MAX: usize = 25;
/// Blocks that wait before the link carries anything.
const WAITING: u64 = 40;

/// A tier behind a link that takes its time for each byte. A batch that takes longer than the limit
/// is lost.
#[derive(Default)]
struct Slow {
    blocks: Mutex<HashMap<Key, Vec<u8>>>,
    batches: Mutex<Vec<usize>>,
    /// Batches that were begun.
    begun: AtomicUsize,
    open: Mutex<bool>,
    opened: Condvar,
}

impl Slow {
    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn carry(&self, blocks: usize) -> Result<(), TierError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        drop(self.opened.wait_while(self.open.lock().unwrap(), |open| !*open).unwrap());
        std::thread::sleep(BLOCK_TIME * blocks.min(BLOCKS_MAX) as u32);
        self.batches.lock().unwrap().push(blocks);
        match blocks <= BLOCKS_MAX {
            true => Ok(()),
            false => {
                let timeout_ms = (BLOCK_TIME * BLOCKS_MAX as u32).as_millis() as u64;
                Err(TierError::Timeout { name: "slow".into(), timeout_ms })
            }
        }
    }
}

impl Tier for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn retrieve(&self, wanted: &[Wanted], found: &mut dyn FnMut(usize, &[u8])) -> Result<(), TierError> {
        for (at, one) in wanted.iter().enumerate() {
            let bytes = self.blocks.lock().unwrap().get(&one.key).cloned();
            bytes.iter().for_each(|bytes| found(at, bytes));
        }
        Ok(())
    }

    fn put(&self, given: &[Given<'_>]) -> Result<(), TierError> {
        self.carry(given.len())?;
        self.blocks.lock().unwrap().extend(given.iter().map(|one| (one.key, one.bytes.to_vec())));
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
        1000
    }

    fn limit(&self) -> Option<Duration> {
        Some(BLOCK_TIME * BLOCKS_MAX as u32)
    }

    fn heal(&self) -> Result<(), TierError> {
        Ok(())
    }

    fn damaged(&self) -> u64 {
        0
    }
}

struct Origin;

impl Source for Origin {
    fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        for (index, buffer) in (offset / BLOCK as u64..).zip(buffers.iter_mut()) {
            buffer.fill(index as u8);
        }
        Ok(buffers.iter().map(|buffer| buffer.len()).sum())
    }
}

fn read(cache: &Cache, index: u64) -> u8 {
    let source: Arc<dyn Source> = Arc::new(Origin);
    let (offset, size) = (index * BLOCK as u64, 1 << 30);
    let request = Request {
        owner: OwnerId(1),
        file: FileId(1),
        offset,
        length: BLOCK,
        size,
        source: &source,
        kernel: None,
    };
    cache.read(&request, |bytes| bytes[0]).unwrap()
}

/// A cache above a slow tier that takes nothing yet, its worker, and the first of the blocks that
/// wait for it.
fn waiting(slow: &Arc<Slow>) -> (Arc<Cache>, JoinHandle<()>, u64) {
    let (frames, spare, demotions) = (16, 4, 64);
    let buffers = u64::from(frames + spare + demotions) * BLOCK as u64;
    let options = Options {
        cache_bytes: buffers + u64::from(frames) * pantler_cache::FRAME_METADATA_BYTES,
        block_bytes: BLOCK,
        spare,
        demotions,
        passing: Some(1),
        ..Options::default()
    };
    assert_eq!(options.frames().unwrap(), frames);
    let cache = Arc::new(Cache::with_tiers(options, vec![Arc::clone(slow) as _]).unwrap());
    cache.share(FileId(1), Some(Stem::new(None, BLOCK as u32, [b"file".as_slice()])));
    let worker = {
        let cache = Arc::clone(&cache);
        std::thread::spawn(move || cache.serve_tier(0))
    };
    // All but the first go to the tier.
    let near = u64::from(frames) - 1;
    (0..near).for_each(|index| assert_eq!(read(&cache, index), index as u8));
    let stat = || cache.tier_stats().remove(0);
    for index in near..near + WAITING {
        assert_eq!(read(&cache, index), index as u8);
    }
    eventually("they wait", || stat().queued + stat().dropped >= WAITING - 1);
    (cache, worker, near)
}

#[test]
fn what_waits_for_a_slow_tier_goes_in_batches_that_come_through() {
    let slow = Arc::new(Slow::default());
    let (cache, worker, near) = waiting(&slow);
    let stat = || cache.tier_stats().remove(0);
    slow.open();
    assert!(cache.drain_tiers(Duration::from_secs(60)));
    let (batches, stat) = (slow.batches.lock().unwrap().clone(), stat());
    assert_eq!((stat.dropped, stat.failures, stat.placements), (0, 0, WAITING), "{batches:?}");
    (near..near + WAITING).for_each(|index| assert_eq!(read(&cache, index), index as u8));
    assert_eq!(cache.tier_stats()[0].hits, WAITING);
    cache.stop_tiers();
    worker.join().unwrap();
    cache.validate();
}

#[test]
fn an_end_that_cannot_wait_drops_what_waits() {
    let slow = Arc::new(Slow::default());
    let (cache, worker, _) = waiting(&slow);
    eventually("one is on its way", || slow.begun.load(Ordering::SeqCst) == 1);
    assert!(!cache.drain_tiers(Duration::from_millis(20)), "nothing moves");
    cache.abandon_tiers();
    slow.open();
    worker.join().unwrap();
    let (batches, stat) = (slow.batches.lock().unwrap().clone(), cache.tier_stats().remove(0));
    assert_eq!(batches, [1], "what was on its way, and nothing else");
    assert_eq!((stat.placements, stat.dropped, stat.failures, stat.queued), (1, WAITING - 1, 0, 0));
    cache.validate();
}
