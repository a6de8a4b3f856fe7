//! `pantler advise`: what each policy would read of a program's references, and which one pays.
//! Why by the model of the page cache: docs/decisions/0137-advice-is-the-simulators.md.

use anyhow::Result;
use clap::Args;
use pantler_control::Size;
use pantler_policy::{PolicyName, Spec};
use pantler_sim::pagecache::{SteerRecord, SteerSettings, alone, steer_beside};
use pantler_sim::{Loaded, Watch, load};
use pantler_steer::SteerOptions;
use pantler_trace::{Options, Unit};
use serde::Serialize;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::failure::{Stopped, Usage};
use crate::identity::Identity;
use crate::named::named;
use crate::output;
use crate::profiles;
use crate::program;
use crate::promise::Verified;
use crate::sim::{self, PAGE_BYTES, Progress, Reading};
use crate::steering::{ReportFile, control_error};
use crate::trials::{Outcome, Trials};
use crate::values;

/// To read less by this share than the kernel alone, and than a run that was told nothing, is worth
/// a policy.
const WORTH: f64 = 0.02;

/// Say which policy a program's references ask for
///
/// FILE is what `pantler run --record FILE` or `pantler attach --record FILE` wrote, or any trace
/// of pages. A PROGRAM is run once with that memory, and what it reads is recorded: data that was
/// in memory before is recorded badly. What it brought in is dropped again. Its output goes to
/// standard error. Each policy is
/// simulated over a model of the kernel's page cache, as a steered run would be, with the memory
/// that it shall have.
#[derive(Debug, Args)]
pub struct Advise {
    /// References of a program
    #[arg(value_name = "FILE", required_unless_present = "program")]
    trace: Option<String>,
    /// Memory for file blocks, such as 64M, or 10% of the memory that there is
    #[arg(long, value_name = "SIZE|%", value_parser = values::memory, allow_negative_numbers = true)]
    memory: Size,
    /// Order in which the kernel evicts: linux, mglru (Linux 6.12) or mglru:rework=1 (Linux 7.3);
    /// without it what this machine's kernel claims
    #[arg(long, value_name = "POLICY", value_parser = named(values::policies, values::online), hide_possible_values = true)]
    kernel: Option<Spec>,
    /// The file system has no large folios, as ext4 before Linux 6.16
    #[arg(long)]
    small_folios: bool,
    #[command(flatten)]
    reading: Reading,
    /// Write the advice to this file, as a profile for `--profile FILE`
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Run PROGRAM once more by the advice, compare what it reads with what was promised, and end
    /// with status 4 if that is more or less by over 5 % and 256 KiB
    #[arg(long)]
    verify: bool,
    /// Run PROGRAM once more by the advice, and end with its status; the advice goes to standard
    /// error
    #[arg(long, conflicts_with_all = ["verify", "json"])]
    apply: bool,
    /// One JSON object
    #[arg(long)]
    json: bool,
    /// A program to record, and its arguments
    #[arg(last = true, value_name = "PROGRAM", conflicts_with = "trace")]
    program: Vec<OsString>,
}

/// What policies would read, the least first.
#[derive(Debug, Serialize)]
struct Advice {
    trace: String,
    memory_bytes: u64,
    kernel: String,
    references: u64,
    /// What the kernel alone would read, with the budget as its limit.
    kernel_read_bytes: u64,
    policies: Vec<Row>,
    /// None where none is worth it.
    advised: Option<&'static str>,
    /// What a run by the advice came to, if one was asked for.
    verified: Option<Verified>,
    /// The program's name has a profile, which the simulated runs were without.
    #[serde(skip)]
    has_profile: bool,
}

#[derive(Debug, Serialize)]
struct Row {
    policy: &'static str,
    read_bytes: u64,
}

/// Simulates all, and says what came of it. The status is 0, or that of a program that was run by
/// the advice.
pub fn advise(words: &Advise) -> Result<u8> {
    check_is_program(words)?;
    let identity = Identity::invoking()?;
    let kernel = words.kernel.unwrap_or_else(|| claimed().spec());
    SteerOptions::new("advise", words.memory.bytes()).check().map_err(control_error)?;
    let trials = match &words.trace {
        Some(_) => None,
        None => Some(Trials::of(&words.program, words.memory, &identity)?),
    };
    let recorded = trials.as_ref().map(Trials::record).transpose()?;
    let trace = recorded.as_ref().map(|(path, _)| path).or(words.trace.as_ref());
    let loaded = pages_of(trace.map_or("", String::as_str), words)?;
    let budget = u32::try_from(words.memory.bytes() / u64::from(PAGE_BYTES)).unwrap_or(u32::MAX);
    let settings = |policy: PolicyName| SteerSettings {
        policy: policy.spec(),
        kernel,
        small_folios: words.small_folios,
        budget,
        seed: 1,
    };
    let watch = Arc::new(Watch::default());
    trials.as_ref().map_or(Ok(()), |trials| trials.stops(watch.clone()))?;
    let records = simulate(&loaded, settings, &watch);
    trials.as_ref().map_or(Ok(()), Trials::check_goes_on)?;
    let mut advice = Advice::new(words, kernel, &records?);
    if let (Some(path), Some(policy)) = (&words.write, advice.advised) {
        write_profile(path, &identity, &advice, policy)?;
    }
    if let Some(trials) = &trials {
        advice.has_profile = profiles::choose(None, &trials.name(), &identity)?.is_some();
    }
    let text = advice.to_text(words.write.as_deref());
    match (words.apply, words.json) {
        (true, _) => output::sentence(format_args!("{text}")),
        (false, true) => {}
        (false, false) => output::text(&text)?,
    }
    if let (true, Some(trials), Some((_, recorded))) = (words.apply || words.verify, &trials, &recorded) {
        recorded.signal.map_or(Ok(()), |signal| Err(Stopped(signal as usize)))?;
        if words.apply {
            return trials.apply(advice.advised);
        }
        advice.verified = Some(advice.verify(trials, recorded)?);
    }
    match (words.json, &advice.verified) {
        (true, _) => output::json("advise", &advice)?,
        (false, Some(verified)) => output::text(&verified.to_text())?,
        (false, None) => {}
    }
    advice.verified.map_or(Ok(()), |verified| verified.check())?;
    Ok(0)
}

/// References alone cannot be run.
fn check_is_program(words: &Advise) -> Result<(), Usage> {
    let option = if words.verify { "--verify" } else { "--apply" };
    match &words.trace {
        Some(trace) if words.verify || words.apply => Err(Usage(format!(
            "{option} {trace}: there is no program to run in a record: pantler advise --memory {} {option} -- PROGRAM",
            words.memory
        ))),
        _ => Ok(()),
    }
}

/// The trace as references to pages. Records have bytes; keys of other traces are pages.
fn pages_of(trace: &str, words: &Advise) -> Result<Loaded> {
    let options = words.reading.options();
    let unit = options.unit.or(Some(Unit::Block(PAGE_BYTES)));
    let (loaded, note) = load(trace, &Options { unit, ..options.clone() })
        .or_else(|_| load(trace, &options))
        .map_err(sim::trace_error)?;
    if let Some(note) = note {
        tell!("{note}");
    }
    sim::check_pages("advise", &loaded)?;
    Ok(loaded)
}

/// What each policy would read; as many at a time as there are processors.
fn simulate(
    loaded: &Loaded,
    settings: impl Fn(PolicyName) -> SteerSettings + Sync,
    watch: &Arc<Watch>,
) -> Result<Vec<(PolicyName, SteerRecord)>> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let runs = PolicyName::ALL.len();
    // The kernel alone is half of a run, and each policy is the other half.
    let references = (1 + runs as u64) * loaded.trace().requests().len() as u64 / 2;
    let progress = Progress::new(watch, references, runs, false);
    let alone = alone(loaded.trace(), settings(PolicyName::Lru), watch).map_err(Usage::new)?;
    let work = || {
        while let Some(&policy) = PolicyName::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
            let record = steer_beside(loaded.trace(), settings(policy), alone, watch);
            progress.ran();
            let record = record.map(|record| (policy, record)).map_err(Usage::new);
            done.lock().expect("no simulation panics").push(record);
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let records = done.into_inner().expect("no simulation panics");
    Ok(records.into_iter().collect::<Result<_, _>>()?)
}

/// The order that this machine's kernel says it evicts by.
fn claimed() -> PolicyName {
    if pantler_kernel::reclaim::is_by_generations() { PolicyName::Mglru } else { PolicyName::Linux }
}

/// What a run reads by a policy.
fn row_of<'a>(policies: &'a [Row], policy: &str) -> Option<&'a Row> {
    policies.iter().find(|row| row.policy == policy)
}

impl Advice {
    fn new(words: &Advise, kernel: Spec, records: &[(PolicyName, SteerRecord)]) -> Advice {
        let bytes = |blocks: u64| blocks * u64::from(PAGE_BYTES);
        let row = |(policy, record): &(PolicyName, SteerRecord)| Row {
            policy: policy.as_str(),
            read_bytes: bytes(record.device_reads),
        };
        let mut policies: Vec<Row> = records.iter().map(row).collect();
        policies.sort_by_key(|row| (row.read_bytes, row.policy));
        let first = records.first().map(|(_, record)| record);
        let alone = bytes(first.map_or(0, |record| record.kernel_device_reads));
        let auto = row_of(&policies, PolicyName::Auto.as_str()).map_or(alone, |auto| auto.read_bytes);
        let without = auto.min(alone);
        let is_worth = |best: &&Row| best.read_bytes as f64 <= without as f64 * (1.0 - WORTH);
        let best = policies.first().filter(is_worth);
        Advice {
            trace: words.trace.clone().unwrap_or_else(|| program::name(&words.program[0])),
            memory_bytes: words.memory.bytes(),
            kernel: kernel.to_string(),
            references: first.map_or(0, |record| record.references),
            kernel_read_bytes: alone,
            advised: best.map(|row| row.policy),
            policies,
            verified: None,
            has_profile: false,
        }
    }

    fn row(&self, policy: &str) -> Option<&Row> {
        row_of(&self.policies, policy)
    }

    /// Runs the program by the advice; without hints where none is advised.
    fn verify(&self, trials: &Trials<'_>, recorded: &Outcome) -> Result<Verified> {
        let policy = self.advised.unwrap_or(PolicyName::Auto.as_str());
        let promised = self.row(policy).map_or(0, |row| row.read_bytes);
        let run = trials.verify(self.advised)?;
        Ok(Verified::new(policy, promised, recorded, &run))
    }

    /// Whether a run that is told nothing is worth it.
    fn finds_enough(&self) -> bool {
        let worth = self.kernel_read_bytes as f64 * (1.0 - WORTH);
        self.row(PolicyName::Auto.as_str()).is_some_and(|auto| auto.read_bytes as f64 <= worth)
    }

    fn to_text(&self, profile: Option<&Path>) -> String {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let saved = |bytes: u64| 100.0 * (1.0 - bytes as f64 / self.kernel_read_bytes.max(1) as f64);
        let mut text = format!(
            "{}: {} references to pages, with at most {} of memory\n{:>14}  {:>10}  {:>7}\n",
            self.trace,
            self.references,
            Size::new(self.memory_bytes),
            "policy",
            "reads MB",
            "saved"
        );
        let mut line = |name: &str, bytes: u64| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:>14}  {:>10.1}  {:>6.1}%", megabytes(bytes), saved(bytes));
        };
        line("kernel alone", self.kernel_read_bytes);
        for Row { policy, read_bytes } in &self.policies {
            line(policy, *read_bytes);
        }
        let memory = Size::new(self.memory_bytes);
        let unhinted = if self.has_profile { " --profile none" } else { "" };
        text += &match (self.advised, profile) {
            (None, _) if self.finds_enough() => {
                format!("nothing need be said; take: pantler run --memory {memory}{unhinted} -- PROGRAM\n")
            }
            (None, _) => "no policy is worth 2 % of the reads: leave it to the kernel (--apply and --verify run it without a hint)\n".to_owned(),
            (Some(policy), None) => {
                format!("take: pantler run --memory {memory}{unhinted} --policy {policy} -- PROGRAM\n")
            }
            (Some(_), Some(path)) => {
                format!("take: pantler run --memory {memory} --profile {} -- PROGRAM\n", path.display())
            }
        };
        text
    }
}

fn write_profile(path: &Path, identity: &Identity, advice: &Advice, policy: &str) -> Result<()> {
    let least = advice.policies.first().map_or(0, |row| row.read_bytes);
    let text = format!(
        "description = \"By `pantler advise`: {policy} reads {:.1} MB where the kernel alone reads {:.1} MB.\"\n\n\
         [policies]\n0 = \"{policy}\"\n",
        least as f64 / 1e6,
        advice.kernel_read_bytes as f64 / 1e6
    );
    ReportFile::open_as("profile", path, identity)?.fill(&text)
}
