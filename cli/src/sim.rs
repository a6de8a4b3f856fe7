//! `pantler sim`: policies and allocations over traces.

use anyhow::Result;
use pantler_sim::{Footprint, Job, Json, Loaded, Record, RunError, Watch, load, table};
use pantler_trace::TraceError;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};

use crate::failure::Usage;
use crate::output;

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
pub use progress::Progress;
pub use reading::Reading;
pub use steer::{PAGE_BYTES, check_pages};
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
    let plan = Plan::new(words)?;
    for remark in &plan.remarks {
        tell!("{remark}");
    }
    if words.body.is_some() {
        return session.run_steered(&plan);
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
}

impl<'a> Session<'a> {
    fn new(words: &'a Sim) -> Result<Self> {
        let watch = Arc::new(Watch::default());
        let available = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Ok(Self {
            words,
            interrupt: Interrupt::new(watch.clone())?,
            watch,
            threads: words.threads.unwrap_or_else(available),
            records: Vec::new(),
            remarks: BTreeSet::new(),
        })
    }

    /// Runs all that is planned. What is done is shown, whatever becomes of the rest.
    fn run_plan(mut self, plan: &Plan) -> Result<u8> {
        let mut result = Ok(());
        for name in &self.words.traces {
            result = self.run_trace(plan, name);
            if result.is_err() || self.watch.is_stopped() {
                break;
            }
        }
        self.finish(result)
    }

    fn run_trace(&mut self, plan: &Plan, name: &str) -> Result<()> {
        let Some(mut loaded) = self.load(name)? else { return Ok(()) };
        let sizes = sizes(plan, name, loaded.footprint())?;
        self.run(&mut loaded, &plan.jobs(&sizes))
    }

    /// Reads and prepares a trace; `None` when Ctrl-C came first.
    fn load(&self, name: &str) -> Result<Option<Loaded>> {
        let (done, result) = mpsc::sync_channel(1);
        let (wanted, options) = (name.to_owned(), self.words.reading.options());
        // Reading cannot be stopped, so it is left to itself.
        std::thread::spawn(move || {
            let clock = Clock::start();
            let loaded = load(&wanted, &options);
            let _ = done.send((loaded, clock.to_string()));
        });
        let (loaded, took) = loop {
            match result.recv_timeout(LOOK_EVERY) {
                Ok(result) => break result,
                Err(RecvTimeoutError::Timeout) if self.watch.is_stopped() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => anyhow::bail!("reading {name} failed"),
            }
        };
        let (loaded, note) = loaded.map_err(trace_error)?;
        if self.words.timings {
            tell!("prepared in {took}");
        }
        if let Some(note) = note {
            tell!("{note}");
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
        let (threads, watch) = (self.threads, self.watch.clone());
        let mut failure = None;
        loaded.run_all(jobs, threads, &watch, |_, result| {
            progress.ran();
            let told = result.map_err(run_error).and_then(|record| progress.hidden(|| self.tell(record)));
            if let Err(error) = told {
                failure.get_or_insert(error);
                watch.stop();
            }
        });
        failure.map_or(Ok(()), Err)
    }

    /// Says what a run came to as soon as it is known. Without a reader the rest would be run in
    /// vain.
    fn tell(&mut self, record: Record) -> Result<()> {
        for sentence in &record.unknown {
            if self.remarks.insert(sentence.clone()) {
                tell!("{sentence}");
            }
        }
        if self.words.json && !output::line(&(record.to_json() + "\n"))? {
            self.watch.stop();
        }
        self.records.push(record);
        Ok(())
    }

    fn progress(&self, references: u64, runs: usize) -> Progress {
        Progress::new(&self.watch, references, runs, self.words.progress)
    }

    /// Runs jobs one by one, and says what each took.
    fn run_timed(&mut self, loaded: &Loaded, jobs: &[Job]) -> Result<()> {
        if jobs.iter().any(|job| job.what.is_offline()) {
            let clock = Clock::start();
            if loaded.look_ahead(&self.watch).is_err() {
                return Ok(());
            }
            tell!("next uses in {clock}");
        }
        for job in jobs {
            let clock = Clock::start();
            let record = match loaded.run(job, &self.watch) {
                Err(RunError::Stopped(_)) => break,
                result => result.map_err(run_error)?,
            };
            tell!("{} {} in {clock}", record.shown, record.size);
            self.tell(record)?;
        }
        Ok(())
    }

    /// Shows what was not shown yet, then says what went wrong.
    fn finish(&mut self, result: Result<()>) -> Result<u8> {
        if !self.words.json && (result.is_ok() || !self.records.is_empty()) {
            output::text(&table(&self.records))?;
        }
        result.map(|()| if self.interrupt.happened() { INTERRUPTED } else { 0 })
    }
}

/// The sizes for one trace. Says so where some of them come out equal.
fn sizes(plan: &Plan, name: &str, footprint: Footprint) -> Result<Vec<u32>> {
    let named = plan.sizes.resolve_each(footprint).map_err(Usage::new)?.len();
    let sizes = plan.sizes.resolve(footprint).map_err(Usage::new)?;
    if sizes.len() < named {
        let kept = sizes.len();
        tell!("{name}: {named} sizes are {kept} different numbers of blocks, and each is run once");
    }
    Ok(sizes)
}

/// Words that make no sense are the user's, everything else is the file's.
pub fn trace_error(error: TraceError) -> anyhow::Error {
    match error {
        error if error.is_missing() => Usage::new(error).into(),
        TraceError::Option { .. } => Usage::new(error).into(),
        // One line says everything, its cause included.
        error => anyhow::Error::msg(error.to_string()),
    }
}

fn run_error(error: RunError) -> anyhow::Error {
    match error {
        RunError::Control(_) | RunError::Options(_) => Usage::new(error).into(),
        error => error.into(),
    }
}
