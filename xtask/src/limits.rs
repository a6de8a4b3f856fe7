//! `cargo xtask limits`: programs in a control group whose limit holds everything, by the kernel
//! alone and with `pantler run` in the group, beside MIN.
//!
//! MIN has what the plain run leaves of the limit: the limit, less anonymous memory and the
//! kernel's own (slabs, page tables, stacks) in a run without Pantler. What Pantler holds counts
//! against Pantler. Each program reads the same files in every pass, so MIN reads all once, as the
//! program does without a limit, folders and inodes included, and in each further pass what does
//! not fit: no order of eviction reads less of a pass, for the cache holds no more when it begins.

use anyhow::{Context, Result, bail};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::demo::groups::{Group, Memory};
use crate::demo::{self, source};
use crate::median::median;
use crate::packages;
use crate::shell::{self, say};
use crate::wanted::Wanted;

pub mod disk;
pub mod looks;
pub mod programs;

use disk::Disk;
use programs::Program;

/// As a user builds it.
const BUILD: &str = "cargo build --release --package pantler-cli";
/// The image of the file system.
const FOLDER: &str = "target/limits";
/// Megabytes of the image.
const SIZE: &str = "600M";
/// The limit, as a fraction of what a program reads.
const LIMIT: (u64, u64) = (2, 3);
/// How the cache is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arm {
    /// The kernel alone.
    Alone,
    /// `pantler run` without a hint.
    Plain,
    /// `pantler run --policy mru`.
    Mru,
}

impl Arm {
    const ALL: [Arm; 3] = [Arm::Alone, Arm::Plain, Arm::Mru];
}

/// What one run took.
#[derive(Debug, Clone, Copy)]
struct Took {
    read_bytes: f64,
    seconds: f64,
    /// What the group held, in the middle of the looks after its first third.
    held: Memory,
}

/// Measures, and prints the table.
pub fn limits(arguments: &[&str]) -> Result<()> {
    let wanted = Wanted::of("limits", &programs::NAMES, 3, arguments)?;
    if !shell::is_root()? {
        bail!("limits needs root: control groups, mounts and tracepoints do");
    }
    packages::ensure(packages::LIMITS)?;
    shell::run(&shell::words(BUILD))?;
    let interrupt = demo::Interrupt::catch()?;
    fs::create_dir_all(demo::FOLDER)?;
    fs::create_dir_all(FOLDER)?;
    let source = source::prepare(&Path::new(demo::FOLDER).canonicalize()?, &interrupt)?;
    let disk =
        Disk::new(&Path::new(FOLDER).canonicalize()?, SIZE, |folder| programs::write(folder, &source))?;
    let bench = Bench {
        disk,
        interrupt,
        own: std::env::current_exe().context("cannot find the own program")?,
        pantler: Path::new("target/release/pantler").canonicalize().context("pantler is not built")?,
    };
    let mut table = "| program | reads of one pass | limit | for blocks | MIN | kernel alone | no hint | `mru` | `mru` / MIN | no hint / alone | seconds alone, no hint, `mru` |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n".to_owned();
    for program in bench.programs()?.iter().filter(|program| wanted.has(program.name)) {
        table += &bench.row(program, wanted.repeats)?;
    }
    print!("{table}");
    Ok(())
}

/// What all runs have in common.
struct Bench {
    disk: Disk,
    interrupt: demo::Interrupt,
    own: PathBuf,
    pantler: PathBuf,
}

impl Bench {
    fn programs(&self) -> Result<Vec<Program>> {
        self.disk.fresh()?;
        Program::all(self.disk.point())
    }

    /// Runs a program in each way, in turns, and says what it read.
    fn row(&self, program: &Program, repeats: usize) -> Result<String> {
        let limit = program.bytes * LIMIT.0 / LIMIT.1 / 4096 * 4096;
        let whole = self.run(program, Arm::Alone, None)?.read_bytes;
        let mut runs = [const { Vec::new() }; Arm::ALL.len()];
        for repeat in 1..=repeats {
            for (arm, runs) in Arm::ALL.into_iter().zip(&mut runs) {
                let took = self.run(program, arm, Some(limit))?;
                say(format_args!(
                    "{} {arm:?}, {repeat} of {repeats}: {:.1} MB read in {:.2} s; held: {}",
                    program.name,
                    took.read_bytes / 1e6,
                    took.seconds,
                    took.held
                ));
                runs.push(took);
            }
        }
        let middle = |arm: Arm, value: fn(&Took) -> f64| {
            median(runs[arm as usize].iter().map(value)).unwrap_or(f64::NAN)
        };
        let other = middle(Arm::Alone, |took| (took.held.anonymous + took.held.kernel) as f64);
        let least = program.least_bytes(whole, limit as f64 - other);
        let [alone, plain, mru] = Arm::ALL.map(|arm| middle(arm, |took| took.read_bytes));
        let seconds = Arm::ALL.map(|arm| format!("{:.2}", middle(arm, |took| took.seconds)));
        let mut row = String::new();
        let _ = writeln!(
            row,
            "| {} | {:.1} | {:.1} | {:.1} | {:.0} | {:.0} | {:.0} | {:.0} | {:.2} | {:.2} | {} |",
            program.name,
            whole / 1e6,
            limit as f64 / 1e6,
            (limit as f64 - other) / 1e6,
            least / 1e6,
            alone / 1e6,
            plain / 1e6,
            mru / 1e6,
            mru / least,
            plain / alone,
            seconds.join(", ")
        );
        Ok(row)
    }

    /// Runs a program once, with its files and their inodes on the disk only.
    fn run(&self, program: &Program, arm: Arm, limit: Option<u64>) -> Result<Took> {
        self.disk.fresh()?;
        let group = Group::new("limits", None)?;
        limit.map_or(Ok(()), |bytes| group.limit(bytes))?;
        let doors: Vec<String> = group.doors().iter().map(|door| door.display().to_string()).collect();
        let mut command = Command::new(&self.own);
        command.args(["demo-enter", &doors.join(","), "--"]);
        if let Some(bytes) = limit.filter(|_| arm != Arm::Alone) {
            let bytes = bytes.to_string();
            command.arg(&self.pantler).args([
                "run",
                "--profile",
                "none",
                "--memory",
                &bytes,
                "--total",
                &bytes,
            ]);
            if arm == Arm::Mru {
                command.args(["--policy", "mru"]);
            }
            command.arg("--");
        }
        command.args(["sh", "-c", &program.script]).current_dir(self.disk.point().join(program.folder));
        command.env_remove("SUDO_UID").env_remove("SUDO_GID");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let (before, start) = (self.disk.read_bytes()?, Instant::now());
        let looks = looks::watch(&mut command, &group, &self.interrupt)?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(Took {
            read_bytes: (self.disk.read_bytes()? - before) as f64,
            seconds,
            held: looks::steady(&looks),
        })
    }
}
