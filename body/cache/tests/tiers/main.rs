//! A cache over lower tiers: what the simulator decides is what happens, and the bytes are right
//! whatever breaks.

mod as_simulated;
mod cached;
mod concurrent;
mod faults;
mod origin;
mod owners;
mod shared;

use std::io::{self, IoSliceMut};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use as_simulated::references;
use bytes::Bytes;
use cached::Cached;
use origin::{Origin, content};
use pantler_cache::{Cache, Options, Request};
use pantler_origin::Source;
use pantler_policy::Draws;
use pantler_sim::tiers::{Protocol, UlcAlone, UlcClients};
use pantler_steward::placement::{Client, Order, Passing, Sizes, Step, Tier as Distance};
use pantler_steward::{FileId, OwnerId};
use pantler_tier::{Given, Key, News, Put, Retrieve, Seal, SsdTier, Stem, Tier, TierError, Wanted};
use pantler_tier_server::store::{Owner, Store, charge};
use shared::Shared;

const BLOCK: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(20);

fn ssd(folder: &Path, blocks: u64) -> Arc<SsdTier> {
    let slot = (BLOCK + pantler_tier::ENVELOPE_BYTES_MAX).next_multiple_of(64) as u64;
    let bytes = 2 * 4096 + blocks * (slot + 64) + 4096;
    let tier = SsdTier::open(folder, bytes, BLOCK, Seal::Checksum).unwrap();
    assert!(u64::from(tier.frames(BLOCK)).abs_diff(blocks) <= 1);
    Arc::new(tier)
}

#[test]
fn a_second_scan_reads_no_more_than_what_no_tier_could_hold() {
    let folder = tempfile::tempdir().unwrap();
    let tier = ssd(folder.path(), 40);
    let frames = u64::from(tier.frames(BLOCK)) + 20;
    let cached = Cached::new(20, vec![tier]);
    cached.share(1, 1);
    let origin = Origin::new();
    for pass in 0..4 {
        let before = origin.reads.load(Ordering::SeqCst);
        for index in 0..100 {
            assert_eq!(cached.read(&origin, 1, index), content(1, index), "pass {pass}");
        }
        let read = origin.reads.load(Ordering::SeqCst) - before;
        let most = if pass == 0 { 100 } else { 100 - frames };
        assert!(read <= most, "pass {pass} read {read}, at most {most}");
    }
}

#[test]
fn what_was_kept_in_step_with_a_change_goes_to_no_tier() {
    let folder = tempfile::tempdir().unwrap();
    let cached = Cached::new(4, vec![ssd(folder.path(), 40)]);
    let origin = Origin::new();
    cached.share(1, 1);
    for index in 0..4 {
        cached.read(&origin, 1, index);
    }
    // We change the file, and another program does in the same moment, which goes unnoticed.
    cached.cache.share(FileId(1), None);
    origin.version.store(2, Ordering::SeqCst);
    cached.share(1, 2);
    for _ in 0..3 {
        // What is in memory is old: this mount took the version for its own.
        for index in 0..4 {
            assert_eq!(cached.read(&origin, 1, index), content(1, index));
        }
    }
    for _ in 0..3 {
        for index in 100..120 {
            cached.read(&origin, 1, index);
        }
    }
    for index in 0..4 {
        assert_eq!(cached.read(&origin, 1, index), content(2, index), "B6: a tier had it");
    }
}

#[test]
fn what_a_tier_has_is_read_though_the_origin_fails_for_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let cached = Cached::new(4, vec![ssd(folder.path(), 40)]);
    let origin = Origin::new();
    cached.share(1, 1);
    // The last one passes through memory yet.
    for index in (0..10).chain([50]) {
        cached.read(&origin, 1, index);
    }
    // It comes nearer: it is taken from the tier.
    origin.fails.store(true, Ordering::SeqCst);
    assert_eq!(cached.read_some(&origin, 1, 9, 2).unwrap(), content(1, 9));
    assert_eq!(cached.cache.tier_stats()[0].hits, 1);
    assert!(cached.read_some(&origin, 1, 10, 1).is_err());
}

#[test]
fn a_file_that_changes_is_never_answered_with_what_it_was() {
    let shared = Shared::new(30);
    let caches: Vec<Cached> =
        (0..2).map(|client| Cached::new(8, vec![shared.client(&format!("client-{client}"))])).collect();
    let origin = Origin::new();
    let mut draws = Draws::new(7);
    let mut version = 1;
    caches.iter().for_each(|cached| cached.share(version, version));
    for _ in 0..4000 {
        if draws.below(50) == 0 {
            // Both look at the same moment.
            version += 1;
            origin.version.store(version, Ordering::SeqCst);
            for cached in &caches {
                cached.cache.supersede(FileId(version - 1), FileId(version));
                cached.share(version, version);
            }
        }
        let (client, index) = (draws.below(2) as usize, draws.below(40));
        assert_eq!(caches[client].read_now(&origin, version, index), content(version, index));
        if draws.below(8) == 0 {
            // On a busy machine nothing would come to the tier before it is another version.
            assert!(caches[client].cache.drain_tiers(PATIENCE));
        }
    }
    assert!(caches.iter().any(|cached| cached.cache.tier_stats()[0].hits > 0), "the tier took part");
}

#[test]
fn a_file_that_is_not_shared_goes_to_no_tier() {
    let shared = Shared::new(30);
    let cached = Cached::new(8, vec![shared.client("one")]);
    let origin = Origin::new();
    for round in 0..3 {
        for index in 0..20 {
            assert_eq!(cached.read(&origin, 1, index), content(1, index), "round {round}");
        }
    }
    assert!(shared.store.lock().unwrap().0.is_empty());
    // Taken back while blocks are cached, too.
    cached.share(1, 1);
    (0..8).for_each(|index| drop(cached.read(&origin, 1, index)));
    cached.cache.share(FileId(1), None);
    (8..30).for_each(|index| drop(cached.read(&origin, 1, index)));
    assert!(shared.store.lock().unwrap().0.is_empty());
}

#[test]
fn a_tier_that_breaks_is_left_alone_and_taken_back() {
    let shared = Shared::new(40);
    let cached = Cached::new(10, vec![shared.client("one")]);
    cached.share(1, 1);
    let origin = Origin::new();
    let scan = |round: &str| {
        for index in 0..40 {
            assert_eq!(cached.read(&origin, 1, index), content(1, index), "{round}");
        }
    };
    scan("before");
    scan("before");
    shared.broken.store(true, Ordering::SeqCst);
    scan("broken");
    let stat = cached.cache.tier_stats().remove(0);
    assert!(!stat.works && stat.failures == 1 && stat.skipped > 0, "{stat:?}");
    shared.broken.store(false, Ordering::SeqCst);
    let start = Instant::now();
    while !cached.cache.tier_stats()[0].works {
        assert!(start.elapsed() < PATIENCE, "it does not heal");
        std::thread::sleep(Duration::from_millis(5));
    }
    (0..3).for_each(|_| scan("healed"));
    let before = origin.reads.load(Ordering::SeqCst);
    scan("healed");
    assert_eq!(origin.reads.load(Ordering::SeqCst), before, "everything is in a tier again");
    // Emptied behind our back.
    shared.store.lock().unwrap().0.flush();
    (0..4).for_each(|_| scan("emptied"));
    let before = origin.reads.load(Ordering::SeqCst);
    scan("emptied");
    assert!(origin.reads.load(Ordering::SeqCst) - before <= 1, "and again");
}

/// A server that begins anew does not tell what it lost: what was believed there and is never asked
/// for again must not be believed for ever, or the oldest of it would be the yardstick for good.
#[test]
fn what_a_server_lost_is_not_believed_for_ever() {
    const FRAMES: u32 = 40;
    let shared = Shared::new(FRAMES);
    let cached = Cached::new(10, vec![shared.client_that_knows("one", FRAMES)]);
    cached.share(1, 1);
    let origin = Origin::new();
    let scan = |blocks: std::ops::Range<u64>| {
        blocks.for_each(|index| assert_eq!(cached.read(&origin, 1, index), content(1, index)));
    };
    let believed = || cached.cache.tier_stats()[0].blocks;
    for round in 0..4 {
        // Other blocks each time, so that asking does not find it out.
        (0..2).for_each(|_| scan(100 * round..100 * round + 60));
        assert!(believed() <= FRAMES.into(), "{} blocks in {FRAMES} frames", believed());
        shared.store.lock().unwrap().0.flush();
    }
    // A loop of 80 blocks over 50 frames: five eighths are hits, now as before.
    (0..6).for_each(|_| scan(1000..1080));
    let before = origin.reads.load(Ordering::SeqCst);
    scan(1000..1080);
    let missed = origin.reads.load(Ordering::SeqCst) - before;
    assert!(missed <= 80 - 50 + 2, "{missed} of 80 missed");
}

/// The server has room that this client was not given: it was never full, and took whatever
/// came.
#[test]
fn no_more_is_kept_on_a_server_than_its_client_may_use() {
    const FRAMES: u32 = 40;
    let shared = Shared::new(10 * FRAMES);
    let origin = Origin::new();
    let read = |cached: &Cached, index| assert_eq!(cached.read(&origin, 1, index), content(1, index));
    let agree = |cached: &Cached, most: u32| {
        let (believed, owned) = (cached.cache.tier_stats()[0].blocks, shared.owned("one"));
        assert!(owned <= most.into(), "{owned} blocks are there");
        assert_eq!(believed, owned, "believed and owned");
    };
    {
        let cached = Cached::new(10, vec![shared.client_that_may_use("one", FRAMES)]);
        cached.share(1, 1);
        for at in (0..80).chain(references(2000, 200, 5)).chain((0..6).flat_map(|_| 1000..1045)) {
            read(&cached, at);
            agree(&cached, FRAMES);
        }
        // A loop over what fits is all hits.
        let before = origin.reads.load(Ordering::SeqCst);
        (1000..1045).for_each(|at| read(&cached, at));
        let missed = origin.reads.load(Ordering::SeqCst) - before;
        assert!(missed <= 2, "{missed} of 45 missed");
        assert_eq!(shared.owned("one"), u64::from(FRAMES));
    }
    // What was kept when the client might use more goes, too.
    let cached = Cached::new(10, vec![shared.client_that_may_use("one", FRAMES / 2)]);
    cached.share(1, 1);
    (2000..2030).for_each(|at| {
        read(&cached, at);
        agree(&cached, FRAMES / 2);
    });
}

/// A block that another client pushed out is asked for again before this client was told: it is put
/// there once more, and the older notice must not say that it is not.
#[test]
fn a_notice_that_comes_too_late_takes_nothing_back() {
    const FRAMES: u32 = 20;
    let shared = Shared::new(FRAMES);
    let cached = Cached::new(4, vec![shared.client_that_knows("one", FRAMES)]);
    let other = shared.client("other");
    cached.share(1, 1);
    let origin = Origin::new();
    let read = |index| assert_eq!(cached.read(&origin, 1, index), content(1, index));
    (0..60).for_each(|at| read(at % 20));
    let agree = |when: &str| {
        let believed = cached.cache.tier_stats()[0].blocks;
        let owned = shared.owned("one");
        assert_eq!(believed, owned, "{when}: believed and owned");
        owned
    };
    assert!(agree("before") > 10);
    let foreign = Stem::new(None, BLOCK as u32, [b"foreign".as_slice()]);
    for index in 0..u64::from(FRAMES) {
        let given =
            Given { key: foreign.block(index), bytes: &[7; BLOCK], why: Put::Keep, age: Duration::ZERO };
        other.put(&[given]).unwrap();
    }
    assert_eq!(shared.owned("one"), 0, "all were pushed out, and it was not told");
    let told = || cached.cache.tier_stats()[0].notices > 0;
    assert!(!told());
    for index in 0..20 {
        read(index);
        if told() {
            agree(&format!("after block {index}"));
        }
    }
    assert!(told() && shared.owned("one") > 0);
}

/// A tier that is gone keeps nothing, so that all blocks of the request only pass, and more of them
/// than may: each that came made the first one leave, which was asked for again, for ever.
#[test]
fn a_request_for_more_blocks_than_may_pass_comes_to_an_end() {
    let shared = Shared::new(40);
    let cached = Cached::new(10, vec![shared.client("one")]);
    cached.share(1, 1);
    let origin = Origin::new();
    (0..40).for_each(|index| drop(cached.read(&origin, 1, index)));
    shared.broken.store(true, Ordering::SeqCst);
    (0..40).for_each(|index| drop(cached.read_now(&origin, 1, index)));
    let source: Arc<dyn Source> = Arc::clone(&origin) as _;
    std::thread::scope(|scope| {
        for reader in 0..4 {
            let (cached, source) = (&cached, &source);
            scope.spawn(move || {
                for first in (0..200).map(|round| 100 + (round * 7 + reader * 31) % 400) {
                    let (offset, length) = (first * BLOCK as u64, 8 * BLOCK);
                    let (owner, file, size) = (OwnerId(1), FileId(1), 1 << 40);
                    let request = Request { owner, file, offset, length, size, source, kernel: None };
                    let right = |bytes: &[u8]| {
                        let blocks = (first..).zip(bytes.chunks(BLOCK));
                        blocks.clone().count() == 8
                            && blocks.clone().all(|(index, block)| block[..16] == content(1, index))
                    };
                    assert!(cached.cache.read(&request, right).unwrap(), "reader {reader} at {first}");
                }
            });
        }
    });
    cached.cache.validate();
}

#[test]
fn blocks_of_negative_priority_are_dropped() {
    let shared = Shared::new(40);
    let cached = Cached::new(10, vec![shared.client("one")]);
    (1..=2).for_each(|file| cached.share(file, file));
    cached.cache.with_steward(|steward| steward.set_priority(OwnerId(1), FileId(1), -1)).unwrap();
    let origin = Origin::new();
    // Fills tier 1, which is not full before.
    (0..10).for_each(|index| drop(cached.read(&origin, 1, index)));
    assert!(shared.store.lock().unwrap().0.is_empty());
    // These are placed in tier 2 at first, and nearer when they are read again: the others leave
    // for them.
    for _ in 0..3 {
        (0..8).for_each(|index| drop(cached.read(&origin, 2, index)));
    }
    assert_eq!(cached.cache.tier_stats()[0].demotions, 0);
}

#[test]
fn readers_at_once_see_whole_blocks_while_a_tier_comes_and_goes() {
    let shared = Shared::new(64);
    let folder = tempfile::tempdir().unwrap();
    let cached = Cached::new(16, vec![ssd(folder.path(), 32), shared.client("one")]);
    cached.share(1, 1);
    let origin = Origin::new();
    let done = AtomicBool::new(false);
    let begun = Instant::now();
    // On a busy machine readers may be through before what they gave up has come to a tier.
    let is_enough = || cached.cache.tier_stats()[0].hits > 0 || begun.elapsed() > PATIENCE;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                shared.broken.fetch_xor(true, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(30));
            }
        });
        let readers: Vec<_> = (0..4)
            .map(|seed| {
                let (cached, origin, is_enough) = (&cached, &origin, &is_enough);
                scope.spawn(move || {
                    for round in 0.. {
                        for block in references(3000, 150, seed + 4 * round) {
                            assert_eq!(cached.read_now(origin, 1, block), content(1, block));
                        }
                        if is_enough() {
                            break;
                        }
                    }
                })
            })
            .collect();
        let ended: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        // Also where one failed: the other thread goes on until then.
        done.store(true, Ordering::SeqCst);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    shared.broken.store(false, Ordering::SeqCst);
    assert!(cached.cache.drain_tiers(PATIENCE));
    cached.cache.validate();
    let stats = cached.cache.tier_stats();
    assert!(stats[0].hits > 0 && stats[0].damaged == 0, "{stats:?}");
}

#[test]
fn blocks_of_a_local_tier_are_found_again_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::new();
    for round in 0..2 {
        let cached = Cached::new(10, vec![ssd(folder.path(), 40)]);
        cached.share(1, 1);
        let before = origin.reads.load(Ordering::SeqCst);
        for _ in 0..2 {
            for index in 0..45 {
                assert_eq!(cached.read(&origin, 1, index), content(1, index));
            }
        }
        let read = origin.reads.load(Ordering::SeqCst) - before;
        // Tier 1 begins empty: what was there is read again, the rest is not.
        assert!(if round == 0 { read >= 45 } else { read <= 16 }, "round {round} read {read}");
    }
}

/// U7: the tier is not there at the start, turns out smaller than it was said to be, and holds
///     blocks of this client, in an
/// order. They are known from then on, below everything that was referenced meanwhile, and the tier
/// is believed to have the frames that it has.
#[test]
fn a_tier_that_comes_late_is_known_by_what_it_holds() {
    const FRAMES: u32 = 40;
    let shared = Shared::new(FRAMES);
    let origin = Origin::new();
    {
        let cached = Cached::new(10, vec![shared.client_that_knows("one", FRAMES)]);
        cached.share(1, 1);
        (0..2).for_each(|_| (0..50).for_each(|index| drop(cached.read(&origin, 1, index))));
    }
    let owned = shared.owned("one");
    assert!(owned >= 30, "{owned} blocks from before");
    shared.broken.store(true, Ordering::SeqCst);
    let cached = Cached::new(10, vec![shared.client_that_learns("one", 1000, FRAMES)]);
    cached.cache.begin_without_tier(0);
    cached.share(1, 1);
    // Others, and some of the same.
    for index in (1000..1020).chain(40..45) {
        drop(cached.read(&origin, 1, index));
    }
    let stat = || cached.cache.tier_stats().remove(0);
    assert_eq!((stat().works, stat().blocks, stat().capacity_blocks), (false, 0, 1000));
    shared.broken.store(false, Ordering::SeqCst);
    let begun = Instant::now();
    while !stat().works {
        assert!(begun.elapsed() < PATIENCE, "it does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!((stat().blocks, stat().capacity_blocks), (owned, FRAMES.into()));
    // They are found there, and believed as far as they are there.
    let before = origin.reads.load(Ordering::SeqCst);
    for index in 0..50 {
        assert_eq!(cached.read(&origin, 1, index), content(1, index));
    }
    let read = origin.reads.load(Ordering::SeqCst) - before;
    assert!(read <= 50 - owned, "{read} of 50 read, {owned} were there");
    cached.cache.validate();
}
