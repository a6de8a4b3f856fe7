//! `cargo xtask examples`: programs with the papers' five lines, and the same without them, with
//! one budget: steered, and on a mount.
//!
//! A program without these lines runs by LRU, as in the first paper, and by the policy that Pantler
//! finds (`auto`). What the program prints must be the same each time. Files are on a file system
//! of their own, and its device counts the reads.

use anyhow::{Context, Result, bail, ensure};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::demo::{self, source};
use crate::limits::disk::Disk;
use crate::median::median;
use crate::packages;
use crate::shell::{self, say};
use crate::wanted::Wanted;

mod build;
mod postgresql;
mod programs;

use programs::Example;

const BUILD: &str = "cargo build --release --package pantler-cli --package pantler";
/// Sources, programs and files.
const FOLDER: &str = "target/examples";
/// Of the image that the files are in; it takes what they take.
const SIZE: &str = "1500M";
/// A mount that was unmounted ends within this time.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// What `--only` names.
const NAMES: [&str; 4] = ["cscope", "search", "sort", "postgresql"];

/// How blocks are kept, and whether the program says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Arm {
    /// On a mount, else steered.
    is_mounted: bool,
    /// Of a program without hints; `auto` without one.
    policy: Option<&'static str>,
    is_patched: bool,
}

impl Arm {
    /// All of them; the first is what the others are compared with.
    fn all(is_mounted: bool) -> [Arm; 3] {
        let arm = |policy, is_patched| Arm { is_mounted, policy, is_patched };
        [arm(Some("lru"), false), arm(None, false), arm(None, true)]
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.is_patched, self.policy) {
            (true, _) => "patched",
            (false, Some(policy)) => policy,
            (false, None) => "auto",
        })
    }
}

/// What a run took.
#[derive(Debug, Clone, Copy)]
struct Took {
    read_bytes: f64,
    seconds: f64,
}

/// Measures, and prints a table.
pub fn examples(arguments: &[&str]) -> Result<()> {
    let wanted = Wanted::of("examples", &NAMES, 5, arguments)?;
    if !shell::is_root()? {
        bail!("examples needs root, as steering does: sudo cargo xtask examples");
    }
    packages::ensure(packages::EXAMPLES)?;
    shell::run(&shell::words(BUILD))?;
    fs::create_dir_all(demo::FOLDER)?;
    fs::create_dir_all(FOLDER)?;
    let folder = Path::new(FOLDER).canonicalize()?;
    let interrupt = demo::Interrupt::catch()?;
    let tree = source::prepare(&Path::new(demo::FOLDER).canonicalize()?, &interrupt)?.tree;
    build::all(&folder, &wanted)?;
    let disk = Disk::new(&folder, SIZE, |point| programs::write(&folder, point, &tree))?;
    let pantler = Path::new("target/release/pantler").canonicalize()?;
    let bench = Bench { pantler, folder, interrupt, disk };
    println!("{}", crate::machine::environment::line(Some(&bench.folder)));
    println!("Reads in MB, and seconds: medians of {}, with the least and the most.\n", wanted.repeats);
    println!("| program | budget, MB | where | LRU, unpatched | auto, unpatched | patched |");
    println!("| --- | ---: | --- | --- | --- | --- |");
    for name in NAMES.into_iter().filter(|name| wanted.has(name)) {
        bench.disk.fresh()?;
        let installed =
            (name == "postgresql").then(|| postgresql::Installed::new(&bench.folder)).transpose()?;
        bench.rows(&programs::example(name, &bench.folder, bench.disk.point())?, wanted.repeats)?;
        drop(installed);
    }
    Ok(())
}

struct Bench {
    pantler: PathBuf,
    folder: PathBuf,
    interrupt: demo::Interrupt,
    disk: Disk,
}

impl Bench {
    /// The rows of a program, one for each place where it can run.
    fn rows(&self, example: &Example, repeats: usize) -> Result<()> {
        let mut printed = None;
        for is_mounted in [false, true] {
            if is_mounted && example.user.is_some() {
                continue;
            }
            let arms = Arm::all(is_mounted);
            let mut runs = arms.map(|_| Vec::new());
            for repeat in 1..=repeats {
                for (arm, runs) in arms.iter().zip(&mut runs) {
                    self.interrupt.check()?;
                    let (took, out) = self.run(example, *arm)?;
                    let first = printed.get_or_insert_with(|| out.clone());
                    ensure!(
                        *first == out && !out.is_empty(),
                        "{}, {arm}: it printed something else",
                        example.name
                    );
                    let (read, seconds) = (took.read_bytes / 1e6, took.seconds);
                    say(format_args!(
                        "{} {arm}, {repeat} of {repeats}: {read:.1} MB read in {seconds:.2} s",
                        example.name
                    ));
                    runs.push(took);
                }
            }
            let cells = runs.map(|runs| cell(&runs));
            let place = if is_mounted { "mount" } else { "steered" };
            let budget = example.budget as f64 / 1e6;
            println!("| {} | {budget:.1} | {place} | {} |", example.name, cells.join(" | "));
        }
        Ok(())
    }

    /// Runs a program once, with its files on the disk only. Says what it printed, too.
    fn run(&self, example: &Example, arm: Arm) -> Result<(Took, Vec<u8>)> {
        self.fresh()?;
        example.reset()?;
        let printed = self.folder.join("printed");
        let budget = example.budget.to_string();
        let policy = arm.policy.map(|policy| ["--policy", policy]).into_iter().flatten();
        let point = self.folder.join("point");
        if arm.is_mounted {
            fs::create_dir_all(&point)?;
            let mut mount = self.pantler(example);
            mount.arg("mount").arg(&example.data).arg(&point).args(["--cache", &budget, "--frames", "own"]);
            done(mount.args(policy.clone()).stdout(Stdio::null()))?;
        }
        let mut run = self.pantler(example);
        run.args(["run", "--quiet", "--profile", "none"]);
        if !arm.is_mounted {
            run.args(["--memory", &budget]).args(policy);
        }
        run.args(["--", "sh", "-c", &example.script, "sh"]).arg(example.program(arm.is_patched));
        run.current_dir(if arm.is_mounted { &point } else { &example.data });
        run.stdout(fs::File::create(&printed)?);
        let before = self.disk.read_bytes()?;
        let start = Instant::now();
        let admitted = example.user.map(|user| self.admit(user)).transpose()?;
        let ran = done(&mut run);
        let seconds = start.elapsed().as_secs_f64();
        let read_bytes = (self.disk.read_bytes()? - before) as f64;
        if arm.is_mounted {
            done(self.pantler(example).arg("umount").arg(&point).stdout(Stdio::null()))?;
        }
        ran?;
        admitted.map_or(Ok(()), |mut admitting| {
            ensure!(admitting.wait()?.success(), "{}: the run has no socket", example.name);
            Ok(())
        })?;
        Ok((Took { read_bytes, seconds }, fs::read(&printed)?))
    }

    /// Gives a user the socket of the run that starts now, as the group `pantler` does where it
    /// exists.
    fn admit(&self, user: (u32, u32)) -> Result<Child> {
        let loops = "for look in $(seq 500); do chgrp \"$1\" \"$2\"/*.sock 2> /dev/null && exit; sleep 0.02; done; exit 1";
        let mut admit = Command::new("sh");
        admit.args(["-c", loops, "sh", &user.1.to_string()]).arg(self.folder.join("run"));
        admit.spawn().context("cannot start a shell")
    }

    /// The disk without anything in memory. A mount that was just ended has it open for a moment.
    fn fresh(&self) -> Result<()> {
        let start = Instant::now();
        loop {
            match self.disk.fresh() {
                Err(_) if start.elapsed() < ENDS_WITHIN => std::thread::sleep(Duration::from_millis(50)),
                done => return done,
            }
        }
    }

    fn pantler(&self, example: &Example) -> Command {
        let mut command = Command::new(&self.pantler);
        command.env("PANTLER_RUNTIME_DIR", self.folder.join("run")).stdin(Stdio::null());
        command.env_remove("SUDO_UID").env_remove("SUDO_GID");
        if let Some((user, group)) = example.user {
            command.env("SUDO_UID", user.to_string()).env("SUDO_GID", group.to_string());
        }
        command
    }
}

/// Runs a command that must succeed.
fn done(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

/// Reads and seconds: the middle, the least and the most.
fn cell(runs: &[Took]) -> String {
    let figures = |value: fn(&Took) -> f64| {
        let values: Vec<f64> = runs.iter().map(value).collect();
        let (least, most) =
            (values.iter().copied().fold(f64::MAX, f64::min), values.iter().copied().fold(0.0, f64::max));
        [median(values).unwrap_or(0.0), least, most]
    };
    let [read, read_least, read_most] = figures(|took| took.read_bytes / 1e6);
    let [seconds, least, most] = figures(|took| took.seconds);
    format!("{read:.0} MB ({read_least:.0}-{read_most:.0}), {seconds:.2} s ({least:.2}-{most:.2})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_median_and_spread() {
        let runs =
            [(1e6, 2.0), (3e6, 1.0), (2e6, 9.0)].map(|(read_bytes, seconds)| Took { read_bytes, seconds });
        assert_eq!(cell(&runs), "2 MB (1-3), 2.00 s (1.00-9.00)");
    }
}
