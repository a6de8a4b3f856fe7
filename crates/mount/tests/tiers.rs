//! Mounts over lower tiers: what they save, and that bytes are right whatever breaks.

mod common;

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use common::{Fixture, cannot_mount, eventually, pattern};
use pantler_mount::MountOptions;
use pantler_tier::serve::{ServeOptions, Server};
use pantler_tier::{Place, Seal, Secret};

const BLOCK: usize = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(20);

struct Served {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    fn at(listen: &str, memory_bytes: u64) -> Self {
        let server = Server::bind(&ServeOptions::new(listen.parse().unwrap(), memory_bytes)).unwrap();
        let (address, stop) = (server.address().unwrap(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || server.run(&stopped).unwrap());
        Self { address, stop, thread: Some(thread) }
    }

    fn place(&self) -> Place {
        let nodes = vec![("127.0.0.1".to_owned(), self.address.port())];
        Place::Remote { nodes, tls: false, cluster: false, user: None }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let _ = self.thread.take().unwrap().join();
    }
}

fn with_tiers(options: &mut MountOptions, cache_bytes: u64, places: Vec<(Place, u64)>) {
    options.cache_bytes = cache_bytes;
    options.block_bytes = BLOCK;
    options.threads = 4;
    options.tiers.places = places;
}

fn scan(path: &Path, expected: &[u8]) {
    scan_and(path, expected, || ());
}

/// Does something after each read.
fn scan_and(path: &Path, expected: &[u8], after: impl Fn()) {
    // In the steps in which programs read.
    let file = fs::File::open(path).unwrap();
    let mut piece = vec![0; 128 << 10];
    for (number, expected) in expected.chunks(piece.len()).enumerate() {
        let piece = &mut piece[..expected.len()];
        file.read_exact_at(piece, (number * (128 << 10)) as u64).unwrap();
        assert!(piece == expected, "piece {number} of {}", path.display());
        after();
    }
}

fn read_bytes(fixture: &Fixture) -> u64 {
    fixture.mounted().counters().traffic.fetched_bytes
}

#[test]
fn a_second_scan_reads_from_the_origin_what_no_tier_could_hold() {
    if cannot_mount() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let place = Place::Ssd(folder.path().join("tier"));
    let (cache, tier) = (8 << 20, 16 << 20);
    // What waits, looked ahead, takes frames from tier 1: here all are for what is kept.
    let choose = |options: &mut MountOptions, place| {
        with_tiers(options, cache, vec![(place, tier)]);
        options.lookahead = pantler_mount::Lookahead::None;
    };
    let mut fixture = Fixture::with(|options| choose(options, place));
    let bytes = pattern(32 << 20, 1);
    fs::write(fixture.origin.join("f"), &bytes).unwrap();
    let path = fixture.mnt.join("f");
    let mut second = 0;
    for pass in 0..3 {
        let before = read_bytes(&fixture);
        // What comes faster than the tier takes it is dropped (B3): here it does not.
        scan_and(&path, &bytes, || assert!(fixture.mounted().drain_tiers(PATIENCE)));
        let read = read_bytes(&fixture) - before;
        let held =
            u64::from(fixture.mounted().counters().capacity_blocks) + fixture.mounted().tiers()[0].frames;
        println!("pass {pass}: {read} bytes from the origin; the tiers hold {held} blocks");
        if pass == 1 {
            second = read;
            let most = bytes.len() as u64 - held * BLOCK as u64;
            // What only passes through memory is in no tier.
            let passing = cache / 16;
            assert!(read <= most + passing, "{read} bytes, at most {most}");
        }
    }
    let stat = &fixture.mounted().tiers()[0];
    assert!(stat.hits > 0 && stat.damaged == 0, "{stat:?}");
    // After a restart, the tier still holds its part.
    fixture.unmount();
    let (origin, place) = (fixture.origin.clone(), Place::Ssd(folder.path().join("tier")));
    let again = Fixture::over(origin, |options| choose(options, place));
    scan(&again.mnt.join("f"), &bytes);
    let read = read_bytes(&again);
    assert!(read <= second + cache + cache / 8, "{read} after a restart, {second} before");
}

#[test]
fn clients_share_a_server_and_see_every_change_when_they_look() {
    if cannot_mount() {
        return;
    }
    let served = Served::at("127.0.0.1:0", 64 << 20);
    let place = || vec![(served.place(), 64 << 20)];
    let seal = Seal::Encrypted(Secret::new(b"shared by both"));
    let choose = |options: &mut MountOptions| {
        with_tiers(options, 4 << 20, place());
        options.tiers.seal = seal.clone();
        options.refresh = Duration::ZERO;
    };
    let one = Fixture::with(choose);
    let other = Fixture::over(one.origin.clone(), choose);
    let mut bytes = pattern(12 << 20, 2);
    fs::write(one.origin.join("f"), &bytes).unwrap();
    for _ in 0..3 {
        scan(&one.mnt.join("f"), &bytes);
        assert!(one.mounted().drain_tiers(PATIENCE));
    }
    let before = read_bytes(&other);
    scan(&other.mnt.join("f"), &bytes);
    let read = read_bytes(&other) - before;
    assert!(read < bytes.len() as u64 * 3 / 4, "{read} bytes: the other's blocks are found");
    // One writes through its mount; the other sees it at its next look. Then behind both.
    let mut state = 1_u64;
    for round in 0..40 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (state >> 20) as usize % (bytes.len() - 100_000);
        let length = (state >> 44) as usize % 100_000;
        bytes[at..at + length].fill(round as u8);
        let writer = match round % 3 {
            0 => one.mnt.join("f"),
            1 => other.mnt.join("f"),
            _ => one.origin.join("f"),
        };
        let file = fs::File::options().write(true).open(writer).unwrap();
        file.write_all_at(&bytes[at..at + length], at as u64).unwrap();
        drop(file);
        scan(&one.mnt.join("f"), &bytes);
        scan(&other.mnt.join("f"), &bytes);
    }
    let stats = [one.mounted().tiers().remove(0), other.mounted().tiers().remove(0)];
    assert!(stats.iter().all(|stat| stat.hits > 0 && stat.damaged == 0), "{stats:?}");
}

#[test]
fn reads_go_on_while_a_tier_is_killed_emptied_and_comes_back() {
    if cannot_mount() {
        return;
    }
    let mut served = Served::at("127.0.0.1:0", 32 << 20);
    let listen = served.address.to_string();
    let fixture = Fixture::with(|options| {
        with_tiers(options, 4 << 20, vec![(served.place(), 32 << 20)]);
        options.tiers.timeout = Duration::from_millis(200);
    });
    let bytes = pattern(16 << 20, 3);
    fs::write(fixture.origin.join("f"), &bytes).unwrap();
    let path = fixture.mnt.join("f");
    let (done, slowest_ms) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for reader in 0..8_u64 {
            let (path, bytes, done, slowest_ms) = (&path, &bytes, &done, &slowest_ms);
            scope.spawn(move || {
                let file = fs::File::open(path).unwrap();
                let mut state = reader;
                let mut piece = vec![0; 20_000];
                while !done.load(Ordering::SeqCst) {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let at = (state >> 30) as usize % (bytes.len() - piece.len());
                    let start = Instant::now();
                    file.read_exact_at(&mut piece, at as u64).unwrap();
                    assert!(piece == bytes[at..at + piece.len()], "at {at}");
                    slowest_ms.fetch_max(start.elapsed().as_millis() as usize, Ordering::SeqCst);
                }
            });
        }
        let works = || fixture.mounted().tiers()[0].works;
        let hits = || fixture.mounted().tiers()[0].hits;
        for _ in 0..2 {
            eventually("the tier takes part", || hits() > 0 && works());
            drop(served);
            eventually("the tier is missed", || !works());
            std::thread::sleep(Duration::from_millis(300));
            served = Served::at(&listen, 32 << 20);
            eventually("the tier is taken back", works);
            let before = hits();
            eventually("it is filled again", || hits() > before + 50);
        }
        done.store(true, Ordering::SeqCst);
    });
    let slowest = slowest_ms.load(Ordering::SeqCst);
    println!("the slowest of all reads took {slowest} ms");
    assert!(slowest < 5_000, "{slowest} ms");
    scan(&path, &bytes);
}
