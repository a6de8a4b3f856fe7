//! What fetching ahead is worth on real mounts. Parts, by name (all without): `scan` `programs`.
//!
//! `scan`: a cold file read from start to end, with and without lookahead, beside the file system below.
//! `programs`: cscope text searches and glimpse over C sources, alone and together, under the six configurations of the ACFS
//! paper, over a simulated disk and over the real one. Every query is a process; those of a program are one owner.
//! Needs `PANTLER_BENCH_TREE`, a folder with C sources, of which the first 300 in order are used.
//!
//! Environment: `PANTLER_BENCH_DIR` (a directory on a real disk; default: the target directory), `PANTLER_BENCH_ROUNDS` (default 3; the
//! best counts, because other work on the machine only ever adds).

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use pantler_control::{Hint, OwnerSelector, PolicyName, RunSpec, Speaker};
use pantler_mount::{DiskModel, Lookahead, Mount, MountOptions, Mounted, Order};
use pantler_steward::Allocation;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let wanted = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    let done = || -> Outcome<()> {
        if wanted("scan") {
            scan()?;
        }
        if wanted("programs") {
            programs()?;
        }
        Ok(())
    };
    if let Err(error) = done() {
        eprintln!("prefetching: {error}");
        std::process::exit(1);
    }
}

fn folder() -> Outcome<tempfile::TempDir> {
    let base = std::env::var_os("PANTLER_BENCH_DIR")
        .map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from);
    Ok(tempfile::tempdir_in(base)?)
}

fn rounds() -> usize {
    std::env::var("PANTLER_BENCH_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

const SCAN_BYTES: usize = 128 << 20;

fn scan() -> Outcome<()> {
    let folder = folder()?;
    let (origin, point) = (folder.path().join("origin"), folder.path().join("mnt"));
    std::fs::create_dir(&origin)?;
    std::fs::create_dir(&point)?;
    let data: Vec<u8> = (0..SCAN_BYTES).map(|at| (at / 4096) as u8).collect();
    std::fs::write(origin.join("f"), &data)?;
    drop(data);
    File::open(origin.join("f"))?.sync_all()?;
    println!("a cold file of {} MiB, MB/s, best of {}", SCAN_BYTES >> 20, rounds());
    println!("{:<28}{:>10}{:>10}", "", "8 KiB", "128 KiB");
    row("file system", |size| {
        let file = File::open(origin.join("f"))?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        read(&origin.join("f"), size)
    })?;
    let schemes = [
        (Lookahead::None, 1),
        (Lookahead::EvenW2r, 1),
        (Lookahead::EvenW2r, 2),
        (Lookahead::EvenW2r, 4),
        (Lookahead::EvenW2r, 8),
        (Lookahead::EvenW2r, 16),
        (Lookahead::EvenW2r, 32),
        (Lookahead::SaW2r, 8),
        (Lookahead::Obl, 8),
        (Lookahead::Obl2, 8),
    ];
    for (lookahead, window) in schemes {
        row(&format!("mount, {lookahead}, window {window}"), |size| {
            let mut options = MountOptions::new(&origin, &point);
            (options.lookahead, options.window) = (lookahead, window);
            options.cache_bytes = 2 * SCAN_BYTES as u64;
            let mounted = Mount::new(options)?.spawn()?;
            let rate = read(&point.join("f"), size);
            mounted.unmount()?;
            rate
        })?;
    }
    Ok(())
}

fn row(name: &str, run: impl Fn(usize) -> Outcome<f64>) -> Outcome<()> {
    let mut best = [0.0f64; 2];
    for _ in 0..rounds() {
        for (best, size) in best.iter_mut().zip([8 << 10, 128 << 10]) {
            *best = best.max(run(size)?);
        }
    }
    println!("{name:<28}{:>10.0}{:>10.0}", best[0], best[1]);
    Ok(())
}

/// MB/s of reading a file from start to end.
fn read(path: &Path, size: usize) -> Outcome<f64> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0; size];
    let (start, mut total) = (Instant::now(), 0);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => total += count,
        }
    }
    Ok(total as f64 / start.elapsed().as_secs_f64() / 1e6)
}

/// The six file systems of the ACFS paper: name, control, lists, scheduling.
const CONFIGURATIONS: [(&str, bool, bool, bool); 6] = [
    ("lru+obl", false, false, false),
    ("+prefetch", false, true, false),
    ("+prefetch+scheduling", false, true, true),
    ("ac", true, false, false),
    ("ac+prefetch", true, true, false),
    ("ac+prefetch+scheduling", true, true, true),
];

/// A hard disk of some years ago, and what of it is used: all files lie within.
const DISK: &str = "seek=8.5,rotation=4.17,transfer=150,size=20";
const SOURCES: usize = 300;
const QUERIES: [&str; 3] = ["mutex_lock", "kmem_cache", "hrtimer"];
const BLOCK_BYTES: usize = 8 << 10;
/// About half of the sources.
const CACHE_BYTES: u64 = 5 << 20;

/// A program: its queries as a shell script, and the files that one query reads, in order.
struct Program {
    name: &'static str,
    script: String,
    files: Vec<PathBuf>,
    /// Files that every query needs more than others.
    index: Vec<PathBuf>,
}

struct Stage {
    origin: PathBuf,
    point: PathBuf,
    /// The name of the owner is made of it: no two runs of a mount share it.
    programs: Vec<Program>,
    _folder: tempfile::TempDir,
}

fn programs() -> Outcome<()> {
    let tree = std::env::var_os("PANTLER_BENCH_TREE")
        .ok_or("PANTLER_BENCH_TREE: expected a folder with C sources")?;
    let stage = prepare(Path::new(&tree))?;
    println!("elapsed seconds; beside it what that is of lru+obl");
    for (disk, model) in
        [(format!("simulated latency, {DISK}"), Some(DISK)), ("the real disk".to_owned(), None)]
    {
        println!(
            "\n{disk}; cache {} MB, blocks of {} KiB, {} queries each",
            CACHE_BYTES >> 20,
            BLOCK_BYTES >> 10,
            QUERIES.len()
        );
        println!("{:<24}{:>18}{:>18}{:>18}", "", "cscope text", "glimpse", "both at once");
        let mut base = [0.0; 3];
        for configuration in CONFIGURATIONS {
            let mut line = format!("{:<24}", configuration.0);
            for (at, which) in
                [&stage.programs[..1], &stage.programs[1..], &stage.programs[..]].iter().enumerate()
            {
                let seconds = perform(&stage, which, configuration, model)?;
                if base[at] == 0.0 {
                    base[at] = seconds;
                }
                line += &format!("{seconds:>11.2}{:>6.0}%", seconds / base[at] * 100.0);
            }
            println!("{line}");
        }
    }
    Ok(())
}

/// Copies the sources, builds the database of cscope and the index of glimpse, and finds out what a query of that reads.
fn prepare(tree: &Path) -> Outcome<Stage> {
    let folder = folder()?;
    let (origin, point) = (folder.path().join("origin"), folder.path().join("mnt"));
    std::fs::create_dir_all(origin.join("src"))?;
    std::fs::create_dir(&point)?;
    let mut found = Vec::new();
    find(tree, &mut found)?;
    found.sort();
    let mut names = Vec::new();
    // From all over the tree, so that names do not lie as they are listed.
    let step = (found.len() / SOURCES).max(1);
    for path in found.iter().step_by(step).take(SOURCES) {
        let name = path.strip_prefix(tree)?.to_string_lossy().replace('/', "_");
        std::fs::copy(path, origin.join("src").join(&name))?;
        names.push(name);
    }
    // As somebody lists files: in another order than they were written in.
    let mut order = names.clone();
    order.sort_by_key(|name| {
        name.bytes().fold(7u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
    });
    std::fs::write(origin.join("src/cscope.files"), order.join("\n") + "\n")?;
    must(Command::new("cscope").args(["-b", "-c", "-k"]).current_dir(origin.join("src")))?;
    let options = MountOptions::new(&origin, &point);
    let mounted = Mount::new(options)?.spawn()?;
    std::fs::create_dir(point.join("index"))?;
    let (source, index) = (point.join("src"), point.join("index"));
    must(Command::new("glimpseindex").arg("-o").arg("-H").arg(&index).arg(&source))?;
    let glimpse = |word: &str| format!("glimpse -y -H {} {word}", index.display());
    let trace = folder.path().join("trace");
    let mut glimpsed = Vec::new();
    for query in QUERIES {
        let script = format!("strace -f -o {} -e trace=open,openat {}", trace.display(), glimpse(query));
        Command::new("sh").args(["-c", &script]).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        glimpsed.extend(opened(&std::fs::read_to_string(&trace)?, &point));
    }
    mounted.unmount()?;
    must(&mut Command::new("sync"))?;
    let sources: Vec<PathBuf> = order.iter().map(|name| source.join(name)).collect();
    let database = source.join("cscope.out");
    let per_query = std::iter::once(database).chain(sources);
    let cscoped: Vec<PathBuf> = std::iter::repeat_n(per_query, QUERIES.len()).flatten().collect();
    let cscope = QUERIES.map(|query| format!("cscope -d -L -4 {query} > /dev/null")).join("; ");
    let index_files =
        glimpsed.iter().filter(|path| path.starts_with(&index)).cloned().collect::<HashSet<_>>();
    let cscope = Program {
        name: "cscope",
        script: format!("cd {}; {cscope}", source.display()),
        files: cscoped,
        index: Vec::new(),
    };
    let glimpse = Program {
        name: "glimpse",
        script: QUERIES.map(|query| format!("{} > /dev/null", glimpse(query))).join("; "),
        files: glimpsed,
        index: index_files.into_iter().collect(),
    };
    Ok(Stage { origin, point, programs: vec![cscope, glimpse], _folder: folder })
}

fn find(folder: &Path, found: &mut Vec<PathBuf>) -> Outcome<()> {
    for entry in std::fs::read_dir(folder)? {
        let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
        if kind.is_dir() {
            find(&path, found)?;
        } else if kind.is_file() && path.extension().is_some_and(|extension| extension == "c") {
            found.push(path);
        }
    }
    Ok(())
}

/// The files below `point` that a trace of system calls opened, in order.
fn opened(trace: &str, point: &Path) -> Vec<PathBuf> {
    let paths = trace.lines().filter(|line| !line.contains("= -1")).filter_map(|line| line.split('"').nth(1));
    paths.map(PathBuf::from).filter(|path| path.starts_with(point) && path.is_absolute()).collect()
}

fn must(command: &mut Command) -> Outcome<()> {
    let output = command.output()?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
    }
}

/// Runs programs at once over a cold mount. Seconds until the last has ended.
fn perform(
    stage: &Stage,
    programs: &[Program],
    (_, control, lists, scheduling): (&str, bool, bool, bool),
    disk: Option<&str>,
) -> Outcome<f64> {
    let mut options = MountOptions::new(&stage.origin, &stage.point);
    (options.cache_bytes, options.block_bytes) = (CACHE_BYTES, BLOCK_BYTES);
    options.allocation = if control || lists { Allocation::LruSp } else { Allocation::GlobalLru };
    (options.lookahead, options.window) = (Lookahead::Obl2, 1);
    options.order = if scheduling { Order::Position } else { Order::Arrival };
    options.simulate_disk = disk.map(str::parse::<DiskModel>).transpose()?;
    let mounted = Mount::new(options)?.spawn()?;
    let started: Vec<Child> =
        programs.iter().map(|program| start(&mounted, program, control, lists)).collect::<Outcome<_>>()?;
    let begin = Instant::now();
    let mut running = started;
    // Each waits for a line.
    running.iter_mut().for_each(|child| drop(child.stdin.take()));
    for child in &mut running {
        child.wait()?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    if std::env::var_os("PANTLER_BENCH_VERBOSE").is_some() {
        let stat = mounted.body().stat(&root(std::process::id()))?;
        eprintln!("{:?} {:?} {:?}", stat.totals, stat.prefetching, stat.body_counters);
    }
    mounted.unmount()?;
    Ok(seconds)
}

fn start(mounted: &Mounted, program: &Program, control: bool, lists: bool) -> Outcome<Child> {
    let script = format!("read go; {}", program.script);
    let child =
        Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let (body, speaker) = (mounted.body(), root(child.id()));
    let run = RunSpec { name: program.name.into(), keep: false, leader: child.id(), uid: 0, profile: None };
    body.begin_run(&speaker, &run)?;
    let owner = OwnerSelector::Name(program.name.into());
    let say = |hint: Hint, path: Option<&Path>| -> Outcome<()> {
        let file = path.map(pantler_control::client::open_to_name).transpose()?;
        body.hint(&speaker, &owner, &hint, file.as_ref().map(AsFd::as_fd))?;
        Ok(())
    };
    if control {
        for priority in [0, 1] {
            say(Hint::SetPolicy { priority, policy: PolicyName::Mru }, None)?;
        }
        for path in &program.index {
            say(Hint::SetPriority { path: path.clone(), priority: 1 }, Some(path))?;
        }
    }
    if lists {
        for (number, path) in program.files.iter().enumerate() {
            say(Hint::ListFile { path: path.clone(), ranges: Vec::new(), append: number > 0 }, Some(path))?;
        }
    }
    Ok(child)
}

fn root(pid: u32) -> Speaker {
    Speaker { uid: 0, gid: 0, groups: Vec::new(), pid }
}
