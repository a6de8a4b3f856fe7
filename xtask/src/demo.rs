//! `make demo`: eight cscope queries under one memory budget, by the kernel alone, steered, and
//! through the mount.
//!
//! Every run gets a fresh control group with the budget as its hard limit for everything in it:
//! program, daemon, page cache, frames, metadata. Device reads are that group's, so all work is in
//! them.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::packages;
use crate::shell::{self, say};

pub mod groups;
pub mod inside;
mod report;
mod runs;
pub mod source;
mod trace;

use report::{Report, Row};
use runs::{Disk, Kind, Scene, WrongAnswers};

/// As the Makefile says it, so that nothing is compiled again. It builds what the demo runs:
/// docs/decisions/0123-the-demo-builds-what-it-runs.md.
const BUILD: &str = "cargo build --profile demo --package pantler-cli --package xtask --no-default-features";
/// Tree, database, and what the last run of each kind left.
pub const FOLDER: &str = "target/demo/runs";
/// The table for programs.
const JSON: &str = "target/demo.json";
/// Each kind of run is repeated so often per disk; the table shows medians.
const REPEATS: usize = 3;
/// The budget, as a fraction of the database.
const BUDGET: (u64, u64) = (2, 3);

/// Set by the first Ctrl-C, hangup or SIGTERM. Whatever waits looks at it, gives up, and cleans up.
#[derive(Clone, Default)]
pub struct Interrupt {
    is_set: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
}

impl Interrupt {
    pub fn catch() -> Result<Interrupt> {
        let interrupt = Interrupt::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
        {
            signal_hook::flag::register_conditional_default(signal, interrupt.is_over.clone())
                .and_then(|_| signal_hook::flag::register(signal, interrupt.is_set.clone()))
                .context("cannot catch signals")?;
        }
        Ok(interrupt)
    }

    /// An error once interrupted.
    pub fn check(&self) -> Result<()> {
        if self.is_set.load(Ordering::SeqCst) {
            bail!("interrupted");
        }
        Ok(())
    }

    /// From now on a signal ends the process at once.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }
}

/// Builds, becomes root, and shows the table.
pub fn demo() -> Result<()> {
    shell::run(&shell::words(BUILD))?;
    let own = std::env::current_exe().context("cannot find the demo's own program")?;
    if !shell::is_root()? {
        say("control groups and tracepoints need root: asking sudo");
        return shell::run(&["sudo", &own.to_string_lossy(), "demo-as-root"]);
    }
    as_root()
}

/// The demo itself.
pub fn as_root() -> Result<()> {
    let interrupt = Interrupt::catch()?;
    packages::ensure(packages::DEMO)?;
    fs::create_dir_all(FOLDER).with_context(|| format!("cannot create {FOLDER}"))?;
    let folder = Path::new(FOLDER).canonicalize()?;
    let result = measure(&folder, &interrupt);
    give_back(&folder);
    result
}

fn measure(folder: &Path, interrupt: &Interrupt) -> Result<()> {
    let source = source::prepare(folder, interrupt)?;
    let budget_bytes = source.database_bytes * BUDGET.0 / BUDGET.1 / 4096 * 4096;
    say(format_args!(
        "database {:.1} MB, budget {:.1} MB for program, daemon and cache together",
        source.database_bytes as f64 / 1e6,
        budget_bytes as f64 / 1e6
    ));
    let scene = Scene::new(folder, source, budget_bytes, interrupt.clone())?;
    say("recording which blocks the queries read");
    let trace = match trace::record(&scene) {
        Ok(trace) => Some(trace),
        Err(error) => {
            interrupt.check()?;
            say(format_args!("no ideal row, and hit ratios from the size of the database: {error:#}"));
            None
        }
    };
    let mut report = Report::new(budget_bytes, scene.source.database_bytes, trace.as_ref());
    // Writes of the build and of unpacking must have ended before the raw disk is measured.
    rustix::fs::sync();
    if let Some(why) = report::lacking(&pantler_steer::doctor()) {
        say(format_args!("no {} rows: {why}", Kind::Steer));
        report.fail(Kind::Steer, why);
    }
    let start = Instant::now();
    for disk in [Disk::Raw, Disk::Throttled] {
        for repeat in 1..=REPEATS {
            for kind in Kind::ALL {
                if report.is_impossible(kind) {
                    continue;
                }
                interrupt.check()?;
                match scene.run(kind, disk) {
                    Ok(measured) => {
                        say(format_args!(
                            "{:>4.0} s  {kind:<9} on the {disk} disk, {repeat} of {REPEATS}: {:.1} MB read in {:.2} s",
                            start.elapsed().as_secs_f64(),
                            measured.device_read_bytes as f64 / 1e6,
                            measured.elapsed_s
                        ));
                        let blocks = (kind == Kind::Steer).then(|| scene.steered_blocks()).transpose();
                        let blocks = blocks.unwrap_or_else(|error| {
                            say(format_args!("no model of this run: {error:#}"));
                            None
                        });
                        report.add(Row::new(kind, disk, measured, blocks));
                    }
                    Err(error) => {
                        interrupt.check()?;
                        if kind == Kind::Kernel || error.is::<WrongAnswers>() {
                            return Err(error);
                        }
                        say(format_args!("no {kind} rows: {error:#}"));
                        report.fail(kind, format!("{error:#}"));
                    }
                }
            }
        }
    }
    if let Some(trace) = trace.as_ref().filter(|_| !report.is_impossible(Kind::Steer)) {
        let recorded = trace.csv();
        if let Err(error) = report.model(|blocks| scene.modelled_read_bytes(&recorded, blocks)) {
            say(format_args!("not all models: {error:#}"));
        }
    }
    print!("{}", report.table());
    fs::write(JSON, report.json()).with_context(|| format!("cannot write {JSON}"))?;
    say(format_args!("the same in {JSON}"));
    report.verdict()
}

/// Under `sudo` the files belong to the calling user, so that `cargo clean` works afterwards.
fn give_back(folder: &Path) {
    if let (Ok(uid), Ok(gid)) = (std::env::var("SUDO_UID"), std::env::var("SUDO_GID")) {
        let owner = format!("{uid}:{gid}");
        let _ = Command::new("chown").args(["-R", &owner, JSON]).arg(folder).status();
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_makefile_builds_with_the_same_words() {
        let makefile = include_str!("../../Makefile");
        assert!(makefile.lines().any(|line| line.trim() == super::BUILD), "{makefile}");
    }
}
