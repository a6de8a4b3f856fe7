//! The whole matrix of simulated trials: `make dust-full`, or a part of it, as `--help` says. It
//! fails where a bar is not reached.
//!
//! Every trial's outcome is kept in a file, one line each, so that a run goes on where the last one
//! was interrupted. A line counts only for the seed and the state of the sources that it names.

#[path = "../tests/all/caches/mod.rs"]
mod caches;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use caches::{Confusion, Kept, Outcome, STRANGERS, Stranger, Trial, alike, leaves, near, off_grid};
use clap::Parser;
use clap::builder::PossibleValuesParser;
use pantler_dust::infer::random::Random;
use pantler_dust::{Inquiry, Options, Verdict, investigate};
use rustix::time::{ClockId, clock_gettime};

/// Which of each policy's parameters the first trial takes; the others count up from it.
const FIRST_LEAVES: u64 = 77;

/// Accesses for each block of the true capacity, at most.
const ACCESSES_PER_BLOCK: f64 = 30.0;

/// What a trial is made of.
#[derive(Clone, Copy, Debug)]
struct Scenario {
    name: &'static str,
    /// Share of wrong answers.
    noise: f64,
    /// Foreign blocks per access.
    interference: f64,
    /// Least share that must be right.
    bar: f64,
}

const SCENARIOS: [Scenario; 5] = [
    Scenario { name: "noise-2", noise: 0.02, interference: 0.0, bar: 0.99 },
    Scenario { name: "noise-10", noise: 0.10, interference: 0.0, bar: 0.97 },
    Scenario { name: "interference-2", noise: 0.02, interference: 0.02, bar: 0.95 },
    // Right or unknown.
    Scenario { name: "off-grid", noise: 0.02, interference: 0.0, bar: 0.95 },
    // Unknown.
    Scenario { name: "strangers", noise: 0.02, interference: 0.0, bar: 0.95 },
];

/// Whether a trial of a scenario came out as it should.
fn right(outcome: &Outcome, scenario: &str) -> bool {
    match scenario {
        "strangers" => outcome.said == "unknown",
        "off-grid" => outcome.said == "unknown" || alike(&outcome.said, &outcome.truth),
        _ => alike(&outcome.said, &outcome.truth),
    }
}

/// One trial of the matrix.
#[derive(Clone, Debug)]
struct Task {
    scenario: Scenario,
    capacity: u32,
    trial: u64,
    /// Which of the scenario's policies.
    at: usize,
    seed: u64,
    /// Where the values off the grid come from.
    draw: Random,
}

impl Task {
    fn key(&self) -> String {
        format!("{} {} {} {}", self.scenario.name, self.capacity, self.trial, self.at)
    }

    /// `None` if its family was not asked for.
    fn run(&self, only: &[String]) -> io::Result<Option<Outcome>> {
        let start = processor_ms();
        let mut random =
            Random::new(self.seed ^ (self.trial << 32) ^ ((self.at as u64) << 16) ^ u64::from(self.capacity));
        let frames = near(self.capacity, &mut random);
        let mut outcome = if self.scenario.name == "strangers" {
            stranger(self.at, frames, self.scenario.noise, &mut random)
        } else {
            let Some(outcome) = self.policy(frames, &mut random, only)? else { return Ok(None) };
            outcome
        };
        outcome.took_ms = processor_ms() - start;
        Ok(Some(outcome))
    }

    fn policy(&self, frames: u32, random: &mut Random, only: &[String]) -> io::Result<Option<Outcome>> {
        let specs = match self.scenario.name {
            "off-grid" => off_grid(&mut self.draw.clone(), self.trial + FIRST_LEAVES),
            _ => leaves(self.trial + FIRST_LEAVES),
        };
        let (spec, Scenario { noise, interference, .. }) = (specs[self.at], self.scenario);
        let trial = Trial { spec, frames, noise, interference, seed: random.word() };
        if !only.is_empty() && !only.contains(&trial.truth()) {
            return Ok(None);
        }
        let verdict = trial.run(Options::default()).expect("online policies are targets");
        let outcome = Outcome::of(&trial.truth(), frames, &verdict);
        if !right(&outcome, self.scenario.name) {
            say(&format!("{spec}, {frames} frames, seed {}: {}", trial.seed, about(&verdict)))?;
        }
        Ok(Some(outcome))
    }
}

/// All trials of a scenario at a capacity, in order.
fn tasks(scenario: Scenario, capacity: u32, trials: u64, seed: u64) -> Vec<Task> {
    let mut tasks = Vec::new();
    for trial in 0..trials {
        let draw = Random::new(seed ^ (trial << 32) ^ (u64::from(capacity) << 8));
        let count = match scenario.name {
            "strangers" => STRANGERS.len(),
            "off-grid" => off_grid(&mut draw.clone(), trial + FIRST_LEAVES).len(),
            _ => leaves(trial + FIRST_LEAVES).len(),
        };
        tasks.extend((0..count).map(|at| Task { scenario, capacity, trial, at, seed, draw: draw.clone() }));
    }
    tasks
}

/// The whole matrix of simulated trials, or a part of it
///
/// Every trial's outcome is kept in a file, so that a run goes on where the last one was
/// interrupted.
#[derive(Debug, Parser)]
struct Words {
    /// Trials of each policy
    #[arg(long, value_name = "N", default_value_t = 20)]
    trials: u64,
    /// Blocks that the caches hold, about; may be given several times [default: 100, 300 and 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    capacity: Vec<u32>,
    /// How hard it is made; may be given several times [default: all]
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(SCENARIOS.map(|scenario| scenario.name)))]
    scenario: Vec<String>,
    /// What everything is drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Only policies of this family; may be given several times [default: all]
    #[arg(long, value_name = "FAMILY", value_parser = family)]
    only: Vec<String>,
    /// Trials at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    threads: u64,
    /// Where outcomes are kept [default: target/dust-full-SEED-COMMIT.txt]
    #[arg(long, value_name = "FILE")]
    kept: Option<PathBuf>,
    /// Where the matrices are drawn [default: target/dust-full-SEED-COMMIT.html]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The name of a family that is tried.
fn family(name: &str) -> Result<String, String> {
    let specs = leaves(FIRST_LEAVES).into_iter().chain(off_grid(&mut Random::new(1), FIRST_LEAVES));
    let truth = |spec| Trial { spec, frames: 1, noise: 0.0, interference: 0.0, seed: 1 }.truth();
    let families: BTreeSet<String> = specs.map(truth).collect();
    if families.contains(name) {
        return Ok(name.to_owned());
    }
    let families: Vec<String> = families.into_iter().collect();
    Err(format!("expected one of {}", families.join(", ")))
}

fn main() -> ExitCode {
    match investigate_all(Words::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // The reader has seen enough; the file of outcomes says how far it came.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("full: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all bars were reached.
fn investigate_all(words: Words) -> io::Result<bool> {
    let Words { trials, seed, threads, only, scenario: scenarios, .. } = words;
    let capacities = if words.capacity.is_empty() { vec![100, 300, 1000] } else { words.capacity };
    let commit = Command::new("git").args(["describe", "--always", "--dirty"]).output();
    let commit =
        commit.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let named = |end: &str| PathBuf::from(format!("target/dust-full-{seed}-{commit}.{end}"));
    let path = words.kept.unwrap_or_else(|| {
        let path = named("txt");
        // Of sources that are being changed nothing counts for the next run.
        if commit.is_empty() || commit.ends_with("-dirty") {
            let _ = std::fs::remove_file(&path);
        }
        path
    });
    let page = words.html.unwrap_or_else(|| named("html"));
    let about =
        |path: &Path, error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let kept = Kept::open(&path, seed, &commit).map_err(|error| about(&path, error))?;
    let others = match kept.of_others() {
        0 => String::new(),
        lines => format!(" ({lines} lines there are of other seeds or sources: measured anew)"),
    };
    let kept = Mutex::new(kept);
    say(&format!(
        "seed {seed}, commit {commit}, kept in {}{others}, matrices in {}",
        path.display(),
        page.display()
    ))?;
    let mut reached = true;
    let mut html = format!("{HEAD}<h1>Dust: seed {seed}, commit {commit}</h1>\n");
    for scenario in SCENARIOS {
        if !scenarios.is_empty() && !scenarios.iter().any(|name| name == scenario.name) {
            continue;
        }
        for &capacity in &capacities {
            let tasks = tasks(scenario, capacity, trials, seed);
            run(&tasks, threads, &only, &kept)?;
            let kept = kept.lock().expect("nobody panicked");
            let these: Vec<&Outcome> = tasks.iter().filter_map(|task| kept.outcome(&task.key())).collect();
            let (text, confusion, below) = sums(scenario, capacity, &these);
            reached &= below.is_empty();
            html += &format!(
                "<h2>{}, capacity {capacity}</h2>\n<p>{text}</p>\n{}",
                scenario.name,
                confusion.html()
            );
            std::fs::write(&page, &html).map_err(|error| about(&page, error))?;
            say(&format!("{text}\n{confusion}{below}"))?;
        }
    }
    Ok(reached)
}

/// A line for a reader that may have gone.
fn say(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

const HEAD: &str = "<!DOCTYPE html>\n<meta charset=\"utf-8\"><title>Dust: confusion matrices</title>\n<style>\
body{font-family:sans-serif;margin:2em}table{border-collapse:collapse;font-size:11px}\
td,th{border:1px solid #ddd;padding:1px 4px;text-align:right}.said{height:9em;vertical-align:bottom}\
.said span{writing-mode:vertical-rl}.right{background:#cde8cd}.unknown{background:#eee}.wrong{background:#f3b9b9}</style>\n";

/// Runs the tasks that have no kept outcome, on `threads` threads.
fn run(tasks: &[Task], threads: u64, only: &[String], kept: &Mutex<Kept<File>>) -> io::Result<()> {
    let next = AtomicUsize::new(0);
    let trials = || -> io::Result<()> {
        while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
            let key = task.key();
            if kept.lock().expect("nobody panicked").outcome(&key).is_some() {
                continue;
            }
            if let Some(outcome) = task.run(only)? {
                kept.lock().expect("nobody panicked").keep(key, outcome)?;
            }
        }
        Ok(())
    };
    // An error in one thread ends all: the rest would be tried in vain.
    let work = || trials().inspect_err(|_| next.store(tasks.len(), Ordering::Relaxed));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("trials do not panic"))
    })
}

fn stranger(at: usize, frames: u32, noise: f64, random: &mut Random) -> Outcome {
    let (name, choice) = STRANGERS[at];
    let mut stranger = Stranger::new(choice, frames, noise, random.split());
    let inquiry = Inquiry::new(Options { seed: random.word(), ..Options::default() });
    let verdict = investigate(inquiry, &mut stranger).expect("it always answers").verdict();
    Outcome::of(name, frames, &verdict)
}

/// Time that this thread had a processor.
fn processor_ms() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

fn about(verdict: &Verdict) -> String {
    format!(
        "{:?} {} capacity {} mismatch {:.3} {:?} accesses {} {:?}",
        verdict.verdict,
        verdict.policy,
        verdict.capacity,
        verdict.mismatch,
        verdict.check,
        verdict.accesses,
        verdict.likelihoods.iter().take(3).collect::<Vec<_>>()
    )
}

/// The sums in a line, what each truth was called, and which bars were not reached.
fn sums(scenario: Scenario, capacity: u32, outcomes: &[&Outcome]) -> (String, Confusion, String) {
    let mut confusion = Confusion::default();
    for one in outcomes {
        confusion.count(&one.truth, &one.said, (one.frames, one.capacity), one.accesses);
    }
    let right = outcomes.iter().filter(|outcome| right(outcome, scenario.name)).count();
    let took_ms: u64 = outcomes.iter().map(|outcome| outcome.took_ms).sum();
    let text = format!(
        "{}, capacity {capacity} +- 20 %: {right} of {} right ({:.2} %, bar {:.0} %) in {:.0} s of a processor",
        scenario.name,
        outcomes.len(),
        100.0 * right as f64 / outcomes.len().max(1) as f64,
        100.0 * scenario.bar,
        took_ms as f64 / 1000.0
    );
    let mut below = String::new();
    if (right as f64) < scenario.bar * outcomes.len() as f64 {
        below += &format!("NOT REACHED: {right} of {} right\n", outcomes.len());
    }
    if confusion.accesses_per_block_max > ACCESSES_PER_BLOCK {
        below += &format!("NOT REACHED: {:.2} accesses per block\n", confusion.accesses_per_block_max);
    }
    (text, confusion, below)
}
