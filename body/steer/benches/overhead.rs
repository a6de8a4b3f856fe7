//! What steering costs: per hot read, and on whole programs that fit in memory. Needs root.
//!
//! ```text
//! cargo bench -p pantler-steer [-- PAIRS [FOLDER]]
//! ```
//!
//! Part one prints the cost of one hot 4 KiB `pread`: not traced at all, in a run, and outside of a
//! run (of a file the run does not use, and of one it does). Part two runs cscope, ripgrep and sort
//! over the C sources below FOLDER (default: those of `linux-source-6.1`, unpacked on the way: 1.5
//! GB) in alternating pairs, with and without a run, with everything in memory, and prints the
//! median of the paired differences with its 95 % interval. The CPU time of the steering threads is
//! counted as if it had been spent in the program. Both halves of a pair rest for 100 ms before the
//! program is told to begin: entering a run waits for all CPUs, and what that leaves behind (cold
//! caches, callbacks of the kernel) is a cost of entering, printed by itself in part three.

use std::error::Error;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pantler_steer::{HitWatch, Steer, SteerOptions, doctor};

#[path = "../../../benches/environment.rs"]
mod environment;

type Failure = Box<dyn Error>;

/// Makes this program the reader of part one: `BYTES READS PATH`.
const READER: &str = "PANTLER_BENCH_READER";
const HOT_BYTES: u64 = 64 << 20;
const READS: u32 = 400_000;
const BUDGET: u64 = 6 << 30;
/// Between the last preparation of a program and its beginning.
const REST: Duration = Duration::from_millis(100);

fn main() -> Result<(), Failure> {
    if let Ok(work) = std::env::var(READER) {
        return read_hot(&work);
    }
    let missing: Vec<_> = doctor().into_iter().filter(|check| check.needed && !check.present).collect();
    if let Some(check) = missing.first() {
        println!("skipped: {}: {}; {}", check.name, check.detail, check.remedy);
        return Ok(());
    }
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let pairs: usize = words.first().map_or(Ok(20), |word| word.parse())?;
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    println!("{}", environment::line(Some(scratch.path())));
    hot_reads(scratch.path())?;
    programs(scratch.path(), pairs, words.get(1).map(PathBuf::from))?;
    entering(pairs)
}

// Part one.

fn hot_reads(scratch: &Path) -> Result<(), Failure> {
    let files: Vec<PathBuf> = (0..2).map(|number| scratch.join(format!("hot{number}"))).collect();
    for file in &files {
        fs::write(file, vec![1; HOT_BYTES as usize])?;
        File::open(file)?.sync_all()?;
    }
    println!("\none hot 4 KiB pread, ns, median of 5");
    println!("  not traced at all                       {:>6.0}", median_of(|| reader(&files[0], None))?);
    for others in [true, false] {
        let steer = start(others, HitWatch::Always)?;
        let label = if others { "" } else { ", others not watched" };
        println!("  in a run{label:<32}{:>6.0}", median_of(|| reader(&files[0], Some(&steer)))?);
        if others {
            // The filter of other programs' events is narrow a moment after the last new file.
            println!(
                "  outside, a file of the run              {:>6.0}",
                median_of(|| reader(&files[0], None))?
            );
            std::thread::sleep(Duration::from_millis(2500));
            println!(
                "  outside, another file, filter by file   {:>6.0}",
                median_of(|| reader(&files[1], None))?
            );
        }
        let counters = steer.stop()?;
        println!("    ({} events, {} lost)", counters.events, counters.events_lost);
    }
    Ok(())
}

fn median_of(mut measure: impl FnMut() -> Result<f64, Failure>) -> Result<f64, Failure> {
    let mut values = (0..5).map(|_| measure()).collect::<Result<Vec<_>, _>>()?;
    Ok(median(&mut values))
}

fn reader(path: &Path, steer: Option<&Steer>) -> Result<f64, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(READER, format!("{HOT_BYTES} {READS} {}", path.display()));
    if let Some(steer) = steer {
        steer.enter(&mut command)?;
    }
    let output = command.output()?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// Reads random blocks of a file that is in memory, and prints the nanoseconds per read.
fn read_hot(work: &str) -> Result<(), Failure> {
    let mut words = work.splitn(3, ' ');
    let bytes: u64 = words.next().ok_or("bytes")?.parse()?;
    let reads: u32 = words.next().ok_or("reads")?.parse()?;
    let file = File::open(words.next().ok_or("a path")?)?;
    let mut buffer = [0; 4096];
    for block in 0..bytes / 4096 {
        file.read_exact_at(&mut buffer, block * 4096)?;
    }
    let mut state = 88_172_645_463_325_252u64;
    let begin = Instant::now();
    for _ in 0..reads {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        file.read_exact_at(&mut buffer, state % (bytes / 4096) * 4096)?;
        black_box(&buffer);
    }
    println!("{}", begin.elapsed().as_nanos() as f64 / f64::from(reads));
    Ok(())
}

// Part two.

fn programs(scratch: &Path, pairs: usize, folder: Option<PathBuf>) -> Result<(), Failure> {
    let sources = match folder {
        Some(folder) => folder,
        None => unpack(scratch)?,
    };
    let sources = fs::canonicalize(sources)?;
    let place = |name: &str| scratch.join(name).display().to_string();
    let (list, database, text) = (place("list"), place("cscope.out"), place("text"));
    let sources = sources.display();
    let few = ["fs", "mm", "include"].map(|folder| format!("{sources}/{folder}")).join(" ");
    shell(&format!(
        "find {few} -name '*.[ch]' | sort > {list}; cscope -b -c -k -f {database} -i {list} 2>/dev/null"
    ))?;
    shell(&format!("head -n 1500 {list} | xargs cat | head -c 24000000 > {text}"))?;
    println!("\nwhole programs, everything in memory, {pairs} pairs each");
    println!("  paired differences in %, steering CPU counted, as median [95 % interval]");
    println!(
        "  program               alone s   elapsed                   CPU                     steering CPU s"
    );
    let scripts = [
        ("cscope", format!("for s in kmalloc vfs_read; do cscope -d -f {database} -L0 $s; done")),
        ("ripgrep", format!("rg -c mutex_lock {sources}")),
        ("ripgrep of few files", format!("rg -c mutex_lock {few}")),
        ("sort", format!("sort -S 1G {text}")),
    ];
    for (watch, text) in [
        (HitWatch::WhenNeeded, "no hints: hits are not watched while there is room"),
        (HitWatch::Always, "hits are watched, as with a profile"),
    ] {
        println!("  {text}");
        for (name, script) in &scripts {
            pair_up(name, script, pairs, watch)?;
        }
    }
    Ok(())
}

fn unpack(scratch: &Path) -> Result<PathBuf, Failure> {
    shell(&format!("cd {} && tar xf /usr/src/linux-source-6.1.tar.xz", scratch.display()))?;
    Ok(scratch.join("linux-source-6.1"))
}

fn pair_up(name: &str, script: &str, pairs: usize, watch: HitWatch) -> Result<(), Failure> {
    let (mut alone, mut elapsed, mut counted, mut cpu) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for pair in 0..pairs {
        let (mut plain, mut steered) = (None, None);
        for turn in 0..2 {
            if (turn + pair) % 2 == 0 {
                let steer = start(true, watch)?;
                // Once for the run to know the files, then for the clock.
                timed(script, Some(&steer))?;
                steered = Some(timed(script, Some(&steer))?);
                steer.stop()?;
            } else {
                timed(script, None)?;
                plain = Some(timed(script, None)?);
            }
        }
        let (Some(plain), Some(steered)) = (plain, steered) else { continue };
        let percent = |with: f64, without: f64| (with - without) / without * 100.0;
        alone.push(plain.elapsed_s);
        elapsed.push(percent(steered.elapsed_s + steered.steering_cpu_s, plain.elapsed_s));
        counted.push(percent(steered.program_cpu_s + steered.steering_cpu_s, plain.program_cpu_s));
        cpu.push(steered.steering_cpu_s);
    }
    let (elapsed_low, elapsed_high) = interval(&mut elapsed.clone());
    let (cpu_low, cpu_high) = interval(&mut counted.clone());
    println!(
        "  {name:<20} {:>8.3}   {:>+6.2} [{elapsed_low:+.2}, {elapsed_high:+.2}]   {:>+6.2} [{cpu_low:+.2}, {cpu_high:+.2}]   {:.4}",
        median(&mut alone),
        median(&mut elapsed),
        median(&mut counted),
        median(&mut cpu),
    );
    std::io::stdout().flush()?;
    Ok(())
}

/// What one run of a program took.
struct Taken {
    elapsed_s: f64,
    /// User and system time of the program and its children.
    program_cpu_s: f64,
    /// CPU time of this process meanwhile: the steering threads.
    steering_cpu_s: f64,
}

fn timed(script: &str, steer: Option<&Steer>) -> Result<Taken, Failure> {
    let mut command = Command::new("sh");
    // The program begins when it is told to, and so does the clock.
    command.arg("-c").arg(format!("read go; {script}")).stdin(Stdio::piped()).stdout(Stdio::null());
    if let Some(steer) = steer {
        steer.enter(&mut command)?;
    }
    let mut child = command.spawn()?;
    std::thread::sleep(REST);
    let (begin, cpu, children) = (Instant::now(), cpu_s(), children_cpu_s());
    child.stdin.take().ok_or("a pipe")?.write_all(b"go\n")?;
    child.wait()?;
    Ok(Taken {
        elapsed_s: begin.elapsed().as_secs_f64(),
        program_cpu_s: children_cpu_s() - children,
        steering_cpu_s: cpu_s() - cpu,
    })
}

// Part three.

/// What `true` takes from its fork to its end, in a run that stands and outside of one.
fn entering(times: usize) -> Result<(), Failure> {
    let steer = start(true, HitWatch::WhenNeeded)?;
    let mut took = [Vec::new(), Vec::new()];
    for _ in 0..times {
        for (run, times) in [None, Some(&steer)].into_iter().zip(&mut took) {
            let mut command = Command::new("true");
            if let Some(steer) = run {
                steer.enter(&mut command)?;
            }
            let begin = Instant::now();
            command.status()?;
            times.push(begin.elapsed().as_secs_f64() * 1e3);
        }
    }
    steer.stop()?;
    let [outside, inside] = &mut took;
    println!("\nstarting a program, ms, median of {times}");
    println!("  outside                                 {:>6.1}", median(outside));
    println!("  into a run, once for each run           {:>6.1}", median(inside));
    Ok(())
}

fn start(watch_others: bool, watch_hits: HitWatch) -> Result<Steer, Failure> {
    let mut options = SteerOptions::new("bench", BUDGET);
    options.watch_others = watch_others;
    options.watch_hits = watch_hits;
    Ok(Steer::start(options)?)
}

fn shell(script: &str) -> Result<(), Failure> {
    let status = Command::new("sh").args(["-c", script]).status()?;
    if status.success() { Ok(()) } else { Err(format!("{script}: {status}").into()) }
}

fn cpu_s() -> f64 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 * 1e-9
}

/// User and system time of the children that ended.
fn children_cpu_s() -> f64 {
    // SAFETY: all bytes zero are a valid `rusage`, and the call fills in the one it is given.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

/// The 95 % interval of the median, by order statistics.
fn interval(values: &mut [f64]) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let low = ((count - 1.96 * count.sqrt()) / 2.0).floor().max(0.0) as usize;
    (values[low], values[values.len() - 1 - low])
}
