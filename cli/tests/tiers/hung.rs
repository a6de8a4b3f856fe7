//! A disk that does not answer any more, as a tier: readers go on from the origin, and the tier is
//! used again when it does.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{can_mount, eventually, pattern, stat_of};

const BYTES: usize = 16 << 20;
const PIECE: usize = 128 << 10;
const TIMEOUT: Duration = Duration::from_millis(250);
/// What a busy machine takes for a read from the origin.
const SLACK: Duration = Duration::from_secs(2);

/// A mount in a process of its own.
struct Mounted {
    child: Child,
    point: PathBuf,
    runtime: PathBuf,
}

impl Mounted {
    fn new(folder: &Path, origin: &str, point: &str, more: &[&str]) -> Self {
        let (origin, point) = (folder.join(origin), folder.join(point));
        [&origin, &point].into_iter().for_each(|made| fs::create_dir_all(made).unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
        command.args(["mount", "--foreground"]).arg(origin).arg(&point).args(more);
        let runtime = folder.join("run");
        command.env("PANTLER_RUNTIME_DIR", &runtime).stdin(Stdio::null()).stdout(Stdio::null());
        let mounted = Self { child: command.spawn().unwrap(), point, runtime };
        let is_there = || {
            let table = fs::read_to_string("/proc/self/mounts").unwrap();
            table.lines().any(|line| line.split(' ').nth(1) == mounted.point.to_str())
        };
        eventually("it is mounted", is_there);
        mounted
    }

    fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.child.id() as i32).unwrap();
        kill_process(id, signal).unwrap();
    }

    fn tier(&self) -> Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
        command.args(["stat", "--json"]).arg(&self.point).env("PANTLER_RUNTIME_DIR", &self.runtime);
        let stat = stat_of(&mut command);
        stat["tiers"][0].clone()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        let _ = rustix::mount::unmount(&self.point, rustix::mount::UnmountFlags::DETACH);
        self.child.wait().unwrap();
    }
}

/// Reads all of it, and says what the slowest read took.
fn scan(path: &Path, expected: &[u8]) -> Duration {
    let file = fs::File::open(path).unwrap();
    let mut piece = vec![0; PIECE];
    let read = |(number, expected): (usize, &[u8])| {
        let start = Instant::now();
        file.read_exact_at(&mut piece, (number * PIECE) as u64).unwrap();
        let took = start.elapsed();
        assert!(piece == expected, "piece {number}");
        took
    };
    expected.chunks(PIECE).enumerate().map(read).max().unwrap()
}

#[test]
fn a_disk_that_hangs_costs_a_reader_its_limit_and_is_used_again() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    // The disk is a mount with a process that can be stopped.
    let disk = Mounted::new(folder.path(), "platters", "disk", &[]);
    let tier = format!("ssd:{},64M", disk.point.join("tier").display());
    let timeout = TIMEOUT.as_millis().to_string();
    let words = ["--cache", "4M", "--tier", &tier, "--tier-timeout", &timeout];
    let bytes = pattern(BYTES);
    fs::create_dir(folder.path().join("origin")).unwrap();
    fs::write(folder.path().join("origin/f"), &bytes).unwrap();
    // Reads of the origin shall not wait for what is to be written.
    fs::File::open(folder.path().join("origin/f")).unwrap().sync_all().unwrap();
    let mounted = Mounted::new(folder.path(), "origin", "mnt", &words);
    let path = mounted.point.join("f");
    let hits = || mounted.tier()["hits"].as_u64().unwrap();
    eventually("the tier takes part", || {
        scan(&path, &bytes);
        hits() > 0 && mounted.tier()["works"] == true
    });
    disk.signal(Signal::STOP);
    let slowest = [(); 3].map(|()| scan(&path, &bytes)).into_iter().max().unwrap();
    println!("  slowest while it hung: {} ms", slowest.as_millis());
    assert!(slowest < TIMEOUT + SLACK, "{slowest:?}");
    let stat = mounted.tier();
    assert!(stat["works"] == false && stat["failures"].as_u64() >= Some(1), "{stat}");
    disk.signal(Signal::CONT);
    eventually("it works again", || mounted.tier()["works"] == true);
    let before = hits();
    eventually("it takes part again", || {
        scan(&path, &bytes);
        hits() > before
    });
    assert_eq!(mounted.tier()["damaged"], 0);
    drop(mounted);
}
