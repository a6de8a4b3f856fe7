//! The cache stays within the memory it was given, bookkeeping included.

use std::io::{self, IoSliceMut};
use std::sync::Arc;

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

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

#[test]
fn blocks_and_bookkeeping_fit_in_the_size_given() {
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
            let request = Request { owner: OwnerId(owner), file, offset, length: 4096, size, source: &zeros };
            cache.read(&request, |bytes| assert_eq!(bytes.len(), 4096)).unwrap();
        }
    }
    let used = resident_bytes().saturating_sub(before);
    let bookkeeping = used as f64 - cache.with_steward(|s| f64::from(s.used())) * 4096.0;
    let per_frame = bookkeeping / cache.with_steward(|s| f64::from(s.capacity()));
    println!("{name}: {used} of {cache_bytes} bytes; {per_frame:.0} bytes of bookkeeping per frame");
    assert!(used <= cache_bytes, "{name}: {used} bytes, {per_frame:.0} per frame beside the block");
}
