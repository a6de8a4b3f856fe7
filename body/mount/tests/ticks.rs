//! A mount with a tier over a file system that stamps changes in whole seconds: a file that changed
//! within the last tick is read right, and goes to no tier. Needs root and loop devices.

mod common;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use common::{Fixture, cannot_mount, detach, eventually, must, open_to_all, shell, skip};
use pantler_mount::MountOptions;
use pantler_tier::TierPlace;
use pantler_tier_server::{ServeOptions, Server};

const BLOCK: usize = 64 << 10;
const BYTES: usize = 4 * BLOCK;
/// Stamps advance in seconds.
const TICK: Duration = Duration::from_secs(1);

/// ext4 with inodes that have no room for parts of a second.
struct Disk {
    at: PathBuf,
    _folder: tempfile::TempDir,
}

impl Disk {
    fn new() -> Option<Self> {
        if !shell("command -v mkfs.ext4").status.success() {
            skip("mkfs.ext4 is missing: cargo xtask setup");
            return None;
        }
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (image, at) = (folder.path().join("image"), folder.path().join("at"));
        fs::File::create(&image).unwrap().set_len(32 << 20).unwrap();
        fs::create_dir(&at).unwrap();
        must(&format!("mkfs.ext4 -q -I 128 {0} && mount -o loop {0} {1}", image.display(), at.display()));
        open_to_all(&at);
        Some(Self { at, _folder: folder })
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The loop device goes with the mount.
        detach(&self.at);
    }
}

/// Ends the server, also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn write(path: &Path, version: u8) {
    fs::File::options().write(true).open(path).unwrap().write_all_at(&[version; BYTES], 0).unwrap();
}

fn stamp(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

#[test]
fn a_file_that_changed_within_a_tick_goes_to_no_tier_before_the_tick_has_passed() {
    if cannot_mount() {
        return;
    }
    let Some(disk) = Disk::new() else { return };
    let server = Server::bind(&ServeOptions::new("127.0.0.1:0".parse().unwrap(), 16 << 20)).unwrap();
    let port = server.address().unwrap().port();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| server.run(&stop).unwrap());
        let end = Stop(&stop);
        let choose = |options: &mut MountOptions| {
            let nodes = vec![("127.0.0.1".to_owned(), port)];
            let place = TierPlace::Remote { nodes, tls: false, cluster: false, user: None };
            (options.cache_bytes, options.block_bytes) = (1 << 20, BLOCK);
            options.tiers.places = vec![(place, 16 << 20)];
            options.tiers.timeout = Duration::from_secs(10);
            options.refresh = Duration::ZERO;
        };
        let [one, other] = [(), ()].map(|()| Fixture::over(disk.at.clone(), choose));
        let file = disk.at.join("f");
        fs::write(&file, [0; BYTES]).unwrap();
        let read = |client: &Fixture| fs::read(client.mnt.join("f")).unwrap();
        let moved = || {
            let stats = [&one, &other].map(|client| {
                assert!(client.mounted().drain_tiers(Duration::from_secs(20)));
                client.mounted().tiers().remove(0)
            });
            stats.iter().map(|stat| stat.hits + stat.misses + stat.demotions + stat.placements).sum::<u64>()
        };
        let (mut same, mut is_late) = (0, false);
        let mut last = stamp(&file);
        for version in 1..=100 {
            write(&file, version);
            same += u32::from(stamp(&file) == last);
            last = stamp(&file);
            for client in [&one, &other] {
                assert!(read(client) == [version; BYTES], "version {version}");
            }
            is_late |= last + TICK < SystemTime::now();
        }
        assert!(same > 0, "two changes with one stamp");
        // A machine that took a tick for one of them may have shared it, and rightly.
        assert!(is_late || moved() == 0, "blocks of a file that may still change without a trace");
        // From then on it is as any other: what leaves memory is found below.
        let start = Instant::now();
        fs::write(disk.at.join("g"), vec![7; 2 << 20]).unwrap();
        eventually("the file is shared", || {
            assert!(read(&one) == [100; BYTES]);
            fs::read(one.mnt.join("g")).unwrap();
            moved() > 0
        });
        println!("{same} changes without a trace; shared after {:?}", start.elapsed());
        assert!(read(&other) == [100; BYTES]);
        drop((one, other));
        drop(end);
    });
}
