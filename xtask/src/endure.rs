//! `cargo xtask endure`: runs that join a daemon and leave it at random, programs and daemons that
//! are killed, for minutes or for a day.
//!
//! E1  What programs read is what is in their files.
//! E2  In the first half runs end with all of their processes, and no daemon ends. Then what is
//!     cached of the files is at most 1.02 of the budget in the middle, and never more than the
//!     budget and a window of the kernel's readahead for each run. (Programs that go on after their
//!     run have no budget, nor have pages that were in memory before a daemon began.)
//! E3  No thread but those of the kernel that reclaim memory drops a page of a file that no run
//!     uses.
//! E4  A program that was killed ends its run with status 137, one that was told to end with 143.
//! E5  The daemon's memory does not grow, once each file was read.
//! E6  In the end nothing is left: no control group, trace instance, probe, socket or process.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use pantler_kernel::pages::{block_bytes, count_cached, drop_blocks};
use pantler_policy::Draws;

use crate::demo::Interrupt;
use crate::median::median;
use crate::packages;
use crate::shell::{self, say};

mod drops;
mod host;
mod left;
mod runs;

use drops::Drops;
use host::Host;
use runs::Runs;

const BUILD: &str = "cargo build --release --package pantler-cli";
const FOLDER: &str = "target/endure";
const MIB: u64 = 1 << 20;
/// Bytes of each file that runs read, of which there is one for each run, and of the one that they
/// leave alone.
const FILE_BYTES: u64 = 8 * MIB;
/// What all runs together may keep: a third of what 24 of them read.
const BUDGET: u64 = 64 * MIB;
/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);

/// What is asked for.
struct Wanted {
    minutes: u64,
    runs: usize,
    seed: u64,
}

impl Wanted {
    fn of(arguments: &[&str]) -> Result<Wanted> {
        let mut wanted = Wanted { minutes: 10, runs: 24, seed: 1 };
        for pair in arguments.chunks(2) {
            match pair {
                ["--minutes", count] => wanted.minutes = count.parse().context("--minutes: a number")?,
                ["--runs", count] => wanted.runs = count.parse().context("--runs: a number")?,
                ["--seed", seed] => wanted.seed = seed.parse().context("--seed: a number")?,
                _ => bail!("endure: expected --minutes N, --runs N, --seed N"),
            }
        }
        ensure!((1..=256).contains(&wanted.runs), "--runs {}: expected 1 to 256", wanted.runs);
        ensure!(wanted.minutes >= 1, "--minutes 0: expected 1 at least");
        Ok(wanted)
    }
}

/// Has it all go on, and fails by what did not hold.
pub fn endure(arguments: &[&str]) -> Result<()> {
    let wanted = Wanted::of(arguments)?;
    if !shell::is_root()? {
        bail!("endure needs root: steering does");
    }
    packages::ensure(packages::TEST)?;
    shell::run(&shell::words(BUILD))?;
    let interrupt = Interrupt::catch()?;
    fs::create_dir_all(FOLDER)?;
    let folder = Path::new(FOLDER).canonicalize()?;
    let mut draws = Draws::new(wanted.seed);
    let files = (0..wanted.runs).map(|number| written(&folder, &number.to_string(), &mut draws));
    let files = files.collect::<Result<Vec<PathBuf>>>()?;
    let other = written(&folder, "other", &mut draws)?;
    let pantler = Path::new("target/release/pantler").canonicalize().context("pantler is not built")?;
    let host = Host::new(pantler, folder.join("run"), BUDGET)?;
    let runs = Runs::new(files.clone())?;
    files.iter().try_for_each(|file| forget(file))?;
    drop(fs::read(&other)?);
    let drops = Drops::of(&other)?;

    let half = Duration::from_secs(wanted.minutes * 30);
    let is_over = AtomicBool::new(false);
    let looked = std::thread::scope(|scope| {
        for number in 0..wanted.runs {
            let (runs, host, is_over) = (&runs, &host, &is_over);
            let draws = Draws::new(wanted.seed.wrapping_add(1 + number as u64));
            scope.spawn(move || runs.go_on(number, draws, host, is_over));
        }
        let looked = look_on(&host, &files, &other, half, &mut draws, &interrupt);
        is_over.store(true, Ordering::SeqCst);
        host.start_anew_unless_there();
        looked
    })?;
    host.kill();
    // What a killed daemon left, the next one removes.
    host.start_anew_unless_there();
    host.end()?;
    let mut faults = looked.faults(wanted.runs);
    faults.extend(runs.faults());
    faults.extend(drops.by()?.iter().map(|thread| format!("E3: {thread} dropped what no run used")));
    faults.extend(left::all(&folder.join("run"))?);
    println!("seed {}, {} minutes, {} runs at a time", wanted.seed, wanted.minutes, wanted.runs);
    println!("{runs}\n{looked}");
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    println!("all of it held");
    Ok(())
}

/// A file of this name with bytes of its own, on the disk and not in memory.
fn written(folder: &Path, name: &str, draws: &mut Draws) -> Result<PathBuf> {
    let path = folder.join(name);
    let bytes: Vec<u8> = (0..FILE_BYTES / 8).flat_map(|_| draws.below(u64::MAX).to_le_bytes()).collect();
    fs::write(&path, bytes)?;
    forget(&path)?;
    Ok(path)
}

/// Has the kernel drop a file.
fn forget(path: &Path) -> Result<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    Ok(drop_blocks(file.as_fd(), 0, FILE_BYTES / block_bytes())?)
}

fn cached_bytes(path: &Path) -> Result<u64> {
    let file = File::open(path)?;
    Ok(count_cached(file.as_fd(), 0, FILE_BYTES.div_ceil(block_bytes()))? * block_bytes())
}

/// What was seen, look by look.
#[derive(Default)]
struct Looked {
    /// Bytes that the kernel reads ahead of a reader of the files.
    window: u64,
    /// Bytes of the runs' files in memory, in the first half.
    cached: Vec<u64>,
    /// Bytes that the daemon of the first half held.
    held: Vec<u64>,
    /// Daemons that were killed, and that were told to end.
    killed: u32,
    ended: u32,
}

/// The first half by one daemon, the second with daemons that end at random.
fn look_on(
    host: &Host,
    files: &[PathBuf],
    other: &Path,
    half: Duration,
    draws: &mut Draws,
    interrupt: &Interrupt,
) -> Result<Looked> {
    let mut looked = Looked { window: window(other)?, ..Looked::default() };
    let begun = Instant::now();
    let mut next_end = half;
    let mut told = Duration::ZERO;
    while begun.elapsed() < half * 2 {
        std::thread::sleep(LOOK);
        interrupt.check()?;
        let passed = begun.elapsed();
        if passed >= told {
            say(format_args!("{} of {} s", passed.as_secs(), half.as_secs() * 2));
            told = passed + Duration::from_secs(30);
        }
        drop(fs::read(other)?);
        if passed < half {
            looked.cached.push(files.iter().map(|file| cached_bytes(file)).sum::<Result<u64>>()?);
            looked.held.push(host.held_bytes()?);
        } else if passed >= next_end {
            host.is_harsh.store(true, Ordering::SeqCst);
            if draws.below(2) == 0 {
                host.kill();
                looked.killed += 1;
            } else {
                host.end()?;
                looked.ended += 1;
            }
            std::thread::sleep(Duration::from_millis(draws.below(1000)));
            host.start_anew_unless_there();
            next_end = passed + Duration::from_secs(5 + draws.below(15));
        }
    }
    Ok(looked)
}

/// Bytes that the kernel reads ahead of a reader of this file, at most.
fn window(path: &Path) -> Result<u64> {
    let device = fs::metadata(path)?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let text = fs::read_to_string(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"))?;
    Ok(text.trim().parse::<u64>()? << 10)
}

/// Bytes in the middle of the looks.
fn middle(looks: &[u64]) -> u64 {
    median(looks.iter().map(|&bytes| bytes as f64)).unwrap_or_default() as u64
}

impl Looked {
    /// What the daemon held in the second and in the last quarter of the first half, in the middle.
    fn growth(&self) -> [u64; 2] {
        let quarter = self.held.len() / 4;
        [middle(&self.held[quarter..2 * quarter]), middle(&self.held[3 * quarter..])]
    }

    /// What did not hold.
    fn faults(&self, runs: usize) -> Vec<String> {
        let mut faults = Vec::new();
        let middle = middle(&self.cached);
        if middle > BUDGET + BUDGET / 50 {
            faults.push(format!("E2: {middle} bytes were cached in the middle, of {BUDGET}"));
        }
        let (most, peak) = (BUDGET + runs as u64 * self.window, self.cached.iter().max());
        if peak.is_some_and(|peak| *peak > most) {
            faults.push(format!("E2: {peak:?} bytes were cached, expected {most} at most"));
        }
        let [before, after] = self.growth();
        if after > before + before / 10 {
            faults.push(format!("E5: the daemon held {before} bytes, and later {after}"));
        }
        faults
    }
}

impl std::fmt::Display for Looked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let peak = self.cached.iter().copied().max().unwrap_or_default();
        let [before, after] = self.growth().map(megabytes);
        write!(
            f,
            "cached: {:.1} MB in the middle, {:.1} at most, of a budget of {:.1}\ndaemon: {before:.1} MB in the second quarter, {after:.1} in the last; then {} were killed and {} told to end",
            megabytes(middle(&self.cached)),
            megabytes(peak),
            megabytes(BUDGET),
            self.killed,
            self.ended,
        )
    }
}
