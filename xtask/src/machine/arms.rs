//! One measurement: some programs at once, by the kernel alone or below a daemon that steers.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pantler_control::runtime;
use pantler_control::server::{Host, Server};
use pantler_steer::{HitWatch, Steer, SteerOptions};

use super::programs::{Program, own};
use crate::demo::Interrupt;
use crate::demo::groups::Group;
use crate::median::median;

#[path = "../../../benches/environment.rs"]
pub mod environment;

/// Allocations that the command does not offer.
const ABLATIONS: [&str; 2] = ["alloc-lru", "lru-s"];
/// What a program may hold besides blocks where a limit holds everything.
const HELD_BYTES: u64 = 8_000_000;
/// A run that takes longer is broken.
const RUN_MAX: Duration = Duration::from_secs(300);

/// How the cache is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arm {
    /// The kernel alone, in a group with the budget as limit.
    Kernel,
    /// A daemon with this allocation.
    Daemon(&'static str),
}

pub const GLOBAL: Arm = Arm::Daemon("global-lru");
pub const LRU_SP: Arm = Arm::Daemon("lru-sp");

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Arm::Kernel => "kernel",
            Arm::Daemon(allocation) => allocation,
        })
    }
}

/// What one program took.
#[derive(Debug, Clone, Copy, Default)]
pub struct Took {
    /// Read from the disk for it, in bytes.
    pub read_bytes: f64,
    /// From its start to its end.
    pub seconds: f64,
}

/// Medians of some runs, and how far elapsed times lie apart.
#[derive(Debug, Clone)]
pub struct Measured {
    /// By program.
    pub took: Vec<Took>,
    /// The least and the most time of the last program's end.
    pub spread: (f64, f64),
}

impl Measured {
    pub fn read_bytes(&self) -> f64 {
        self.took.iter().map(|took| took.read_bytes).sum()
    }

    /// When the last one had ended.
    pub fn seconds(&self) -> f64 {
        self.took.iter().map(|took| took.seconds).fold(0.0, f64::max)
    }
}

/// What all measurements have in common.
pub struct Bench<'a> {
    programs: &'a [Program],
    pub(super) interrupt: Interrupt,
    pub(super) repeats: usize,
    pub(super) pantler: PathBuf,
    own: PathBuf,
    pub(super) folder: PathBuf,
}

impl<'a> Bench<'a> {
    pub fn new(programs: &'a [Program], interrupt: Interrupt, repeats: usize) -> Result<Bench<'a>> {
        let pantler = Path::new("target/release/pantler").canonicalize().context("pantler is not built")?;
        let folder = Path::new(super::FOLDER).canonicalize()?;
        Ok(Bench { programs, interrupt, repeats, pantler, own: own()?, folder })
    }

    /// On what this runs, in one line.
    pub fn environment(&self) -> Result<String> {
        Ok(environment::line(Some(&self.folder)))
    }

    pub fn program(&self, name: &str) -> Result<Program> {
        let found = self.programs.iter().find(|program| program.name == name);
        found.cloned().with_context(|| format!("no program {name}"))
    }

    /// Runs programs at once, several times, each time from the disk.
    pub fn measure(&self, programs: &[Program], arm: Arm, budget: u64) -> Result<Measured> {
        let mut runs: Vec<Vec<Took>> = Vec::new();
        for _ in 0..self.repeats {
            self.interrupt.check()?;
            runs.push(self.run(programs, arm, budget)?);
        }
        let middle =
            |value: &dyn Fn(&[Took]) -> f64| median(runs.iter().map(|run| value(run))).unwrap_or(0.0);
        let took = (0..programs.len()).map(|at| Took {
            read_bytes: middle(&|run| run[at].read_bytes),
            seconds: middle(&|run| run[at].seconds),
        });
        let ends = runs.iter().map(|run| run.iter().map(|took| took.seconds).fold(0.0, f64::max));
        let spread = (ends.clone().fold(f64::MAX, f64::min), ends.fold(0.0, f64::max));
        let measured = Measured { took: took.collect(), spread };
        let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
        eprintln!(
            "   {:>4.1} MB {arm:<10} {}: {:.1} MB read, {:.2} s",
            budget as f64 / 1e6,
            names.join("+"),
            measured.read_bytes() / 1e6,
            measured.seconds()
        );
        Ok(measured)
    }

    fn run(&self, programs: &[Program], arm: Arm, budget: u64) -> Result<Vec<Took>> {
        programs.iter().try_for_each(Program::forget)?;
        match arm {
            Arm::Kernel => {
                let group = Group::new("machine", None)?;
                group.limit(budget + programs.len() as u64 * HELD_BYTES)?;
                let doors: Vec<String> =
                    group.doors().iter().map(|door| door.display().to_string()).collect();
                let before = ["demo-enter".to_owned(), doors.join(","), "--".to_owned()];
                let words = [&[self.own.display().to_string()], &before[..]].concat();
                let children = programs.iter().map(|program| self.start(&words, program));
                self.wait(children.collect::<Result<_>>()?)?;
                programs.iter().map(|program| self.clocked(program)).collect()
            }
            Arm::Daemon(allocation) => {
                let daemon = self.daemon(allocation, budget)?;
                let start = |program: &Program| {
                    let pantler = self.pantler.display().to_string();
                    let words = ["run", "--quiet", "--owner-name", &program.name].map(str::to_owned);
                    self.start(
                        &[&[pantler], &words[..], &program.hints, &["--".to_owned()]].concat(),
                        program,
                    )
                };
                self.wait(programs.iter().map(start).collect::<Result<_>>()?)?;
                let stat = self.stat()?;
                drop(daemon);
                let took = |program: &Program| {
                    let read_bytes = read_bytes(&stat, &program.name)?;
                    Ok(Took { read_bytes, ..self.clocked(program)? })
                };
                programs.iter().map(took).collect()
            }
        }
    }

    /// Starts a program with a clock, below some words.
    fn start(&self, words: &[String], program: &Program) -> Result<Child> {
        let mut command = Command::new(&words[0]);
        // Blocks read from devices for the program and what it waited for, and seconds.
        command.args(&words[1..]).args(["/usr/bin/time", "-f", "%I %e", "-o"]).arg(self.result(program));
        // cscope and glimpse say by their status whether anything was found.
        command.args(["sh", "-c", &format!("{}\ntrue", program.script)]);
        command.current_dir(&program.folder).env("PANTLER_RUNTIME_DIR", self.folder.join("run"));
        command.env_remove("SUDO_UID").env_remove("SUDO_GID").stdin(Stdio::null());
        command.spawn().with_context(|| format!("cannot start {}", words[0]))
    }

    fn result(&self, program: &Program) -> PathBuf {
        self.folder.join(format!("{}.took", program.name))
    }

    fn wait(&self, mut children: Vec<Child>) -> Result<()> {
        let start = Instant::now();
        loop {
            let mut ended = 0;
            for child in &mut children {
                let status = child.try_wait()?;
                ended += usize::from(status.is_some());
                if status.is_some_and(|status| !status.success()) {
                    bail!("a program ended with {status:?}");
                }
            }
            if ended == children.len() {
                return Ok(());
            }
            let stop = self.interrupt.check().and_then(|()| {
                if start.elapsed() > RUN_MAX { bail!("a run took longer than {RUN_MAX:?}") } else { Ok(()) }
            });
            if stop.is_err() {
                children.iter_mut().for_each(|child| drop(child.kill().and_then(|()| child.wait())));
                return stop;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What `time` wrote of a program.
    fn clocked(&self, program: &Program) -> Result<Took> {
        let text = fs::read_to_string(self.result(program)).context("a program left no time")?;
        let (read, seconds) = text.split_once(' ').context("half a time")?;
        Ok(Took { read_bytes: read.parse::<f64>()? * 512.0, seconds: seconds.trim().parse()? })
    }

    pub(super) fn daemon(&self, allocation: &str, budget: u64) -> Result<Daemon> {
        let budget = budget.to_string();
        // What users can choose is measured as they run it.
        let mut command = if ABLATIONS.contains(&allocation) {
            let mut command = Command::new(&self.own);
            command.args(["machine-daemon", allocation, &budget]);
            command
        } else {
            let mut command = Command::new(&self.pantler);
            command.args(["daemon", "--memory", &budget, "--allocation", allocation]);
            command
        };
        command
            .env("PANTLER_RUNTIME_DIR", self.folder.join("run"))
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        let mut daemon = Daemon(command.spawn().context("cannot start a daemon")?);
        let mut said = BufReader::new(daemon.0.stderr.take().context("a pipe was asked for")?).lines();
        let mut complaint = String::new();
        for line in said.by_ref() {
            complaint = line?;
            if complaint.contains("listening at") {
                std::thread::spawn(move || said.for_each(drop));
                return Ok(daemon);
            }
        }
        bail!("the daemon does not steer: {complaint}")
    }

    fn stat(&self) -> Result<Value> {
        let mut command = Command::new(&self.pantler);
        command.args(["stat", "page-cache", "--json"]).env("PANTLER_RUNTIME_DIR", self.folder.join("run"));
        let output = command.output()?;
        serde_json::from_slice(&output.stdout).context("the daemon tells no counters")
    }
}

/// What was read from the disk for an owner.
fn read_bytes(stat: &Value, name: &str) -> Result<f64> {
    let owners = stat["owners"].as_array().context("no owners")?;
    let owner =
        owners.iter().find(|owner| owner["owner"] == name).with_context(|| format!("no owner {name}"))?;
    owner["counters"]["read_bytes"].as_f64().context("no bytes")
}

/// A daemon that ends with its measurement.
pub(super) struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.0),
            rustix::process::Signal::TERM,
        );
        let _ = self.0.wait();
    }
}

/// `machine-daemon ALLOCATION BYTES`: as `pantler daemon --memory`, for ablations.
pub fn daemon(arguments: &[&str]) -> Result<()> {
    let [allocation, bytes] = arguments else { bail!("machine-daemon ALLOCATION BYTES") };
    let ending = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&ending))?;
    let mut options = SteerOptions::new("page-cache", bytes.parse()?);
    options.takes_runs = true;
    options.watch_hits = HitWatch::Always;
    options.allocation = allocation.parse()?;
    let steer = Steer::start(options)?;
    let host = Arc::new(Host::default());
    host.add(steer.body())?;
    let server = Server::bind(&runtime::prepare_folder()?.join(runtime::DAEMON_SOCKET), host)?;
    eprintln!("listening at {}", server.path().display());
    while !ending.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(server);
    steer.stop()?;
    Ok(())
}
