//! `pantler sim`: policies and allocations over traces.

use anyhow::{Context, Result};
use pantler_sim::{Footprint, Job, Loaded, Record, RunError, Source, Watch, csv, html, load, table};
use pantler_trace::TraceError;
use std::collections::BTreeSet;
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};

use crate::failure::Usage;
use crate::output;
use crate::written::Written;

mod clock;
mod help;
mod interrupt;
mod processes;
mod progress;
mod reading;
mod steer;
mod tiers;
mod values;
mod words;

use clock::Clock;
use interrupt::{Interrupt, LOOK_EVERY};
use progress::Progress;
use words::Plan;
pub use words::Sim;

/// What a shell says of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Carries out the words.
pub fn sim(words: &Sim) -> Result<u8> {
    if let Some(more) = &words.more {
        return tiers::more(more);
    }
    if words.policy.as_deref() == Some("help") {
        output::text(&help::policies())?;
        return Ok(0);
    }
    let session = Session::new(words)?;
    if let Some(job) = &words.job {
        return session.run_jobs(job);
    }
    let plan = Plan::new(words)?;
    for remark in &plan.remarks {
        eprintln!("pantler: {remark}");
    }
    if words.body.is_some() {
        return session.run_steered(&plan);
    }
    if let Some(path) = &words.jobs_out {
        return session.write_jobs(&plan, path);
    }
    session.run_plan(&plan)
}

/// Results so far, and how they are shown.
struct Session<'a> {
    words: &'a Sim,
    watch: Arc<Watch>,
    interrupt: Interrupt,
    threads: NonZeroUsize,
    records: Vec<Record>,
    /// What was said on standard error already.
    remarks: BTreeSet<String>,
    /// Where the page goes: opened before the first run.
    page: Option<Written>,
}

impl<'a> Session<'a> {
    fn new(words: &'a Sim) -> Result<Self> {
        let watch = Arc::new(Watch::default());
        let create = |path: &Option<PathBuf>| path.as_deref().map(Written::create).transpose();
        let available = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Ok(Self {
            words,
            interrupt: Interrupt::new(watch.clone())?,
            watch,
            threads: words.threads.unwrap_or_else(available),
            records: Vec::new(),
            remarks: BTreeSet::new(),
            page: create(&words.html)?,
        })
    }

    /// Runs all that is planned. What is done is shown, whatever becomes of the rest.
    fn run_plan(mut self, plan: &Plan) -> Result<u8> {
        let mut result = Ok(());
        for source in &plan.sources {
            result = self.run_source(plan, source);
            if result.is_err() || self.watch.is_stopped() {
                break;
            }
        }
        self.finish(result)
    }

    fn run_source(&mut self, plan: &Plan, source: &Source) -> Result<()> {
        let Some(mut loaded) = self.load(source)? else { return Ok(()) };
        let sizes = sizes(plan, source, loaded.footprint())?;
        self.run(&mut loaded, &plan.jobs(source, &sizes))
    }

    /// Reads and prepares a trace; `None` when Ctrl-C came first.
    fn load(&self, source: &Source) -> Result<Option<Loaded>> {
        let (done, result) = mpsc::sync_channel(1);
        let wanted = source.clone();
        // Reading cannot be stopped, so it is left to itself.
        std::thread::spawn(move || {
            let clock = Clock::start();
            let loaded = load(&wanted);
            let _ = done.send((loaded, clock.to_string()));
        });
        let (loaded, took) = loop {
            match result.recv_timeout(LOOK_EVERY) {
                Ok(result) => break result,
                Err(RecvTimeoutError::Timeout) if self.watch.is_stopped() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => anyhow::bail!("reading {} failed", source.trace),
            }
        };
        let (loaded, report) = loaded.map_err(trace_error)?;
        if self.words.timings {
            eprintln!("pantler: prepared in {took}");
        }
        let Some(report) = report else { return Ok(Some(loaded)) };
        if let Some(note) = &report.note {
            eprintln!("pantler: {note}");
        }
        if let Some(first) = &report.first_bad {
            eprintln!("pantler: {} bad lines or records skipped, the first: {first}", report.skipped);
        }
        Ok(Some(loaded))
    }

    /// Runs jobs over one trace. JSON lines go out as they come.
    fn run(&mut self, loaded: &mut Loaded, jobs: &[Job]) -> Result<()> {
        if !jobs.iter().any(Job::needs_blocks) {
            loaded.forget_blocks();
        }
        let references = loaded.references(jobs);
        let progress = self.progress(references, jobs.len());
        if self.words.timings {
            return self.run_timed(loaded, jobs);
        }
        let json = self.is_json();
        let mut failure = None;
        loaded.run_all(jobs, self.threads, &self.watch, |_, result| match result {
            Ok(record) => {
                progress.ran();
                let shown = progress.hidden(|| {
                    remarks(&record, &mut self.remarks);
                    if json { output::line(&(record.to_json() + "\n")) } else { Ok(true) }
                });
                self.records.push(record);
                match shown {
                    Ok(true) => {}
                    // There is no reader any more: the rest would be run in vain.
                    Ok(false) => self.watch.stop(),
                    Err(error) => {
                        failure.get_or_insert(error);
                        self.watch.stop();
                    }
                }
            }
            Err(error) => {
                failure.get_or_insert(run_error(error));
                self.watch.stop();
            }
        });
        failure.map_or(Ok(()), Err)
    }

    fn progress(&self, references: u64, runs: usize) -> Progress {
        Progress::new(&self.watch, references, runs, self.words.progress)
    }

    /// Whether each run is told as a line of JSON.
    fn is_json(&self) -> bool {
        self.words.json || self.words.job.is_some()
    }

    /// Runs jobs one by one, and says what each took.
    fn run_timed(&mut self, loaded: &mut Loaded, jobs: &[Job]) -> Result<()> {
        let json = self.is_json();
        if jobs.iter().any(|job| job.what.is_offline()) {
            let clock = Clock::start();
            if loaded.look_ahead(&self.watch).is_err() {
                return Ok(());
            }
            eprintln!("pantler: next uses in {clock}");
        }
        loaded.expect(jobs);
        if let Some(job) = jobs.iter().find(|job| loaded.is_on_curve(job)) {
            let clock = Clock::start();
            match loaded.run(job, &self.watch) {
                Err(RunError::Stopped(_)) => return Ok(()),
                result => result.map_err(run_error)?,
            };
            eprintln!("pantler: lru curve in {clock}");
        }
        for job in jobs {
            let clock = Clock::start();
            let result = loaded.run(job, &self.watch);
            let record = match result {
                Err(RunError::Stopped(_)) => break,
                result => result.map_err(run_error)?,
            };
            eprintln!("pantler: {} {} in {clock}", record.name(), record.size());
            remarks(&record, &mut self.remarks);
            let read = !json || output::line(&(record.to_json() + "\n"))?;
            self.records.push(record);
            if !read {
                self.watch.stop();
                break;
            }
        }
        Ok(())
    }

    /// Runs the jobs of a file, or the one at a line of it. Neighbours with the same trace share
    /// it.
    fn run_jobs(mut self, word: &str) -> Result<u8> {
        let jobs = read_jobs(word)?;
        let mut result = Ok(());
        for jobs in jobs.chunk_by(|one, other| one.source == other.source) {
            result = match self.load(&jobs[0].source) {
                Ok(Some(mut loaded)) => self.run(&mut loaded, jobs),
                Ok(None) => break,
                Err(error) => Err(error),
            };
            if result.is_err() || self.watch.is_stopped() {
                break;
            }
        }
        self.finish(result)
    }

    /// Jobs of all traces, one per line. Some of them would look like all, so Ctrl-C leaves none.
    fn write_jobs(&self, plan: &Plan, path: &Path) -> Result<u8> {
        let mut text = String::new();
        for source in &plan.sources {
            let Some(loaded) = self.load(source)? else { return Ok(INTERRUPTED) };
            let sizes = sizes(plan, source, loaded.footprint())?;
            for job in plan.jobs(source, &sizes) {
                text += &serde_json::to_string(&job).context("a job becomes JSON")?;
                text.push('\n');
            }
        }
        if path.as_os_str() == "-" {
            output::text(&text)?;
        } else {
            write(path, text.as_bytes())?;
        }
        Ok(0)
    }

    /// Shows what was not shown yet, then says what went wrong.
    fn finish(&mut self, result: Result<()>) -> Result<u8> {
        if result.is_ok() || !self.records.is_empty() {
            self.show()?;
        }
        result.map(|()| if self.interrupt.happened() { INTERRUPTED } else { 0 })
    }

    fn show(&mut self) -> Result<()> {
        if self.words.csv {
            output::text(&csv(&self.records))?;
        } else if !self.is_json() {
            output::text(&table(&self.records))?;
        }
        if let Some(page) = self.page.take() {
            page.fill(|file| Ok(file.write_all(html(&self.records).as_bytes())?))?;
        }
        Ok(())
    }
}

/// The sizes for one trace. Says so where some of them come out equal.
fn sizes(plan: &Plan, source: &Source, footprint: Footprint) -> Result<Vec<u32>> {
    let named = plan.sizes.resolve_each(footprint).map_err(Usage::new)?.len();
    let sizes = plan.sizes.resolve(footprint).map_err(Usage::new)?;
    if sizes.len() < named {
        let (name, kept) = (&source.trace, sizes.len());
        eprintln!(
            "pantler: {name}: {named} sizes are {kept} different numbers of blocks, and each is run once"
        );
    }
    Ok(sizes)
}

/// Says what is odd about a run, each thing once.
fn remarks(record: &Record, said: &mut BTreeSet<String>) {
    let Record::Sharing(record) = record else { return };
    for sentence in &record.unknown {
        if said.insert(sentence.clone()) {
            eprintln!("pantler: {sentence}");
        }
    }
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

/// Reads `FILE`, `FILE:LINE` or `-`.
fn read_jobs(word: &str) -> Result<Vec<Job>> {
    let (name, line) = match word.rsplit_once(':').map(|(name, line)| (name, line.parse::<usize>())) {
        // A file with a name that ends like that wins.
        Some((name, Ok(line))) if !Path::new(word).exists() => (name, Some(line)),
        _ => (word, None),
    };
    let text = if name == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        text
    } else {
        std::fs::read_to_string(name).with_context(|| format!("cannot read {name}"))?
    };
    let mut jobs = Vec::new();
    for (number, text) in (1..).zip(text.lines()) {
        if line.is_some_and(|line| line != number) || (line.is_none() && text.trim().is_empty()) {
            continue;
        }
        let job = serde_json::from_str(text).map_err(|error| Usage(format!("{name}:{number}: {error}")))?;
        jobs.push(job);
    }
    if jobs.is_empty() {
        let lines = text.lines().count();
        let what =
            line.map_or("no job in it".to_owned(), |line| format!("no line {line}, there are {lines}"));
        return Err(Usage(format!("{name}: {what}")).into());
    }
    Ok(jobs)
}

/// Words that make no sense are the user's, everything else is the file's.
fn trace_error(error: TraceError) -> anyhow::Error {
    match error {
        error if error.is_missing() => Usage::new(error).into(),
        TraceError::Option { .. } => Usage::new(error).into(),
        // One line says everything, its cause included.
        error => anyhow::Error::msg(error.to_string()),
    }
}

fn run_error(error: RunError) -> anyhow::Error {
    match error {
        RunError::Control(_) | RunError::Options(_) | RunError::Sample { .. } => Usage::new(error).into(),
        error => error.into(),
    }
}
