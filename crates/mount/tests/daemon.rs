//! docs/SEMANTICS.md, sentence by sentence: the daemon dies, or is told to stop, while it is busy.

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::*;
use pantler_mount::{Mount, MountOptions};

/// A process of its own that serves: this very test program, told to by its environment.
struct Daemon {
    child: Child,
    mnt: PathBuf,
}

const SERVE: &str = "PANTLER_TEST_SERVE";
const CACHE_BYTES: u64 = 8_000_000;

#[test]
fn serve_for_the_other_tests() {
    let Some(paths) = std::env::var_os(SERVE) else { return };
    let mut paths = std::env::split_paths(&paths);
    let mut options = MountOptions::new(paths.next().unwrap(), paths.next().unwrap());
    options.cache_bytes = CACHE_BYTES;
    let _mounted = Mount::new(options).unwrap().spawn().unwrap();
    println!("ready");
    // Until whoever started this kills it, or is gone.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

impl Daemon {
    fn start(origin: &Path, mnt: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "serve_for_the_other_tests", "--nocapture"]);
        command.env(SERVE, std::env::join_paths([origin, mnt]).unwrap());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.ends_with("ready")), "the daemon did not start");
        Self { child, mnt: mnt.to_owned() }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        detach(&self.mnt);
    }
}

fn scratch() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (origin, mnt) = (folder.path().join("origin"), folder.path().join("mnt"));
    fs::create_dir(&origin).unwrap();
    fs::create_dir(&mnt).unwrap();
    (folder, origin, mnt)
}

#[test]
fn killed_while_writing() {
    if cannot_mount() {
        return;
    }
    let (_folder, origin, mnt) = scratch();
    let mut daemon = Daemon::start(&origin, &mnt);
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

    quote("A mount whose daemon was killed is found and removed at the next start.");
    assert_eq!(fs::metadata(&mnt).unwrap_err().raw_os_error(), Some(libc::ENOTCONN));
    let (_other_folder, other_origin, other_mnt) = scratch();
    let _alive = Daemon::start(&other_origin, &other_mnt);
    assert!(pantler_mount::stale::find().unwrap().contains(&mnt));
    let cleaned = pantler_mount::stale::clean().unwrap();
    assert!(cleaned.contains(&mnt) && !cleaned.contains(&other_mnt), "{cleaned:?}");
    assert!(fs::metadata(&mnt).is_ok());
    // The mount point serves again.
    let _next = Daemon::start(&origin, &mnt);
    assert_eq!(fs::read(mnt.join("f0")).unwrap(), fs::read(origin.join("f0")).unwrap());
}

#[test]
fn unmounted_under_load() {
    if cannot_mount() {
        return;
    }
    let mut fixture = Fixture::with(|options| options.cache_bytes = 2 << 20);
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
                    // Once the mount is gone these meet the empty directory beneath, and fail or make a file there.
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
fn readers_and_writers_with_checksums() {
    if cannot_mount() {
        return;
    }
    // Several programs at once on few frames; fio checks what it reads against what it wrote.
    let fixture = Fixture::with(|options| options.cache_bytes = 2 << 20);
    let job = |extra: &str| {
        format!(
            "fio --name=v --directory={} --size=4m --numjobs=3 --rw=randrw --bsrange=1k-200k --bs_unaligned=1 \
             --verify=crc32c --verify_fatal=1 --do_verify=1 --ioengine=psync --group_reporting \
             --output-format=terse {extra}",
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
    let daemon = Daemon::start(&origin, &mnt);
    quote("All memory for blocks and bookkeeping stays within the size given.");
    let anonymous = || {
        let status = fs::read_to_string(format!("/proc/{}/status", daemon.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    };
    let before = anonymous();
    for _ in 0..3 {
        must(&format!("dd if={} of=/dev/null bs=8k status=none", mnt.join("f").display()));
    }
    let used = anonymous() - before;
    assert!((CACHE_BYTES * 8 / 10..=CACHE_BYTES).contains(&used), "{used} of {CACHE_BYTES}");
}
