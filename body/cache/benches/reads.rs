//! Blocks of a list, read ahead by threads and by io_uring in turns: wall time and processor time
//! of this process, the kernel's workers included, for 8 KiB and 64 KiB and for scattered blocks
//! and runs of eight. What counts are the ratios.
//!
//! Environment: `PANTLER_BENCH_DIR` (a directory on a real disk; default: the target directory),
//! `PANTLER_BENCH_ROUNDS` (turns of each; default 7), `PANTLER_BENCH_BLOCKS` (blocks of a list;
//! default 2000).

#[path = "../../../benches/environment.rs"]
mod environment;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pantler_cache::{Cache, ListEntry, Listed, Options, Request};
use pantler_origin::{Directory, OpenMode, Reads, Source};
use pantler_steward::lists::Chunk;
use pantler_steward::{FileId, OwnerId};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const WORKERS: u32 = 8;

fn main() -> Outcome<()> {
    if std::env::args().any(|argument| argument == "--list") {
        return Ok(());
    }
    let base = std::env::var_os("PANTLER_BENCH_DIR")
        .map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from);
    println!("{}", environment::line(Some(&base)));
    let (rounds, blocks) = (number("PANTLER_BENCH_ROUNDS", 7), number("PANTLER_BENCH_BLOCKS", 2000));
    let folder = tempfile::tempdir_in(base)?;
    println!("{blocks} blocks of a list, medians of {rounds} turns each; ratio = io_uring / threads");
    println!(
        "{:<22}{:>12}{:>12}{:>8}{:>14}{:>14}{:>8}",
        "", "threads ms", "ring ms", "ratio", "threads CPU", "ring CPU", "ratio"
    );
    for block_bytes in [8 << 10, 64 << 10] {
        for run in [1, 8] {
            row(folder.path().join(format!("{block_bytes}-{run}")), block_bytes, run, blocks, rounds)?;
        }
    }
    Ok(())
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn row(path: PathBuf, block_bytes: usize, run: u64, blocks: u64, rounds: u64) -> Outcome<()> {
    // Every other run of blocks is on the list, in an order that looks random.
    let runs = blocks / run;
    let mut file = std::fs::File::create(&path)?;
    for index in 0..2 * blocks {
        file.write_all(&vec![index as u8; block_bytes])?;
    }
    file.sync_all()?;
    let step = (runs * 5 / 8..).find(|step| gcd(*step, runs) == 1).unwrap_or(1);
    let starts: Vec<u64> = (0..runs).map(|number| number * step % runs * 2 * run).collect();
    let root = Directory::open(path.parent().ok_or("no folder")?)?.root()?;
    let source: Arc<dyn Source> =
        Arc::new(root.lookup(path.file_name().ok_or("no name")?)?.open(OpenMode::READ)?);
    let mut times: [Vec<(Duration, Duration)>; 2] = Default::default();
    for turn in 0..2 * rounds {
        // threads, ring, ring, threads, ...
        let way = (turn as usize).div_ceil(2) % 2;
        times[way].push(read(&source, block_bytes, run, &starts, [Reads::Threads, Reads::IoUring][way])?);
    }
    let median = |way: usize, which: fn(&(Duration, Duration)) -> Duration| {
        let mut all: Vec<f64> = times[way].iter().map(|time| which(time).as_secs_f64() * 1e3).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let wall = [median(0, |time| time.0), median(1, |time| time.0)];
    let busy = [median(0, |time| time.1), median(1, |time| time.1)];
    println!(
        "{:<22}{:>12.1}{:>12.1}{:>8.2}{:>14.1}{:>14.1}{:>8.2}",
        format!("{} KiB, runs of {run}", block_bytes >> 10),
        wall[0],
        wall[1],
        wall[1] / wall[0],
        busy[0],
        busy[1],
        busy[1] / busy[0]
    );
    std::fs::remove_file(path)?;
    Ok(())
}

fn gcd(one: u64, other: u64) -> u64 {
    if other == 0 { one } else { gcd(other, one % other) }
}

/// Wall and processor time of reading a list to its end.
fn read(
    source: &Arc<dyn Source>,
    block_bytes: usize,
    run: u64,
    starts: &[u64],
    reads: Reads,
) -> Outcome<(Duration, Duration)> {
    let cache_bytes = 512 * (block_bytes as u64 + pantler_cache::FRAME_METADATA_BYTES);
    let options = Options {
        cache_bytes,
        block_bytes,
        reads,
        prefetchers: WORKERS,
        trusting: true,
        ..Options::default()
    };
    let cache = Arc::new(Cache::new(options)?);
    let serve = |_| {
        let cache = Arc::clone(&cache);
        std::thread::spawn(move || cache.serve_prefetches())
    };
    let workers: Vec<_> = (0..WORKERS).map(serve).collect();
    while cache.prefetch_workers() < WORKERS {
        std::thread::sleep(Duration::from_millis(1));
    }
    let listed = Listed { source: Arc::clone(source), position: Some(0) };
    let entry = |&first: &u64| ListEntry {
        chunk: Chunk { file: FileId(1), first, last: first + run - 1 },
        listed: listed.clone(),
    };
    let entries: Vec<ListEntry> = starts.iter().map(entry).collect();
    let (begin, busy) = (Instant::now(), processor_time());
    cache.give_list(OwnerId(1), &entries)?;
    let size = u64::MAX;
    for block in starts.iter().flat_map(|&first| first..first + run) {
        let (owner, offset) = (OwnerId(1), block * block_bytes as u64);
        let request = Request { owner, file: FileId(1), offset, length: block_bytes, size, source };
        let count = cache.read(&request, <[u8]>::len)?;
        assert_eq!(count, block_bytes, "a short block {block}");
    }
    let times = (begin.elapsed(), processor_time().saturating_sub(busy));
    let stat = cache.reads();
    cache.stop_prefetches();
    for worker in workers {
        worker.join().map_err(|_| "a worker panicked")?;
    }
    match stat.refused {
        Some(why) => Err(format!("io_uring is refused: {why}").into()),
        None => Ok(times),
    }
}

fn processor_time() -> Duration {
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    // SAFETY: all zeros is a valid `rusage`, and the kernel writes one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}
