//! The six configurations of the ACFS paper over real programs and three disks, row by row.

use std::collections::HashSet;
use std::fmt::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use pantler_control::{Hint, OwnerSelector, RunSpec, Speaker};
use pantler_kernel::group::{self, Throttle};
use pantler_mount::{Keeper, Lookahead, Mount, MountOptions, Mounted, Order};
use pantler_steward::Allocation;

use crate::stage::{BLOCK_BYTES, Program, Running, Stage};
use crate::{Outcome, base};

/// The six file systems of the ACFS paper: name, control, lists, scheduling.
const CONFIGURATIONS: [(&str, bool, bool, bool); 6] = [
    ("lru+obl", false, false, false),
    ("+prefetch", false, true, false),
    ("+prefetch+scheduling", false, true, true),
    ("ac", true, false, false),
    ("ac+prefetch", true, true, false),
    ("ac+prefetch+scheduling", true, true, true),
];

/// What runs at once.
const SCENES: [&str; 5] = ["cscope", "glimpse", "postgres", "cscope,glimpse", "cscope,postgres"];

/// Bytes per second of the throttled disk, which knows no seeks.
const THROTTLE: u64 = 20 << 20;
const DISKS: [&str; 2] = ["throttled", "raw"];
/// About half of the sources.
const CACHE_BYTES: u64 = 5 << 20;
/// First word of a process that measures one row.
pub const ROW: &str = "measure-row";

/// Measures the rows that are not there yet, and prints all that are.
pub fn programs() -> Outcome<()> {
    let folder = base().join("prefetching-stage");
    if !folder.exists() {
        let tree = std::env::var_os("PANTLER_BENCH_TREE")
            .ok_or("PANTLER_BENCH_TREE: expected a folder with C sources")?;
        println!("preparing {}", folder.display());
        Stage::make(&folder, Path::new(&tree))?;
    } else if let Some(tree) = std::env::var_os("PANTLER_BENCH_TREE") {
        Stage::make(&folder, Path::new(&tree))?;
    }
    let stage = Stage::open(&folder)?;
    let mut kept = rows(&stage);
    if !kept.is_empty() {
        println!(
            "{} rows are kept from an earlier run; remove {} to begin anew",
            kept.len(),
            folder.display()
        );
    }
    let only = std::env::var("PANTLER_BENCH_ROWS").unwrap_or_default();
    for disk in DISKS {
        for scene in SCENES {
            if scene.split(',').any(|name| stage.programs.iter().all(|program| program.name != name)) {
                continue;
            }
            for (configuration, ..) in CONFIGURATIONS {
                let row = Row { disk: disk.into(), scene: scene.into(), configuration: configuration.into() };
                let words = [disk, scene, configuration, if scene.contains(',') { "pairs" } else { "alone" }];
                let is_wanted = only.split_whitespace().all(|word| words.contains(&word));
                if !is_wanted || kept.iter().any(|kept| kept.row == row) {
                    continue;
                }
                let load = load();
                let seconds = measure(&stage, &row)?;
                println!("{disk:<10} {scene:<16} {configuration:<24} {seconds:>8.2} s   load {load}");
                let measured = Measured { row, seconds, load };
                append(&stage, &measured)?;
                kept.push(measured);
            }
        }
    }
    print_tables(&kept);
    Ok(())
}

#[derive(Clone, PartialEq, Eq)]
struct Row {
    disk: String,
    scene: String,
    configuration: String,
}

/// A row, and what else went on when it was measured.
struct Measured {
    row: Row,
    seconds: f64,
    load: f64,
}

/// Mean number of processes that ran or waited for a disk, over the last minute.
fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(f64::NAN)
}

fn rows(stage: &Stage) -> Vec<Measured> {
    let text = std::fs::read_to_string(stage.results()).unwrap_or_default();
    let row = |line: &str| {
        let mut words = line.split('\t').map(str::to_owned);
        let row = Row { disk: words.next()?, scene: words.next()?, configuration: words.next()? };
        Some(Measured { row, seconds: words.next()?.parse().ok()?, load: words.next()?.parse().ok()? })
    };
    text.lines().filter_map(row).collect()
}

fn append(stage: &Stage, measured: &Measured) -> Outcome<()> {
    let Measured { row: Row { disk, scene, configuration }, seconds, load } = measured;
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(stage.results())?;
    std::io::Write::write_all(
        &mut file,
        format!("{disk}\t{scene}\t{configuration}\t{seconds}\t{load}\n").as_bytes(),
    )?;
    Ok(())
}

fn print_tables(rows: &[Measured]) {
    for disk in DISKS.into_iter().filter(|disk| rows.iter().any(|measured| measured.row.disk == *disk)) {
        let loads = || rows.iter().filter(|measured| measured.row.disk == disk).map(|measured| measured.load);
        let what = match disk {
            "throttled" => format!("the real disk, at most {} MiB per second", THROTTLE >> 20),
            _ => "the real disk".to_owned(),
        };
        println!(
            "\n{what}; cache {} MB, blocks of {} KiB; load {:.1} to {:.1}; elapsed seconds, and what that is of lru+obl",
            CACHE_BYTES >> 20,
            BLOCK_BYTES >> 10,
            loads().fold(f64::INFINITY, f64::min),
            loads().fold(0.0, f64::max),
        );
        println!("| | {} |", SCENES.join(" | "));
        println!("| --- |{}", " ---: |".repeat(SCENES.len()));
        for (configuration, ..) in CONFIGURATIONS {
            let found = |scene: &str, configuration: &str| {
                let wanted =
                    Row { disk: disk.into(), scene: scene.into(), configuration: configuration.into() };
                rows.iter().find(|measured| measured.row == wanted).map(|measured| measured.seconds)
            };
            let mut line = format!("| `{configuration}` |");
            for scene in SCENES {
                let _ = match (found(scene, configuration), found(scene, CONFIGURATIONS[0].0)) {
                    (Some(seconds), Some(base)) => {
                        write!(line, " {seconds:.2} ({:.0} %) |", seconds / base * 100.0)
                    }
                    _ => write!(line, " not measured |"),
                };
            }
            println!("{line}");
        }
    }
}

/// Has a process of its own measure a row, behind the throttle if that is the disk.
fn measure(stage: &Stage, row: &Row) -> Outcome<f64> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([ROW, &row.disk, &row.scene, &row.configuration]).arg(&stage.folder);
    let throttled = (row.disk == "throttled").then(|| throttle(stage)).transpose()?;
    if let Some(group) = &throttled {
        let doors: Vec<PathBuf> = group.program_files();
        let mut files = Vec::new();
        for door in doors {
            files.push(std::fs::OpenOptions::new().write(true).open(door)?);
        }
        let enter = move || files.iter().try_for_each(|mut file| std::io::Write::write_all(&mut file, b"0"));
        // SAFETY: between fork and exec only open descriptors are written to.
        unsafe { command.pre_exec(enter) };
    }
    let output = command.stderr(Stdio::inherit()).output()?;
    if let Some(group) = throttled {
        group.remove()?;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim()
        .parse()
        .map_err(|_| format!("{} {} {}: {}", row.disk, row.scene, row.configuration, output.status).into())
}

fn throttle(stage: &Stage) -> Outcome<Box<dyn group::RunGroup>> {
    let device = std::fs::metadata(stage.origin())?.dev();
    let group = group::create(&pantler_kernel::names::run_name("bench"), false)?;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    group.throttle(Throttle { major, minor, reads_per_s: 1_000_000, read_bytes_per_s: THROTTLE })?;
    Ok(group)
}

/// A row, in the process that was made for it: `DISK SCENE CONFIGURATION STAGE`.
pub fn measure_row(words: &[String]) -> Outcome<()> {
    let [_, scene, configuration, folder] = words else { return Err("a row has four words".into()) };
    let stage = Stage::open(Path::new(folder))?;
    let configuration = CONFIGURATIONS.into_iter().find(|(name, ..)| name == configuration);
    let configuration = configuration.ok_or("no such configuration")?;
    let names: Vec<&str> = scene.split(',').collect();
    let programs: Vec<&Program> =
        stage.programs.iter().filter(|program| names.contains(&program.name.as_str())).collect();
    println!("{}", perform(&stage, &programs, configuration)?);
    Ok(())
}

/// Runs programs at once over a cold mount. Seconds until the last has ended.
fn perform(
    stage: &Stage,
    programs: &[&Program],
    (_, control, lists, scheduling): (&str, bool, bool, bool),
) -> Outcome<f64> {
    let mut options = MountOptions::new(stage.origin(), stage.point());
    (options.cache_bytes, options.block_bytes) = (CACHE_BYTES, BLOCK_BYTES);
    options.allocation = if control || lists { Allocation::LruSp } else { Allocation::GlobalLru };
    (options.lookahead, options.window, options.frames) = (Lookahead::Obl2, 1, Keeper::Own);
    options.order = if scheduling { Order::Position } else { Order::Arrival };
    let mounted = Mount::new(options)?.spawn()?;
    let mut running: Vec<Running> =
        programs.iter().map(|program| start(&mounted, program, control, lists)).collect::<Outcome<_>>()?;
    let begin = Instant::now();
    for program in &mut running {
        program.go()?;
    }
    let await_done = |program: &mut Running| program.await_done().map_err(|error| error.to_string());
    std::thread::scope(|scope| {
        let waits: Vec<_> =
            running.iter_mut().map(|program| scope.spawn(move || await_done(program))).collect();
        waits.into_iter().try_for_each(|wait| wait.join().map_err(|_| "a wait panicked")?)
    })?;
    let seconds = begin.elapsed().as_secs_f64();
    if std::env::var_os("PANTLER_BENCH_VERBOSE").is_some() {
        let stat = mounted.body().stat(&root(std::process::id()))?;
        eprintln!("{:?} {:?} {:?}", stat.totals, stat.prefetching, stat.body_counters);
    }
    running.into_iter().try_for_each(Running::end)?;
    mounted.unmount()?;
    Ok(seconds)
}

/// Starts a program, and gives its list as soon as it is ready.
fn start(mounted: &Mounted, program: &Program, control: bool, lists: bool) -> Outcome<Running> {
    let mut child = program.spawn(&mut Command::new("env"))?;
    let (body, speaker) = (mounted.body(), root(child.id()));
    let run = RunSpec {
        name: program.name.clone(),
        keep: false,
        leader: child.id(),
        uid: 0,
        profile: None,
        is_steered: false,
    };
    body.begin_run(&speaker, &run)?;
    let owner = OwnerSelector::Name(program.name.clone());
    let say = |hint: Hint, path: Option<&Path>| -> Outcome<()> {
        let file = path.map(pantler_control::client::open_to_name).transpose()?;
        body.hint(&speaker, &owner, &hint, file.as_ref().map(AsFd::as_fd))?;
        Ok(())
    };
    if control {
        for priority in [0, 1] {
            say(Hint::SetPolicy { priority, policy: program.policy }, None)?;
        }
        for path in program.index.iter().collect::<HashSet<_>>() {
            say(Hint::SetPriority { path: path.clone(), priority: 1 }, Some(path))?;
        }
    }
    child.start()?;
    if lists {
        // PostgreSQL makes and removes some of what it reads.
        let there = program.list.iter().filter(|(path, _)| path.exists());
        for (number, (path, ranges)) in there.enumerate() {
            let (path, ranges, append) = (path.clone(), ranges.clone(), number > 0);
            say(Hint::ListFile { path: path.clone(), ranges, append }, Some(&path))?;
        }
    }
    Ok(child)
}

fn root(pid: u32) -> Speaker {
    Speaker { uid: 0, gid: 0, groups: Vec::new(), pid }
}
