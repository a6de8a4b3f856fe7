//! `cargo xtask profiles`: what people run, by the kernel alone, steered by LRU, without a hint,
//! and by the profile that comes with Pantler, with one budget.
//!
//! Reads are those of the device of a file system of their own. What stands beside a service joins
//! a daemon with it.

use anyhow::{Context, Result, bail, ensure};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::demo::Interrupt;
use crate::demo::groups::Group;
use crate::limits::disk::Disk;
use crate::limits::looks;
use crate::median::median;
use crate::packages;
use crate::rivals::beside::Beside;
use crate::shell::{self, say};
use crate::wanted::Wanted;

#[path = "../../cli/tests/savings/rows.rs"]
mod rows;

use rows::{Arm, PATTERNS, ROWS, Row, SCRIPT};

/// As a user builds it.
const BUILD: &str = "cargo build --release --package pantler-cli";
/// The image of the file system, and what runs leave.
const FOLDER: &str = "target/profiles";
/// Of the image; it takes what is in it.
const SIZE: &str = "6G";
/// Of a row's data.
const MEGABYTES: &str = "48";
const REPEATS: usize = 5;
/// More of the budget in files than this is marked, in percent.
const HELD_PERCENT: f64 = 105.0;

/// Measures, and prints a table, or with `--json` a line of each run.
pub fn profiles(arguments: &[&str]) -> Result<()> {
    let (is_quick, is_json) = (arguments.contains(&"--quick"), arguments.contains(&"--json"));
    let mut rest: Vec<&str> =
        arguments.iter().copied().filter(|word| !["--quick", "--json"].contains(word)).collect();
    let mut value_of = |option: &str| {
        let at = rest.iter().position(|word| *word == option).filter(|at| at + 1 < rest.len())?;
        rest.drain(at..at + 2).next_back()
    };
    let (built, megabytes) = (value_of("--pantler"), value_of("--megabytes").unwrap_or(MEGABYTES));
    megabytes.parse::<u32>().context("--megabytes: a number")?;
    let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
    let wanted = Wanted::of(
        "profiles --quick, --json, --pantler FILE, --megabytes N",
        &names,
        if is_quick { 1 } else { REPEATS },
        &rest,
    )?;
    if !shell::is_root()? {
        bail!("profiles needs root, for control groups and tracepoints: sudo cargo xtask profiles");
    }
    packages::ensure(packages::PROFILES)?;
    if built.is_none() {
        shell::run(&shell::words(BUILD))?;
    }
    let bench = Bench::new(built.unwrap_or("target/release/pantler"), megabytes)?;
    if !is_json {
        println!("{}", crate::machine::environment::line(Some(&bench.folder)));
        println!("\n| row | data, MB | budget, MB | unlimited | kernel | LRU | `auto` | profile | which |");
        println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |");
    }
    let mut failed = Vec::new();
    for row in ROWS.iter().filter(|row| wanted.has(row.name)) {
        if let Err(error) = bench.row(row, wanted.repeats, is_json) {
            bench.interrupt.check()?;
            say(format_args!("{}: {error:#}", row.name));
            failed.push(row.name);
        }
    }
    ensure!(failed.is_empty(), "not measured: {}", failed.join(", "));
    Ok(())
}

/// What one run took, in bytes.
#[derive(Debug, Clone, Copy)]
struct Took {
    read: f64,
    /// In the middle of the run.
    held: f64,
    /// Not files, at most.
    besides: u64,
    seconds: f64,
}

/// What all runs have in common.
struct Bench {
    disk: Disk,
    interrupt: Interrupt,
    own: PathBuf,
    pantler: String,
    folder: PathBuf,
    megabytes: String,
}

impl Bench {
    fn new(pantler: &str, megabytes: &str) -> Result<Bench> {
        let interrupt = Interrupt::catch()?;
        fs::create_dir_all(FOLDER)?;
        let folder = Path::new(FOLDER).canonicalize()?;
        fs::write(folder.join("programs.sh"), SCRIPT)?;
        fs::write(folder.join("patterns.py"), PATTERNS)?;
        let pantler = Path::new(pantler).canonicalize().context("pantler is not built")?;
        Ok(Bench {
            disk: Disk::new(&folder, SIZE, |_| Ok(()))?,
            interrupt,
            own: std::env::current_exe().context("cannot find the own program")?,
            pantler: pantler.display().to_string(),
            folder,
            megabytes: megabytes.to_owned(),
        })
    }

    /// Measures a row by all that fits it, in turns.
    fn row(&self, row: &Row, repeats: usize, is_json: bool) -> Result<()> {
        self.disk.fresh()?;
        let data = self.data(row);
        self.prepare(row, &data)?;
        let bytes = bytes_below(&data.join(row.of))?;
        let budget = bytes * row.budget.0 / row.budget.1 / 4096 * 4096;
        // What a program and what steers it hold besides files, in a run without a limit.
        let mut limits = HashMap::new();
        for arm in Arm::ALL.into_iter().filter(|arm| row.is_limited(*arm) || row.has_total(*arm)) {
            limits.insert(arm, budget + self.run(row, arm, budget, None)?.besides);
        }
        let mut took: HashMap<Arm, Vec<Took>> = HashMap::new();
        for repeat in 1..=repeats {
            for arm in Arm::ALL.into_iter().filter(|arm| *arm != Arm::Profile || row.profile.is_some()) {
                self.interrupt.check()?;
                let one = self.run(row, arm, budget, limits.get(&arm).copied())?;
                say(format_args!(
                    "{} {}, {repeat} of {repeats}: {:.1} MB read in {:.2} s, {:.1} MB of files held",
                    row.name,
                    arm.name(),
                    one.read / 1e6,
                    one.seconds,
                    one.held / 1e6
                ));
                if is_json {
                    let (name, Took { read, held, seconds, .. }) = (arm.name(), one);
                    let line = serde_json::json!({
                        "row": row.name, "arm": name, "budget_bytes": budget, "read_bytes": read,
                        "held_bytes": held, "seconds": seconds,
                    });
                    println!("{line}");
                }
                took.entry(arm).or_default().push(one);
            }
        }
        if !is_json {
            let cells =
                Arm::ALL.map(|arm| took.get(&arm).map_or("-".to_owned(), |runs| cell(arm, runs, budget)));
            let (which, mb) = (row.profile.unwrap_or("-"), |bytes: u64| bytes as f64 / 1e6);
            println!(
                "| {} | {:.1} | {:.1} | {} | {which} |",
                row.name,
                mb(bytes),
                mb(budget),
                cells.join(" | ")
            );
        }
        Ok(())
    }

    /// What a row reads.
    fn data(&self, row: &Row) -> PathBuf {
        self.disk.point().join(format!("{}-{}", row.name, self.megabytes))
    }

    /// Writes what a row reads, unless it is there.
    fn prepare(&self, row: &Row, data: &Path) -> Result<()> {
        let whole = data.with_extension("whole");
        if whole.exists() {
            return Ok(());
        }
        say(format_args!("writing what {} reads", row.name));
        let _ = fs::remove_dir_all(data);
        fs::create_dir(data)?;
        let status = self.script(Command::new("sh"), "prepare", row).current_dir(data).status()?;
        ensure!(status.success(), "{}: its data was not written: {status}", row.name);
        fs::write(whole, "")?;
        shell::output(&["sync", "--file-system", &data.display().to_string()]).map(drop)
    }

    fn script(&self, mut command: Command, what: &str, row: &Row) -> Command {
        command.arg(self.folder.join("programs.sh")).args([what, row.name]);
        command.env("PATTERNS", self.folder.join("patterns.py")).env("MB", &self.megabytes);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Runs a row once, with its files on the disk only.
    fn run(&self, row: &Row, arm: Arm, budget: u64, limit: Option<u64>) -> Result<Took> {
        self.disk.fresh()?;
        let group = Group::new("profiles", None)?;
        if let Some(bytes) = limit.filter(|_| row.is_limited(arm)) {
            group.limit(bytes)?;
        }
        let joins = row.is_beside && arm.is_steered();
        let daemon = joins.then(|| {
            let words = [&self.pantler, "daemon", "--memory", &budget.to_string()].map(str::to_owned);
            Beside::listen(self.inside(&group, &words), &self.folder.join("listens"), &self.interrupt)
        });
        let daemon = daemon.transpose()?;
        let words = [row.around(arm, &self.pantler, budget, limit), vec!["sh".to_owned()]].concat();
        let mut command = self.script(self.inside(&group, &words), "run", row);
        command.current_dir(self.data(row)).envs(row.joining(arm, &self.pantler));
        let (before, start) = (self.disk.read_bytes()?, Instant::now());
        let looks = looks::watch(&mut command, &group, &self.interrupt)
            .with_context(|| format!("{} {}", row.name, arm.name()))?;
        let seconds = start.elapsed().as_secs_f64();
        let read = (self.disk.read_bytes()? - before) as f64;
        drop(daemon);
        let besides = looks.iter().map(|look| look.anonymous + look.kernel).max().unwrap_or(0);
        Ok(Took { read, held: looks::steady(&looks).file as f64, besides, seconds })
    }

    /// A command that starts inside the group.
    fn inside(&self, group: &Group, words: &[String]) -> Command {
        group.command(&self.own, words, &self.folder)
    }
}

/// Reads: the middle, the least and the most; marked where more was held than the budget.
fn cell(arm: Arm, runs: &[Took], budget: u64) -> String {
    let values = || runs.iter().map(|took| took.read / 1e6);
    let (least, most) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
    let held = median(runs.iter().map(|took| took.held)).unwrap_or(0.0);
    let is_more = arm != Arm::Unlimited && held > budget as f64 * HELD_PERCENT / 100.0;
    let mark = if is_more { format!(" holds {:.0}", held / 1e6) } else { String::new() };
    format!("{:.0} ({least:.0}-{most:.0}){mark}", median(values()).unwrap_or(0.0))
}

/// Pages of all files below a folder, in bytes.
fn bytes_below(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let kind = entry.metadata()?;
        bytes += match (kind.is_dir(), kind.is_file()) {
            (true, _) => bytes_below(&entry.path())?,
            (_, true) => kind.size().div_ceil(4096) * 4096,
            _ => 0,
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_says_where_more_was_held_than_the_budget() {
        let took = |read, held| Took { read, held, besides: 0, seconds: 1.0 };
        let runs = [took(3e6, 2e6), took(1e6, 2e6), took(2e6, 9e6)];
        assert_eq!(cell(Arm::Auto, &runs, 2_000_000), "2 (1-3)");
        assert_eq!(cell(Arm::Auto, &runs, 1_000_000), "2 (1-3) holds 2");
        assert_eq!(cell(Arm::Unlimited, &runs, 1_000_000), "2 (1-3)");
    }

    #[test]
    fn a_profile_is_for_the_program_and_not_for_the_service() {
        let row = Row::named("ld").unwrap();
        let [(_, program), (_, service)] = row.joining(Arm::Profile, "pantler");
        assert_eq!(program, "pantler run --quiet --profile ld --");
        assert_eq!(service, "pantler run --quiet --profile none --");
        assert!(row.around(Arm::Profile, "pantler", 5, None).is_empty() && !row.is_limited(Arm::Auto));
        let row = Row::named("mapped-cycles").unwrap();
        let words = row.around(Arm::Profile, "pantler", 4096, Some(8192)).join(" ");
        assert_eq!(words, "pantler run --memory 4096 --quiet --profile mapped-cycles --");
        assert!(row.is_limited(Arm::Auto) && !row.is_limited(Arm::Profile));
        let row = Row::named("gcc").unwrap();
        let words = row.around(Arm::Auto, "pantler", 4096, Some(8192)).join(" ");
        assert_eq!(words, "pantler run --memory 8192 --quiet --total 8192 --profile none --");
        assert!(row.is_limited(Arm::Kernel) && !row.is_limited(Arm::Auto));
    }
}
