//! What access lists are worth over the kernel's own readahead, cold, on the real disk. Needs root.
//!
//! ```text
//! cargo bench -p pantler-steer --bench lists [-- ROUNDS [FOLDER]]
//! ```
//!
//! A program reads what it computes on for a while after each 8 KiB, or does not: one file from
//! start to end, many small files in an order that is not that of their names, and single blocks of
//! a large file in random order. Alone with the kernel's readahead, steered, and steered with a
//! list of all that it will read. Each in turn, ROUNDS times (default 5); the table has the times
//! beside those with the kernel's readahead: medians of the ratios of each round, with the lowest
//! and the highest. FOLDER (default: the target directory) says which disk.

use std::error::Error;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pantler_control::{Hint, OwnerSelector, Speaker};
use pantler_kernel::pages;
use pantler_steer::{Steer, SteerOptions, doctor};

#[path = "../../../benches/environment.rs"]
mod environment;

type Failure = Box<dyn Error>;

/// Makes this program the reader: microseconds of computing, and the file that says what to read.
const READER: &str = "PANTLER_BENCH_READER";
const READ_BYTES: usize = 8 << 10;
const LARGE_BYTES: u64 = 128 << 20;
const FILES: u64 = 1500;
const FILE_BYTES: u64 = 32 << 10;
const PIECES: u64 = 3000;
const BUDGET: u64 = 256 << 20;
/// Computing after each read, in microseconds.
const COMPUTING: [u64; 2] = [0, 100];
/// Ranges of one hint.
const RANGES: usize = 1000;

/// What is read: byte ranges of files, in order.
type Plan = Vec<(PathBuf, u64, u64)>;

fn main() -> Result<(), Failure> {
    if let Ok(work) = std::env::var(READER) {
        return read(&work);
    }
    let missing: Vec<_> = doctor().into_iter().filter(|check| check.needed && !check.present).collect();
    if let Some(check) = missing.first() {
        println!("skipped: {}: {}; {}", check.name, check.detail, check.remedy);
        return Ok(());
    }
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let rounds: usize = words.first().map_or(Ok(5), |word| word.parse())?;
    let base = words.get(1).map_or(env!("CARGO_TARGET_TMPDIR"), String::as_str);
    let scratch = tempfile::tempdir_in(base)?;
    println!("{}; {rounds} rounds", environment::line(Some(scratch.path())));
    println!("| computing after each 8 KiB | read | steered | steered, with a list |");
    println!("| --- | --- | ---: | ---: |");
    for (name, plan) in plans(scratch.path())? {
        for computing in COMPUTING {
            let mut times: [Vec<f64>; 3] = Default::default();
            for _ in 0..rounds {
                for (times, (steered, listed)) in
                    times.iter_mut().zip([(false, false), (true, false), (true, true)])
                {
                    times.push(measure(scratch.path(), &plan, computing, steered, listed)?);
                }
            }
            let [steered, listed] = [1, 2].map(|way| ratios(&times[way], &times[0]));
            println!("| {computing} us | {name} | {steered} | {listed} |");
        }
    }
    Ok(())
}

fn ratios(times: &[f64], base: &[f64]) -> String {
    let mut all: Vec<f64> = times.iter().zip(base).map(|(time, base)| time / base).collect();
    all.sort_by(f64::total_cmp);
    format!("{:.2} ({:.2} to {:.2})", all[all.len() / 2], all[0], all[all.len() - 1])
}

/// The files, and what is read of them.
fn plans(folder: &Path) -> Result<[(&'static str, Plan); 3], Failure> {
    let make = |name: String, bytes: u64| -> Result<PathBuf, Failure> {
        let (path, data) = (folder.join(name), vec![7; bytes as usize]);
        let mut file = File::create(&path)?;
        file.write_all(&data)?;
        file.sync_all()?;
        Ok(path)
    };
    let large = make("large".to_owned(), LARGE_BYTES)?;
    let mut state = 88_172_645_463_325_252u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut small = Plan::new();
    for number in 0..FILES {
        small.push((make(format!("small{number:05}"), FILE_BYTES)?, 0, FILE_BYTES));
    }
    for last in (1..small.len()).rev() {
        small.swap(last, random(last as u64 + 1) as usize);
    }
    let block = READ_BYTES as u64;
    let piece = |_| {
        let start = random(LARGE_BYTES / block) * block;
        (large.clone(), start, start + block)
    };
    let pieces = (0..PIECES).map(piece).collect();
    Ok([
        ("one file of 128 MiB", vec![(large.clone(), 0, LARGE_BYTES)]),
        ("1,500 files of 32 KiB", small),
        ("3,000 blocks of 8 KiB in random order", pieces),
    ])
}

/// Milliseconds of one cold run.
fn measure(folder: &Path, plan: &Plan, computing: u64, steered: bool, listed: bool) -> Result<f64, Failure> {
    for (path, ..) in plan {
        let file = File::open(path)?;
        pages::drop_blocks(file.as_fd(), 0, file.metadata()?.len().div_ceil(pages::block_bytes()))?;
    }
    let text = plan.iter().fold(String::new(), |mut text, (path, start, end)| {
        let _ = writeln!(text, "{start} {end} {}", path.display());
        text
    });
    let orders = folder.join("plan");
    fs::write(&orders, text)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.env(READER, format!("{computing} {}", orders.display()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let steer = steered.then(|| Steer::start(SteerOptions::new("bench", BUDGET))).transpose()?;
    if let Some(steer) = &steer {
        steer.enter(&mut command)?;
    }
    let mut reader = command.spawn()?;
    if let Some(steer) = steer.as_ref().filter(|_| listed) {
        list(steer, plan)?;
    }
    // Entering waited for all CPUs, and what that leaves behind is no cost of reading.
    std::thread::sleep(Duration::from_millis(100));
    reader.stdin.take().ok_or("no pipe")?.write_all(b"\n")?;
    let output = reader.wait_with_output()?;
    if let Some(steer) = steer {
        steer.stop()?;
    }
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

fn list(steer: &Steer, plan: &Plan) -> Result<(), Failure> {
    let speaker = Speaker { uid: 0, gid: 0, groups: Vec::new(), pid: std::process::id() };
    let body = steer.body();
    let mut append = false;
    for part in plan.chunk_by(|one, next| one.0 == next.0) {
        for part in part.chunks(RANGES) {
            let path = part[0].0.clone();
            let file = File::open(&path)?;
            let ranges = part.iter().map(|(_, start, end)| (*start as i64, *end as i64)).collect();
            body.hint(
                &speaker,
                &OwnerSelector::UserDefault,
                &Hint::ListFile { path, ranges, append },
                Some(file.as_fd()),
            )?;
            append = true;
        }
    }
    Ok(())
}

/// Waits for a line, reads, and prints how many milliseconds that took.
fn read(work: &str) -> Result<(), Failure> {
    let (computing, orders) = work.split_once(' ').ok_or("two words")?;
    let computing = Duration::from_micros(computing.parse()?);
    let orders = fs::read_to_string(orders)?;
    let mut buffer = vec![0; READ_BYTES];
    std::io::stdin().read_line(&mut String::new())?;
    let begin = Instant::now();
    let mut open: Option<(&str, File)> = None;
    for line in orders.lines() {
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().ok_or("three words");
        let (mut at, end, path) = (word()?.parse::<u64>()?, word()?.parse::<u64>()?, word()?);
        let file = match &mut open {
            Some((known, file)) if *known == path => file,
            open => &mut open.insert((path, File::open(path)?)).1,
        };
        while at < end {
            let count = file.read_at(&mut buffer, at)?;
            if count == 0 {
                break;
            }
            at += count as u64;
            let until = Instant::now() + computing;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
        }
    }
    println!("{}", begin.elapsed().as_secs_f64() * 1e3);
    Ok(())
}
