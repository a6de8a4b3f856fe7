//! docs/SEMANTICS.md, sentence by sentence: the daemon dies, or is told to stop, while it is busy.

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::*;
use pantler_mount::{Lookahead, MountError};
use pantler_origin::Source;

const CACHE_BYTES: u64 = 8_000_000;

#[test]
fn serve_for_the_other_tests() {
    serve_if_told_to();
}

#[test]
fn killed_while_writing() {
    if cannot_mount() {
        return;
    }
    let (_folder, origin, mnt) = scratch();
    let mut daemon = Daemon::start(&origin, &mnt, CACHE_BYTES, 65_536);
    quote("Killing the daemon with SIGKILL under write load loses no acknowledged byte.");
    const RECORD: usize = 1000;
    let acknowledged: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|scope| {
        for (writer, count) in acknowledged.iter().enumerate() {
            let path = mnt.join(format!("f{writer}"));
            scope.spawn(move || {
                let file = File::create(path).unwrap();
                for number in 0u64.. {
                    let record = pattern(RECORD, number * 4 + writer as u64);
                    if file.write_all_at(&record, number * RECORD as u64).is_err() {
                        return;
                    }
                    count.store(number + 1, Ordering::SeqCst);
                }
            });
        }
        eventually("some writing", || acknowledged.iter().all(|count| count.load(Ordering::SeqCst) > 500));
        daemon.child.kill().unwrap();
        daemon.child.wait().unwrap();
    });
    for (writer, count) in acknowledged.iter().enumerate() {
        let count = count.load(Ordering::SeqCst);
        let bytes = fs::read(origin.join(format!("f{writer}"))).unwrap();
        for number in 0..count {
            let at = number as usize * RECORD;
            let expected = pattern(RECORD, number * 4 + writer as u64);
            assert!(
                bytes.get(at..at + RECORD) == Some(&expected[..]),
                "record {number} of {count} of {writer}"
            );
        }
    }

    quote("A mount that a killed daemon left behind is found and removed at the next start.");
    assert_eq!(fs::metadata(&mnt).unwrap_err().raw_os_error(), Some(libc::ENOTCONN));
    let (_other_folder, other_origin, other_mnt) = scratch();
    let _alive = Daemon::start(&other_origin, &other_mnt, CACHE_BYTES, 65_536);
    assert!(pantler_mount::stale::find().unwrap().contains(&mnt));
    let cleaned = pantler_mount::stale::clean().unwrap();
    assert!(cleaned.contains(&mnt) && !cleaned.contains(&other_mnt), "{cleaned:?}");
    assert!(fs::metadata(&mnt).is_ok());
    // The mount point serves again.
    let _next = Daemon::start(&origin, &mnt, CACHE_BYTES, 65_536);
    assert_eq!(fs::read(mnt.join("f0")).unwrap(), fs::read(origin.join("f0")).unwrap());
}

#[test]
fn unmounted_under_load() {
    if cannot_mount() {
        return;
    }
    let mut fixture = Fixture::with(|options| {
        options.cache_bytes = 2 << 20;
        options.lookahead = Lookahead::W2r;
    });
    fs::write(fixture.origin.join("f"), pattern(8 << 20, 1)).unwrap();
    quote("Unmounting under load ends: requests under way are answered, later ones fail, nothing hangs.");
    let stop = AtomicBool::new(false);
    let done = AtomicU64::new(0);
    let mnt = fixture.mnt.clone();
    std::thread::scope(|scope| {
        for number in 0..6u64 {
            let (stop, done, mnt) = (&stop, &done, &mnt);
            scope.spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    // Once the mount is gone these meet the empty directory beneath, and fail or
                    // make a file there.
                    if number % 2 == 0 {
                        let _ = fs::read(mnt.join("f"));
                    } else {
                        let _ = fs::write(mnt.join(format!("w{number}")), pattern(100_000, number));
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        eventually("some load", || done.load(Ordering::SeqCst) > 50);
        let start = Instant::now();
        fixture.unmount();
        assert!(start.elapsed() < Duration::from_secs(10));
        stop.store(true, Ordering::SeqCst);
    });
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(&*mnt.to_string_lossy()));
}

#[test]
fn a_request_that_panics() {
    if cannot_mount() {
        return;
    }
    quote("A request that panics is answered with `EIO`, and the mount ends.");
    struct Bad;
    impl Source for Bad {
        fn read_at(&self, _: u64, _: &mut [std::io::IoSliceMut<'_>]) -> std::io::Result<usize> {
            panic!("as told to by a test");
        }
    }
    let mut fixture = Fixture::with(|options| options.interpose = Some(Arc::new(|_| Arc::new(Bad))));
    fs::write(fixture.origin.join("f"), "text").unwrap();
    assert!(fixture.mounted().is_served());
    assert_eq!(fs::read(fixture.mnt.join("f")).unwrap_err().raw_os_error(), Some(libc::EIO));
    eventually("the mount is given up", || !fixture.mounted().is_served());
    // Also when its threads had the time to end by themselves.
    std::thread::sleep(Duration::from_millis(100));
    let start = Instant::now();
    let error = fixture.mounted.take().unwrap().unmount().unwrap_err();
    assert!(matches!(error, MountError::Broken { .. }), "{error}");
    assert!(start.elapsed() < Duration::from_secs(5));
    assert!(!fs::read_to_string("/proc/self/mounts").unwrap().contains(&*fixture.mnt.to_string_lossy()));
}

#[test]
fn readers_and_writers_with_checksums() {
    if cannot_mount() {
        return;
    }
    // Several programs at once on few frames; fio checks what it reads against what it wrote.
    let fixture = Fixture::with(|options| {
        options.cache_bytes = 2 << 20;
        options.lookahead = Lookahead::W2r;
    });
    // It leaves files about what it verified wherever it is started.
    let scratch = tempfile::tempdir().unwrap();
    let job = |extra: &str| {
        format!(
            "cd {} && fio --name=v --directory={} --size=4m --numjobs=3 --rw=randrw --bsrange=1k-200k --bs_unaligned=1 \
             --verify=crc32c --verify_fatal=1 --do_verify=1 --ioengine=psync --group_reporting \
             --output-format=terse {extra}",
            scratch.path().display(),
            fixture.mnt.display()
        )
    };
    must(&job("--randseed=1"));
    must(&job("--randseed=2 --ioengine=mmap --bs=4k --bsrange=4k-4k --bs_unaligned=0"));
    // The origin has the same bytes, and agrees with the mount.
    must(&format!("diff -r {} {}", fixture.origin.display(), fixture.mnt.display()));
}

#[test]
fn a_full_disk() {
    if cannot_mount() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let disk = Loop::new(folder.path(), "mkfs.ext4 -q -O ^has_journal", 16 << 20);
    let fixture = Fixture::over(disk.at.clone(), |_| {});
    quote("When the origin is full a write fails with `ENOSPC`, and what was acknowledged before stays.");
    let data = pattern(100_000, 1);
    let mut file = File::create(fixture.mnt.join("f")).unwrap();
    let mut count = 0;
    let error = loop {
        match file.write_all(&data) {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    assert!(count > 50);
    for path in [fixture.mnt.join("f"), disk.at.join("f")] {
        let bytes = fs::read(path).unwrap();
        assert!(bytes.chunks_exact(data.len()).take(count).all(|chunk| chunk == data));
    }
    quote("Blocks that a file system keeps for root are not given to others.");
    let free = rustix::fs::statvfs(&disk.at).unwrap();
    let fill = format!("dd if=/dev/zero of={}/by-nobody bs=4k status=none", fixture.mnt.display());
    refused(&as_user(NOBODY, "", &fill));
    assert!(free.f_bfree > free.f_bavail, "this file system keeps no reserve");
    // With room again, writing goes on.
    OpenOptions::new().write(true).open(fixture.mnt.join("f")).unwrap().set_len(0).unwrap();
    fs::write(fixture.mnt.join("g"), &data).unwrap();
    assert!(fs::read(fixture.mnt.join("g")).unwrap() == data);
}

#[test]
fn memory_stays_within_the_size_given() {
    if cannot_mount() {
        return;
    }
    let (_folder, origin, mnt) = scratch();
    fs::write(origin.join("f"), pattern(32 << 20, 1)).unwrap();
    let daemon = Daemon::start(&origin, &mnt, CACHE_BYTES, 65_536);
    quote("All memory for blocks and bookkeeping stays within the size given.");
    let anonymous = || {
        let status = fs::read_to_string(format!("/proc/{}/status", daemon.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    };
    // Memory that threads need to serve is there before: their stacks, and buffers of requests.
    fs::write(origin.join("small"), [0; 65_536]).unwrap();
    let small = mnt.join("small").display().to_string();
    must(&format!(
        "for round in 1 2 3 4; do for reader in 1 2 3 4 5 6 7 8; do dd if={small} of=/dev/null bs=8k status=none & done; wait; done"
    ));
    let before = anonymous();
    for _ in 0..3 {
        must(&format!("dd if={} of=/dev/null bs=8k status=none", mnt.join("f").display()));
    }
    let used = anonymous() - before;
    println!("{used} of {CACHE_BYTES}");
    assert!((CACHE_BYTES * 8 / 10..=CACHE_BYTES).contains(&used), "{used} of {CACHE_BYTES}");
}

#[test]
fn what_others_mounted_in_its_place_stays() {
    if cannot_mount() {
        return;
    }
    let tmpfs = |at: &std::path::Path| must(&format!("mount -t tmpfs none {}", at.display()));
    let is_tmpfs = |at: &std::path::Path| must(&format!("stat -f -c %T {}", at.display())).trim() == "tmpfs";
    // Over it: unmounting would take the other mount, so it is refused.
    let mut fixture = Fixture::new();
    tmpfs(&fixture.mnt);
    let error = fixture.mounted.take().unwrap().unmount().unwrap_err().to_string();
    assert!(error.contains("something else is mounted over it"), "{error}");
    assert!(is_tmpfs(&fixture.mnt));
    detach(&fixture.mnt);
    // In its place: another process detached it while a program held a file, so it is served still.
    let mut fixture = Fixture::new();
    let held = File::create(fixture.mnt.join("held")).unwrap();
    detach(&fixture.mnt);
    tmpfs(&fixture.mnt);
    assert!(fixture.mounted().is_served());
    let mounted = fixture.mounted.take().unwrap();
    std::thread::scope(|scope| {
        let ending = scope.spawn(|| mounted.unmount());
        drop(held);
        ending.join().unwrap().unwrap();
    });
    assert!(is_tmpfs(&fixture.mnt), "what was mounted in its place stays");
}
