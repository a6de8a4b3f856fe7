//! What a simulator's loop over a policy misses, a cache with that policy fetches, and it looks
//! ahead as the simulator does: the same code decides in both.

mod common;

use std::io::{self, IoSliceMut};
use std::sync::Arc;

use common::Served;
use pantler_cache::{Activity, Cache, Options, Request};
use pantler_origin::Source;
use pantler_policy::{Demand, Handle, Online, PolicyName, Visitor};
use pantler_rig::eventually;
use pantler_sim::{Ahead, Watch, simulate_ahead};
use pantler_steward::{FileId, Lookahead, OwnerId};
use pantler_trace::generate::Specification;

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 200;

struct Zeros;

impl Source for Zeros {
    fn read_at(&self, _: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Ok(buffers.iter().map(|buffer| buffer.len()).sum())
    }
}

/// A block of a file of `size` bytes.
fn read(cache: &Cache, block: u64, size: u64) {
    let source: Arc<dyn Source> = Arc::new(Zeros);
    let (owner, file, offset, length) = (OwnerId(1), FileId(1), block * BLOCK, BLOCK as usize);
    let request = Request { owner, file, offset, length, size, source: &source, kernel: None };
    cache.read(&request, |bytes| assert_eq!(bytes.len() as u64, BLOCK)).unwrap();
}

/// Loops, hot blocks and strangers.
fn trace() -> Vec<u64> {
    let reference = |at: u64| {
        let drawn = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        match (at / 400) % 3 {
            0 => at % 70,
            1 => (drawn % 30) * ((drawn >> 8) % 30) / 8,
            _ => drawn % BLOCKS,
        }
    };
    (0..5_000).map(reference).collect()
}

struct Misses<'a> {
    trace: &'a [u64],
    frames: u32,
}

impl Visitor for Misses<'_> {
    type Output = u64;

    fn online<P: Online>(self, policy: P) -> u64 {
        let mut cache = Demand::new(policy, self.frames);
        self.trace.iter().filter(|&&block| !cache.reference(block as Handle).0).count() as u64
    }

    fn offline(self, _: pantler_policy::Offline) -> u64 {
        unreachable!("not asked for")
    }
}

#[test]
fn a_cache_fetches_what_the_simulator_misses() {
    let trace = trace();
    for name in PolicyName::ALL {
        let options = Options {
            cache_bytes: 64 * (BLOCK + 1280),
            block_bytes: BLOCK as usize,
            policy: name.spec(),
            ..Options::default()
        };
        let cache = Cache::new(options).unwrap();
        let frames = cache.capacity();
        let expected = name.spec().with(frames, Misses { trace: &trace, frames });
        for &block in &trace {
            read(&cache, block, BLOCKS * BLOCK);
        }
        cache.validate();
        let fetched = cache.traffic().fetches;
        if name.as_str() == "w-tinylfu" {
            // Its sketch counts blocks under a hash of their names, which numbers in a simulator
            // are not.
            assert!(fetched.abs_diff(expected) < 100, "{name}: {fetched} and {expected}");
        } else {
            assert_eq!(fetched, expected, "{name} with {frames} frames");
        }
    }
}

/// Runs in order, and blocks here and there between them.
const AHEAD: &str = "phases:(loop:ids=90,requests=300),(zipf:alpha=0.8,ids=150,requests=300,seed=3),repeat=2";

/// Hits, and what became of blocks looked ahead. Each fetch is done before the next reference.
#[test]
fn a_cache_looks_ahead_as_the_simulator_does() {
    let trace = AHEAD.parse::<Specification>().unwrap().prepare().unwrap();
    let mut looked_ahead = 0;
    for lookahead in Lookahead::ALL {
        for window in [1, 4] {
            let options = Options {
                cache_bytes: 64 * (BLOCK + pantler_cache::FRAME_METADATA_BYTES),
                block_bytes: BLOCK as usize,
                lookahead,
                window,
                ..Options::default()
            };
            let cache = Served::new(options, 2, || ());
            let (frames, ahead) = (cache.capacity(), Ahead { lookahead, window });
            let lru = PolicyName::Lru.spec();
            let simulated = simulate_ahead(&trace, lru, ahead, frames, 0, &Watch::default(), |_| {});
            let (outcome, expected) = simulated.unwrap();
            for &id in trace.requests() {
                read(&cache, trace.block_of(id).index, 1 << 40);
                eventually("all has come", || cache.activity() == Activity::default());
            }
            let (found, looked) = cache.with_steward(|steward| (steward.totals(), steward.looked()));
            let told = format!("{lookahead}, {window} ahead, {frames} frames");
            assert_eq!(found.misses, outcome.total.misses, "{told}");
            assert_eq!(looked, expected.looked, "{told}");
            looked_ahead += looked.used;
        }
    }
    assert!(looked_ahead > 500, "{looked_ahead} blocks looked ahead were used");
}
