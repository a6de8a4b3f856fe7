//! What a daemon that steers costs programs: a reader of what is in memory, in several places.

use anyhow::{Context, Result, bail};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::arms::{Bench, Daemon};
use crate::median::median;

/// The reader's file, and that of the scan beside it.
const HOT_BYTES: u64 = 64 << 20;
const SCANNED_BYTES: u64 = 256 << 20;
/// What the daemon may keep.
const BUDGET: u64 = 128 << 20;
const PASSES: u32 = 8;
/// Requests of the reader.
const SIZES: [&str; 2] = ["4k", "64k"];
/// After the last run the daemon switches its tracepoints off.
const RESTS: Duration = Duration::from_secs(3);
/// A scan that has just begun is watched.
const BEGINS: Duration = Duration::from_millis(300);

/// Where the reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Alone,
    BesideDaemon,
    InRun,
    BesideScan,
    BesideSteeredScan,
}

const PLACES: [(Place, &str); 5] = [
    (Place::Alone, "no daemon"),
    (Place::BesideDaemon, "a daemon without runs"),
    (Place::InRun, "joined to the daemon, the start of `pantler run` in it"),
    (Place::BesideScan, "outside, beside a program that scans 256 MB, no daemon"),
    (Place::BesideSteeredScan, "the same, the scan steered"),
];

/// The table, as text.
pub fn overhead(bench: &Bench<'_>) -> Result<String> {
    let hot = file(&bench.folder.join("hot"), HOT_BYTES)?;
    let scanned = file(&bench.folder.join("scanned"), SCANNED_BYTES)?;
    let mut took = vec![[const { Vec::new() }; SIZES.len()]; PLACES.len()];
    for _ in 0..bench.repeats {
        for (row, (place, _)) in took.iter_mut().zip(PLACES) {
            bench.interrupt.check()?;
            let daemon = match place {
                Place::Alone | Place::BesideScan => None,
                _ => Some(bench.daemon("lru-sp", BUDGET)?),
            };
            for (times, size) in row.iter_mut().zip(SIZES) {
                let scan = Scan::start(bench, place, &scanned)?;
                times.push(read(bench, place, &hot, size)?);
                drop(scan);
            }
            drop::<Option<Daemon>>(daemon);
        }
    }
    let middle = |row: usize, size: usize| median(took[row][size].iter().copied()).unwrap_or(0.0);
    let mut text = "\n### What the daemon costs\n\n| the reader | by 4 KiB | more | by 64 KiB | more |\n| --- | ---: | ---: | ---: | ---: |\n".to_owned();
    for (at, (place, name)) in PLACES.iter().enumerate() {
        let alone = if matches!(place, Place::BesideScan | Place::BesideSteeredScan) { 3 } else { 0 };
        let more = |size| (middle(at, size) / middle(alone, size) - 1.0) * 100.0;
        let _ = writeln!(
            text,
            "| {name} | {:.3} s | {:+.0} % | {:.3} s | {:+.0} % |",
            middle(at, 0),
            more(0),
            middle(at, 1),
            more(1)
        );
    }
    Ok(text)
}

/// A file that is in memory.
fn file(path: &Path, bytes: u64) -> Result<PathBuf> {
    if fs::metadata(path).is_ok_and(|meta| meta.len() == bytes) {
        fs::read(path)?;
        return Ok(path.to_owned());
    }
    fs::write(path, vec![1; bytes as usize])?;
    rustix::fs::sync();
    Ok(path.to_owned())
}

/// Seconds of some passes over what is in memory.
fn read(bench: &Bench<'_>, place: Place, hot: &Path, size: &str) -> Result<f64> {
    let script = format!(
        "for i in $(seq {PASSES}); do dd if={} of=/dev/null bs={size} status=none; done",
        hot.display()
    );
    if place == Place::BesideDaemon {
        std::thread::sleep(RESTS);
    }
    // After a rest the processor's caches are cold.
    fs::read(hot)?;
    let mut command = below(bench, place == Place::InRun, &script);
    let start = Instant::now();
    if !command.status()?.success() {
        bail!("the reader failed");
    }
    Ok(start.elapsed().as_secs_f64())
}

fn below(bench: &Bench<'_>, is_run: bool, script: &str) -> Command {
    let mut command = if is_run {
        let mut command = Command::new(&bench.pantler);
        command.args(["run", "--quiet", "--profile", "none", "--", "sh"]);
        command
    } else {
        Command::new("sh")
    };
    command.args(["-c", script]).env("PANTLER_RUNTIME_DIR", bench.folder.join("run")).stdin(Stdio::null());
    command
}

/// A program that reads one file again and again.
struct Scan(Option<Child>);

impl Scan {
    fn start(bench: &Bench<'_>, place: Place, file: &Path) -> Result<Scan> {
        let is_steered = match place {
            Place::BesideScan => false,
            Place::BesideSteeredScan => true,
            _ => return Ok(Scan(None)),
        };
        // It ends with its file: a shell that is killed leaves the reader behind.
        let flag = bench.folder.join("scans");
        fs::write(&flag, "")?;
        let script = format!(
            "while [ -e {} ]; do dd if={} of=/dev/null bs=64k status=none; done",
            flag.display(),
            file.display()
        );
        let child = below(bench, is_steered, &script).spawn().context("cannot start a scan")?;
        std::thread::sleep(BEGINS);
        Ok(Scan(Some(child)))
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = fs::remove_file(Path::new(super::FOLDER).join("scans"));
            let _ = child.wait();
        }
    }
}
