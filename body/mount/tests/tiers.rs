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
use pantler_mount::{Mount, MountOptions};
use pantler_policy::Draws;
use pantler_rig::Net;
use pantler_tier::{Seal, Secret, TierPlace};
use pantler_tier_server::{ServeOptions, Server};

const BLOCK: usize = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(20);

struct Served {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    fn at(listen: &str, memory_bytes: u64) -> Self {
        Self::serving(&ServeOptions::new(listen.parse().unwrap(), memory_bytes))
    }

    fn serving(options: &ServeOptions) -> Self {
        let server = Server::bind(options).unwrap();
        let (address, stop) = (server.address().unwrap(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || server.run(&stopped).unwrap());
        Self { address, stop, thread: Some(thread) }
    }

    fn place(&self) -> TierPlace {
        let nodes = vec![("127.0.0.1".to_owned(), self.address.port())];
        TierPlace::Remote { nodes, tls: false, cluster: false, user: None }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let _ = self.thread.take().unwrap().join();
    }
}

fn with_tiers(options: &mut MountOptions, cache_bytes: u64, places: Vec<(TierPlace, u64)>) {
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

/// Blocks that a server has, as any tool asks.
fn blocks_on(served: &Served) -> u64 {
    let mut stream = std::net::TcpStream::connect(served.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    std::io::Write::write_all(&mut stream, b"DBSIZE\r\n").unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stream), &mut line).unwrap();
    line.trim().trim_start_matches(':').parse().unwrap()
}

#[test]
fn a_server_keeps_no_more_of_a_mount_than_was_typed_for_it() {
    if cannot_mount() {
        return;
    }
    let served = Served::at("127.0.0.1:0", 64 << 20);
    let typed = 8 << 20;
    let fixture = Fixture::with(|options| with_tiers(options, 4 << 20, vec![(served.place(), typed)]));
    let bytes = pattern(32 << 20, 1);
    fs::write(fixture.origin.join("f"), &bytes).unwrap();
    for _ in 0..3 {
        scan(&fixture.mnt.join("f"), &bytes);
        assert!(fixture.mounted().drain_tiers(PATIENCE));
        let blocks = blocks_on(&served);
        assert!(blocks * BLOCK as u64 <= typed, "{blocks} blocks are there");
    }
    let stat = &fixture.mounted().tiers()[0];
    assert!(stat.hits > 0 && stat.capacity_blocks * BLOCK as u64 <= typed, "{stat:?}");
}

#[test]
fn a_second_scan_reads_from_the_origin_what_no_tier_could_hold() {
    if cannot_mount() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let place = TierPlace::Ssd(folder.path().join("tier"));
    let (cache, tier) = (8 << 20, 16 << 20);
    // What waits, looked ahead, takes frames from tier 1: here all are for what is kept.
    let choose = |options: &mut MountOptions, place| {
        with_tiers(options, cache, vec![(place, tier)]);
        options.lookahead = pantler_mount::Lookahead::None;
        // However busy the disk is.
        options.tiers.timeout = PATIENCE;
    };
    let mut fixture = Fixture::with(|options| choose(options, place));
    let bytes = pattern(32 << 20, 1);
    fs::write(fixture.origin.join("f"), &bytes).unwrap();
    let path = fixture.mnt.join("f");
    let mut second = 0;
    for pass in 0..3 {
        let before = read_bytes(&fixture);
        // Blocks that come faster than the tier takes them are dropped (B3): here they do not.
        scan_and(&path, &bytes, || assert!(fixture.mounted().drain_tiers(PATIENCE)));
        let read = read_bytes(&fixture) - before;
        let held = u64::from(fixture.mounted().counters().capacity_blocks)
            + fixture.mounted().tiers()[0].capacity_blocks;
        println!("pass {pass}: {read} bytes from the origin; the tiers hold {held} blocks");
        if pass == 1 {
            second = read;
            let most = bytes.len() as u64 - held * BLOCK as u64;
            assert!(read <= most, "{read} bytes, at most {most}");
        }
    }
    let stat = &fixture.mounted().tiers()[0];
    assert!(stat.hits > 0 && stat.damaged == 0, "{stat:?}");
    // After a restart, the tier still holds its part.
    fixture.unmount();
    let (origin, place) = (fixture.origin.clone(), TierPlace::Ssd(folder.path().join("tier")));
    let again = Fixture::over(origin, |options| choose(options, place));
    scan(&again.mnt.join("f"), &bytes);
    let read = read_bytes(&again);
    assert!(read <= second + cache + cache / 8, "{read} after a restart, {second} before");
}

#[test]
fn a_file_larger_than_memory_and_an_ssd_goes_on_to_a_server_and_comes_back() {
    if cannot_mount() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut served = Served::at("127.0.0.1:0", 16 << 20);
    let listen = served.address.to_string();
    // As `--tier ssd:PATH,8M --tier redis://HOST:PORT,16M`.
    let fixture = Fixture::with(|options| {
        let places = vec![(TierPlace::Ssd(folder.path().join("tier")), 8 << 20), (served.place(), 16 << 20)];
        with_tiers(options, 8 << 20, places);
        options.lookahead = pantler_mount::Lookahead::None;
        // However busy the disk is.
        options.tiers.timeout = PATIENCE;
    });
    let bytes = pattern(48 << 20, 5);
    fs::write(fixture.origin.join("f"), &bytes).unwrap();
    let path = fixture.mnt.join("f");
    let tiers = || fixture.mounted().tiers();
    let pass = || {
        let before = read_bytes(&fixture);
        scan_and(&path, &bytes, || assert!(fixture.mounted().drain_tiers(PATIENCE)));
        read_bytes(&fixture) - before
    };
    let held = |tiers: &[u64]| {
        (u64::from(fixture.mounted().counters().capacity_blocks) + tiers.iter().sum::<u64>()) * BLOCK as u64
    };
    pass();
    let read = pass();
    let frames: Vec<u64> = tiers().iter().map(|tier| tier.capacity_blocks).collect();
    let most = bytes.len() as u64 - held(&frames);
    println!(
        "the second pass read {read} bytes from the origin, at most {most}; {frames:?} frames below memory"
    );
    assert!(read <= most, "{read} bytes, at most {most}");
    let stats = tiers();
    assert!(stats.iter().all(|tier| tier.hits > 0 && tier.dropped + tier.damaged == 0), "{stats:?}");
    // Without the server, what is on this machine is as good as before.
    drop(served);
    let near = stats[0].hits;
    let read = pass();
    let most = bytes.len() as u64 - held(&frames[..1]) / 2;
    println!("without the server {read} bytes, and {} blocks of the SSD", tiers()[0].hits - near);
    assert!(read <= most && tiers()[0].hits > near && !tiers()[1].works, "{read} bytes, {:?}", tiers());
    served = Served::at(&listen, 16 << 20);
    eventually("the server is taken back", || tiers()[1].works);
    let far = tiers()[1].hits;
    pass();
    pass();
    assert!(tiers()[1].hits > far, "{:?}", tiers());
    drop(served);
}

#[test]
fn a_mount_goes_without_an_ssd_that_another_one_uses() {
    if cannot_mount() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let choose = |options: &mut MountOptions| {
        with_tiers(options, 4 << 20, vec![(TierPlace::Ssd(folder.path().join("tier")), 8 << 20)]);
        options.tiers.missing = pantler_mount::TierMissing::Without;
    };
    let one = Fixture::with(choose);
    let other = Fixture::over(one.origin.clone(), choose);
    assert_eq!((one.mounted().tiers().len(), other.mounted().tiers().len()), (1, 0));
    let bytes = pattern(1 << 20, 5);
    fs::write(one.origin.join("f"), &bytes).unwrap();
    scan(&other.mnt.join("f"), &bytes);
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
        options.tiers.timeout = PATIENCE;
        options.refresh = Duration::ZERO;
    };
    let one = Fixture::with(choose);
    let other = Fixture::over(one.origin.clone(), choose);
    let mut bytes = pattern(12 << 20, 2);
    fs::write(one.origin.join("f"), &bytes).unwrap();
    // On a busy machine the way to the server would be full, and blocks stay behind.
    let drained = |one: &Fixture| assert!(one.mounted().drain_tiers(PATIENCE));
    for _ in 0..3 {
        scan_and(&one.mnt.join("f"), &bytes, || drained(&one));
    }
    let before = read_bytes(&other);
    scan_and(&other.mnt.join("f"), &bytes, || drained(&other));
    let read = read_bytes(&other) - before;
    assert!(read < bytes.len() as u64 * 3 / 4, "{read} bytes: the other's blocks are found");
    // One writes through its mount; the other sees it at its next look. Then behind both.
    let mut draws = Draws::new(1);
    for round in 0..40 {
        let at = draws.below(bytes.len() as u64 - 100_000) as usize;
        let length = draws.below(100_000) as usize;
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
fn who_writes_through_two_mounts_at_once_leaves_one_file() {
    if cannot_mount() {
        return;
    }
    let served = Served::at("127.0.0.1:0", 64 << 20);
    let choose = |options: &mut MountOptions| with_tiers(options, 4 << 20, vec![(served.place(), 64 << 20)]);
    let one = Fixture::with(choose);
    let other = Fixture::over(one.origin.clone(), choose);
    fs::write(one.origin.join("f"), vec![0; 2 * BLOCK]).unwrap();
    for round in 0..20 {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (own, mount) in [&one, &other].into_iter().enumerate() {
                let stop = &stop;
                scope.spawn(move || {
                    let mut file = fs::File::options();
                    let file = file.read(true).write(true).open(mount.mnt.join("f")).unwrap();
                    let mut bytes = vec![0; BLOCK];
                    for count in 1_u32.. {
                        bytes.chunks_exact_mut(4).for_each(|word| word.copy_from_slice(&count.to_le_bytes()));
                        file.write_all_at(&bytes, (own * BLOCK) as u64).unwrap();
                        // So that it is in memory when the next write keeps it in step.
                        file.read_exact_at(&mut bytes, ((1 - own) * BLOCK) as u64).unwrap();
                        if stop.load(Ordering::SeqCst) {
                            return;
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(100));
            stop.store(true, Ordering::SeqCst);
        });
        let truth = fs::read(one.origin.join("f")).unwrap();
        for mount in [&one, &other] {
            assert!(fs::read(mount.mnt.join("f")).unwrap() == truth, "round {round}");
        }
    }
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
                let mut draws = Draws::new(reader);
                let mut piece = vec![0; 20_000];
                while !done.load(Ordering::SeqCst) {
                    let at = draws.below((bytes.len() - piece.len()) as u64) as usize;
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

/// U7: a server that cannot be reached at the start, and has less room than was typed, is known by
///     what it holds as soon
/// as it is reached.
#[test]
fn a_server_that_is_reached_late_is_known_by_what_it_holds() {
    if cannot_mount() {
        return;
    }
    let Some(net) = Net::new(1) else { return };
    let served = net.within(0, || Served::at("0.0.0.0:0", 6 << 20));
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (origin, point) = (folder.path().join("origin"), folder.path().join("m"));
    fs::create_dir(&origin).unwrap();
    fs::create_dir(&point).unwrap();
    let bytes = pattern(10 << 20, 8);
    fs::write(origin.join("f"), &bytes).unwrap();
    fs::write(origin.join("g"), pattern(1 << 20, 9)).unwrap();
    // The same client by its mount point.
    let mount = || {
        let nodes = vec![(net.server(1), served.address.port())];
        let place = TierPlace::Remote { nodes, tls: false, cluster: false, user: None };
        let mut options = MountOptions::new(&origin, &point);
        with_tiers(&mut options, 6 << 20, vec![(place, 64 << 20)]);
        options.lookahead = pantler_mount::Lookahead::None;
        options.tiers.missing = pantler_mount::TierMissing::Without;
        net.within(1, || Mount::new(options).unwrap().spawn().unwrap())
    };
    let mounted = mount();
    for _ in 0..2 {
        scan_and(&point.join("f"), &bytes, || assert!(mounted.drain_tiers(PATIENCE)));
    }
    let before = mounted.tiers().remove(0);
    assert!(before.blocks > 30 && before.blocks <= before.capacity_blocks, "{before:?}");
    mounted.unmount().unwrap();
    net.cut(true);
    let mounted = mount();
    fs::read(point.join("g")).unwrap();
    let stat = || mounted.tiers().remove(0);
    assert!(
        !stat().works && stat().blocks == 0 && stat().capacity_blocks > 2 * before.capacity_blocks,
        "{:?}",
        stat()
    );
    net.cut(false);
    eventually("the server is reached", || stat().works);
    assert_eq!((stat().blocks, stat().capacity_blocks), (before.blocks, before.capacity_blocks));
    scan_and(&point.join("f"), &bytes, || assert!(mounted.drain_tiers(PATIENCE)));
    assert!(stat().hits > 0, "{:?}", stat());
    mounted.unmount().unwrap();
}
