//! A cache over lower tiers: what the simulator decides is what happens, and the bytes are right
//! whatever breaks.

mod concurrent;
mod faults;
mod owners;

use std::io::{self, IoSliceMut};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pantler_cache::{Cache, Options, Request};
use pantler_origin::Source;
use pantler_sim::tiers::{Protocol, UlcAlone, UlcClients};
use pantler_steward::placement::{Client, Order, Passing, Sizes, Step, Tier as Level};
use pantler_steward::{FileId, OwnerId};
use pantler_tier::{Given, Key, News, Put, Retrieve, Seal, SsdTier, Stem, Tier, TierError, Wanted};
use pantler_tier_server::store::{Owner, Store, charge};

const BLOCK: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(20);

/// A tier in this process, shared by several clients: the store of the server without its sockets.
struct Shared {
    store: Mutex<(Store, u64)>,
    started: Instant,
    broken: AtomicBool,
}

impl Shared {
    fn new(frames: u32) -> Arc<Self> {
        let key = Stem::new(None, BLOCK as u32, [b"x".as_slice()]).block(0).pack();
        let limit = u64::from(frames) * charge(&key, BLOCK);
        let (store, started) = (Mutex::new((Store::new(limit), 0)), Instant::now());
        Arc::new(Self { store, started, broken: AtomicBool::new(false) })
    }

    fn client(self: &Arc<Self>, name: &str) -> Arc<dyn Tier> {
        self.client_that_knows(name, 1 << 20)
    }

    /// A client that was told how many frames there are.
    fn client_that_knows(self: &Arc<Self>, name: &str, frames: u32) -> Arc<dyn Tier> {
        self.client_that_learns(name, frames, frames)
    }

    /// A client that was told a number of frames, and hears how many there are when the tier works.
    fn client_that_learns(self: &Arc<Self>, name: &str, frames: u32, real: u32) -> Arc<dyn Tier> {
        let owner = self.store.lock().unwrap().0.join(name);
        let told = AtomicBool::new(frames == real);
        Arc::new(Door { shared: Arc::clone(self), owner, frames, real, told, more: false })
    }

    /// A client that may use fewer frames than there are.
    fn client_that_may_use(self: &Arc<Self>, name: &str, frames: u32) -> Arc<dyn Tier> {
        let owner = self.store.lock().unwrap().0.join(name);
        let (real, told) = (frames, AtomicBool::new(true));
        Arc::new(Door { shared: Arc::clone(self), owner, frames, real, told, more: true })
    }

    /// Blocks of a client that are really there.
    fn owned(&self, name: &str) -> u64 {
        let store = &self.store.lock().unwrap().0;
        store.owners().find(|(one, ..)| *one == name).map_or(0, |(_, blocks, _)| blocks)
    }
}

struct Door {
    shared: Arc<Shared>,
    owner: Owner,
    /// What it was said to have, until it tells.
    frames: u32,
    /// What it has.
    real: u32,
    told: AtomicBool,
    /// There are more than it may use.
    more: bool,
}

impl Door {
    fn with<R>(&self, work: impl FnOnce(&mut Store, u64, Owner) -> R) -> Result<R, TierError> {
        if self.shared.broken.load(Ordering::SeqCst) {
            return Err(TierError::Timeout { name: "test".into(), timeout_ms: 1 });
        }
        let mut store = self.shared.store.lock().unwrap();
        // A clock that does not stand still between two requests.
        store.1 = ((1 << 50) + self.shared.started.elapsed().as_nanos() as u64).max(store.1 + 1);
        let now = store.1;
        Ok(work(&mut store.0, now, self.owner))
    }
}

impl Tier for Door {
    fn name(&self) -> &str {
        "test"
    }

    fn retrieve(&self, wanted: &[Wanted], found: &mut dyn FnMut(usize, &[u8])) -> Result<(), TierError> {
        for (at, Wanted { key, how }) in wanted.iter().enumerate() {
            let bytes = self.with(|store, now, owner| match how {
                Retrieve::Take => store.take(&key.pack(), owner),
                Retrieve::Keep => store.keep(&key.pack(), owner, now),
                Retrieve::Read => store.read(&key.pack()),
            })?;
            if let Some(bytes) = bytes {
                found(at, &bytes);
            }
        }
        Ok(())
    }

    fn put(&self, given: &[Given<'_>]) -> Result<(), TierError> {
        for one in given {
            let age = one.age.as_nanos() as u64;
            self.with(|store, now, owner| {
                let value = Bytes::copy_from_slice(one.bytes);
                store.put(&one.key.pack(), value, owner, now - age, one.why == Put::Demote);
                let owned = store.owners().map(|(_, blocks, _)| blocks).max().unwrap_or_default();
                assert!(!self.more || owned <= self.frames.into(), "{owned} blocks are there");
            })?;
        }
        Ok(())
    }

    fn remove(&self, keys: &[Key]) -> Result<(), TierError> {
        keys.iter()
            .try_for_each(|key| self.with(|store, _, owner| store.give_up(&key.pack(), owner)).map(|_| ()))
    }

    fn news(&self) -> News {
        let told = self.with(|store, _, owner| (store.notices(owner), store.is_full()));
        let Ok((notices, full)) = told else { return News { unknown: true, ..News::default() } };
        let key = |packed: &[u8]| Key::unpack(packed.try_into().unwrap());
        News {
            full: Some(full),
            gone: notices.gone.iter().map(|packed| key(packed)).collect(),
            unknown: notices.unknown,
        }
    }

    fn is_own(&self) -> bool {
        false
    }

    fn frames(&self, _: usize) -> u32 {
        if self.told.load(Ordering::SeqCst) { self.real } else { self.frames }
    }

    fn has_more(&self) -> bool {
        self.more
    }

    fn held(&self) -> Vec<Key> {
        let key = |packed: &[u8]| Key::unpack(packed.try_into().unwrap());
        let keys = self.with(|store, _, owner| store.keys_of(owner, 1 << 20).into_iter().map(key).collect());
        keys.unwrap_or_default()
    }

    fn heal(&self) -> Result<(), TierError> {
        self.with(|_, _, _| self.told.store(true, Ordering::SeqCst))
    }

    fn damaged(&self) -> u64 {
        0
    }
}

/// Bytes that say which version of which block they are.
struct Origin {
    version: AtomicU64,
    reads: AtomicU64,
    fails: AtomicBool,
    /// No read of this block works.
    bad: AtomicU64,
    /// Reads from this block on wait.
    held: Mutex<u64>,
    released: Condvar,
    waiting: AtomicU64,
}

impl Origin {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            version: AtomicU64::new(1),
            reads: AtomicU64::new(0),
            fails: AtomicBool::new(false),
            bad: AtomicU64::new(u64::MAX),
            held: Mutex::new(u64::MAX),
            released: Condvar::new(),
            waiting: AtomicU64::new(0),
        })
    }

    fn hold(&self, first: u64) {
        *self.held.lock().unwrap() = first;
    }

    fn release(&self) {
        self.hold(u64::MAX);
        self.released.notify_all();
    }

    fn wait(&self, first: u64) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let held = self.held.lock().unwrap();
        drop(self.released.wait_while(held, |held| *held <= first).unwrap());
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

fn content(version: u64, index: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&version.to_le_bytes());
    bytes[8..].copy_from_slice(&index.to_le_bytes());
    bytes
}

impl Source for Origin {
    fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let first = offset / BLOCK as u64;
        self.wait(first);
        let is_bad = (first..first + buffers.len() as u64).contains(&self.bad.load(Ordering::SeqCst));
        if is_bad || self.fails.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let version = self.version.load(Ordering::SeqCst);
        for (index, buffer) in (first..).zip(buffers.iter_mut()) {
            self.reads.fetch_add(1, Ordering::SeqCst);
            buffer.fill(0);
            buffer[..16].copy_from_slice(&content(version, index));
        }
        Ok(buffers.iter().map(|buffer| buffer.len()).sum())
    }
}

/// A cache with threads that serve its tiers; they end with it.
struct Cached {
    cache: Arc<Cache>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Cached {
    /// `frames` for blocks that stay, and one for blocks that pass.
    fn new(frames: u32, tiers: Vec<Arc<dyn Tier>>) -> Self {
        Self::with_passing(frames + 1, Some(1), tiers)
    }

    /// `frames` for all blocks.
    fn with_passing(frames: u32, passing: Option<u32>, tiers: Vec<Arc<dyn Tier>>) -> Self {
        Self::choosing(frames, passing, tiers, |_| ())
    }

    fn choosing(
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

    fn share(&self, file: u64, version: u64) {
        let stem = Stem::new(None, BLOCK as u32, [&version.to_le_bytes()[..]]);
        self.cache.share(FileId(file), Some(stem));
    }

    /// Reads a block, and waits until everything that follows from it was done.
    fn read(&self, origin: &Arc<Origin>, file: u64, index: u64) -> Vec<u8> {
        let bytes = self.read_now(origin, file, index);
        assert!(self.cache.drain_tiers(PATIENCE));
        bytes
    }

    fn read_now(&self, origin: &Arc<Origin>, file: u64, index: u64) -> Vec<u8> {
        self.read_some(origin, file, index, 1).unwrap()
    }

    /// The first of `count` blocks.
    fn read_some(&self, origin: &Arc<Origin>, file: u64, index: u64, blocks: usize) -> io::Result<Vec<u8>> {
        let (owner, file) = (OwnerId(1), FileId(file));
        let (offset, size) = (index * BLOCK as u64, 1 << 40);
        let source: Arc<dyn Source> = Arc::clone(origin) as _;
        let request = Request { owner, file, offset, length: blocks * BLOCK, size, source: &source };
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

fn ssd(folder: &Path, blocks: u64) -> Arc<SsdTier> {
    let slot = (BLOCK + pantler_tier::ENVELOPE_BYTES_MAX).next_multiple_of(64) as u64;
    let bytes = 2 * 4096 + blocks * (slot + 64) + 4096;
    let tier = SsdTier::open(folder, bytes, BLOCK, Seal::Checksum).unwrap();
    assert!(u64::from(tier.frames(BLOCK)).abs_diff(blocks) <= 1);
    Arc::new(tier)
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Skewed: a few blocks often, many seldom; and a loop now and then.
fn references(count: usize, blocks: u64, seed: u64) -> Vec<u64> {
    let mut state = seed;
    let mut at = 0;
    (0..count)
        .map(|_| match random(&mut state) % 3 {
            0 => {
                at = (at + 1) % blocks;
                at
            }
            1 => random(&mut state) % blocks,
            _ => random(&mut state) % (blocks / 8),
        })
        .collect()
}

/// Hits of each tier, and what came into the lower ones from the tier above and from below.
#[derive(Debug, Default, PartialEq)]
struct Tallied {
    hits: [u64; 3],
    misses: u64,
    demotions: [u64; 2],
    placements: [u64; 2],
}

impl Tallied {
    /// What the simulator decides, with as many tiers.
    fn expected(protocol: &mut dyn Protocol, tiers: u8, references: &[(Client, u64)]) -> Self {
        let mut expected = Self::default();
        let mut steps = Vec::new();
        for &(client, block) in references {
            let retrieval = protocol.reference(client, block as u32, &mut steps);
            match retrieval.from {
                Level(level) if level <= tiers => expected.hits[usize::from(level) - 1] += 1,
                _ => expected.misses += 1,
            }
            if let Level(level @ 2..) = retrieval.keep
                && retrieval.keep < retrieval.from
                && level <= tiers
            {
                expected.placements[usize::from(level) - 2] += 1;
            }
        }
        for step in steps {
            match step {
                Step::Demote { from: Level(level), .. } => expected.demotions[usize::from(level) - 1] += 1,
                Step::Place { into: Level(level), .. } => expected.placements[usize::from(level) - 2] += 1,
                _ => {}
            }
        }
        protocol.validate();
        expected
    }

    /// What caches over lower tiers did.
    fn found(caches: &[Cached], origin: &Origin) -> Self {
        let mut found = Self { misses: origin.reads.load(Ordering::SeqCst), ..Self::default() };
        for cached in caches {
            found.hits[0] += cached.cache.with_steward(|steward| steward.totals()).hits;
            for (number, stat) in cached.cache.tier_stats().iter().enumerate() {
                found.hits[number + 1] += stat.hits;
                found.demotions[number] += stat.demotions;
                found.placements[number] += stat.placements;
                assert_eq!(stat.dropped + stat.damaged, 0);
            }
        }
        found
    }
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

/// Some read again at once, or soon.
fn with_repetitions(references: impl IntoIterator<Item = (Client, u64)>, seed: u64) -> Vec<(Client, u64)> {
    let mut state = seed;
    let mut all: Vec<(Client, u64)> = Vec::new();
    for reference in references {
        all.push(reference);
        while random(&mut state).is_multiple_of(3) {
            let back = 1 + random(&mut state) as usize % 24;
            let again = if random(&mut state).is_multiple_of(2) { 1 } else { back };
            all.push(all[all.len() - again.min(all.len())]);
        }
    }
    all
}

#[test]
fn hits_and_demotions_are_those_that_the_simulator_decides() {
    for (seed, blocks) in [(1, 60), (2, 100), (3, 300)] {
        for passing in [Some(1), Some(5), None] {
            const FRAMES: u32 = 40;
            let folder = tempfile::tempdir().unwrap();
            let tier = ssd(folder.path(), 40);
            let sizes = Sizes::new(&[FRAMES, tier.frames(BLOCK)]).unwrap();
            let cached = Cached::with_passing(FRAMES, passing, vec![tier]);
            cached.share(1, 1);
            let origin = Origin::new();
            let alone = references(2000, blocks, seed).into_iter().map(|block| (Client(0), block));
            let all = with_repetitions(alone, seed + 50);
            for (_, block) in &all {
                assert_eq!(cached.read(&origin, 1, *block), content(1, *block));
            }
            let mut twin = UlcAlone::with_passing(sizes, passing.map_or(Passing::Share, Passing::Frames));
            let expected = Tallied::expected(&mut twin, 2, &all);
            let found = Tallied::found(&[cached], &origin);
            assert_eq!(found, expected, "seed {seed}, {blocks} blocks, {passing:?} pass");
        }
    }
}

#[test]
fn blocks_go_down_from_tier_to_tier_as_the_simulator_decides() {
    for (seed, blocks) in [(1, 100), (2, 180), (3, 300)] {
        for passing in [Some(1), Some(4), None] {
            const FRAMES: u32 = 30;
            let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
            let [near, far] = [ssd(folders[0].path(), 40), ssd(folders[1].path(), 60)];
            let sizes = Sizes::new(&[FRAMES, near.frames(BLOCK), far.frames(BLOCK)]).unwrap();
            let cached = Cached::with_passing(FRAMES, passing, vec![near, far]);
            cached.share(1, 1);
            let origin = Origin::new();
            let alone = references(2000, blocks, seed).into_iter().map(|block| (Client(0), block));
            let all = with_repetitions(alone, seed + 50);
            for (_, block) in &all {
                assert_eq!(cached.read(&origin, 1, *block), content(1, *block));
            }
            let mut twin = UlcAlone::with_passing(sizes, passing.map_or(Passing::Share, Passing::Frames));
            let expected = Tallied::expected(&mut twin, 3, &all);
            let found = Tallied::found(&[cached], &origin);
            assert!(expected.hits[2] > 0 && expected.demotions[1] > 0, "{expected:?}");
            assert_eq!(found, expected, "seed {seed}, {blocks} blocks, {passing:?} pass");
        }
    }
}

#[test]
fn a_tier_of_this_machine_before_one_that_is_shared_does_as_in_the_simulator() {
    for (seed, blocks) in [(1, 100), (2, 180), (3, 300)] {
        const FRAMES: u32 = 30;
        let folder = tempfile::tempdir().unwrap();
        let (near, shared) = (ssd(folder.path(), 40), Shared::new(60));
        let sizes = Sizes::new(&[FRAMES, near.frames(BLOCK), 60]).unwrap();
        let cached = Cached::with_passing(FRAMES, None, vec![near, shared.client_that_knows("one", 60)]);
        cached.share(1, 1);
        let origin = Origin::new();
        let alone = references(2000, blocks, seed).into_iter().map(|block| (Client(0), block));
        let all = with_repetitions(alone, seed + 50);
        for (_, block) in &all {
            assert_eq!(cached.read(&origin, 1, *block), content(1, *block));
        }
        let mut twin = UlcAlone::with_passing(sizes, Passing::Share);
        let expected = Tallied::expected(&mut twin, 3, &all);
        let found = Tallied::found(&[cached], &origin);
        within_a_hundredth(&found, &expected, &format!("seed {seed}, {blocks} blocks"));
    }
}

#[test]
fn several_clients_on_one_tier_do_as_in_the_simulator() {
    const CLIENTS: usize = 3;
    const NEAR: u32 = 20;
    for (seed, blocks, frames) in [(1, 80, 40), (2, 150, 60), (3, 60, 100)] {
        for passing in [Some(1), Some(4), None] {
            let shared = Shared::new(frames);
            let caches: Vec<Cached> = (0..CLIENTS)
                .map(|client| {
                    Cached::with_passing(NEAR, passing, vec![shared.client(&format!("client-{client}"))])
                })
                .collect();
            caches.iter().for_each(|cached| cached.share(1, 1));
            let origin = Origin::new();
            let mut state = seed;
            let mixed = references(3000, blocks, seed + 100).into_iter().map(|block| {
                let client = random(&mut state) % CLIENTS as u64;
                // Half of the blocks are of one client each.
                (Client(client as u16), if block % 2 == 0 { block } else { block + 1000 * client })
            });
            let all = with_repetitions(mixed, seed + 50);
            for (client, block) in &all {
                assert_eq!(caches[usize::from(client.0)].read(&origin, 1, *block), content(1, *block));
            }
            let sizes = Sizes::new(&[NEAR, frames]).unwrap();
            let passes = passing.map_or(Passing::Share, Passing::Frames);
            let mut twin = UlcClients::with_passing(&sizes, CLIENTS as u16, Order::Access, passes);
            let expected = Tallied::expected(&mut twin, 2, &all);
            let found = Tallied::found(&caches, &origin);
            let what = format!("seed {seed}, {blocks} blocks, {frames} frames, {passing:?} pass");
            within_a_hundredth(&found, &expected, &what);
        }
    }
}

/// Several clients: what is demoted stands in the tier by its age, which is as exact as clocks and
/// threads are.
fn within_a_hundredth(found: &Tallied, expected: &Tallied, what: &str) {
    let requests = expected.hits.iter().sum::<u64>() + expected.misses;
    println!("{what}: {found:?}, expected {expected:?}");
    let close = |one: u64, other: u64| one.abs_diff(other) <= requests / 100;
    let all = found.hits.iter().zip(&expected.hits).all(|(one, other)| close(*one, *other));
    assert!(all && close(found.misses, expected.misses), "{what}: {found:?}, expected {expected:?}");
    let moved = |tallied: &Tallied| [tallied.demotions, tallied.placements].concat();
    let all = moved(found).into_iter().zip(moved(expected)).all(|(one, other)| close(one, other));
    assert!(all, "{what}: {found:?}, expected {expected:?}");
}

#[test]
fn a_file_that_changes_is_never_answered_with_what_it_was() {
    let shared = Shared::new(30);
    let caches: Vec<Cached> =
        (0..2).map(|client| Cached::new(8, vec![shared.client(&format!("client-{client}"))])).collect();
    let origin = Origin::new();
    let mut state = 7;
    let mut version = 1;
    caches.iter().for_each(|cached| cached.share(version, version));
    for _ in 0..4000 {
        if random(&mut state).is_multiple_of(50) {
            // Both look at the same moment.
            version += 1;
            origin.version.store(version, Ordering::SeqCst);
            for cached in &caches {
                cached.cache.supersede(FileId(version - 1), FileId(version));
                cached.share(version, version);
            }
        }
        let (client, index) = (random(&mut state) as usize % 2, random(&mut state) % 40);
        assert_eq!(caches[client].read_now(&origin, version, index), content(version, index));
        if random(&mut state).is_multiple_of(8) {
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
                    let request = Request { owner, file, offset, length, size, source };
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
