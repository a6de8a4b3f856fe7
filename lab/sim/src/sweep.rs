//! Many jobs over one trace: prepared once, run side by side, told in order.
//!
//! ```text
//!   jobs     0  1  2  3  4  5 ...        the next one to a free thread
//!   threads  A: 0 2 3 ..   B: 1 4 5 ..
//!   told     0, 1, 2, ...                in the order of the jobs, as soon as all before are done
//! ```
//!
//! Every job's result depends on the job and the trace alone, so neither threads nor what else is
//! run changes a digit. LRU at many sizes is many runs, too:
//! docs/decisions/0119-each-size-is-run.md.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use pantler_policy::Spec;
use pantler_trace::{Options, Prepared, TraceError, prepare};

use crate::ahead::{Ahead, simulate_ahead};
use crate::allocation::{RunError, Sharing, share};
use crate::engine::simulate;
use crate::job::{Job, What};
use crate::offline::next_uses;
use crate::outcome::{Counts, Outcome};
use crate::record::{About, AheadRecord, OwnerRecord, Record};
use crate::size::Footprint;
use crate::watch::{Stopped, Watch};

/// A trace ready for jobs.
#[derive(Debug)]
pub struct Loaded {
    name: String,
    trace: Prepared,
}

/// Reads and prepares a trace: a file, or what a generator's text says. Also gives what is to be
/// told about it.
///
/// # Errors
///
/// Whatever is wrong with the words or the file, see [`TraceError`].
pub fn load(name: &str, options: &Options) -> Result<(Loaded, Option<String>), TraceError> {
    let (trace, report) = prepare(Path::new(name), options)?;
    Ok((Loaded::new(name, trace), report.note))
}

impl Loaded {
    /// A prepared trace, with the name that its results carry.
    pub fn new(name: impl Into<String>, trace: Prepared) -> Self {
        Self { name: name.into(), trace }
    }

    /// The name that results carry.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// From now on only jobs are run that [need no blocks](Job::needs_blocks): their names give
    /// their memory back.
    pub fn forget_blocks(&mut self) {
        self.trace.forget_blocks();
    }

    /// The trace.
    pub fn trace(&self) -> &Prepared {
        &self.trace
    }

    /// What sizes may be measured against.
    pub fn footprint(&self) -> Footprint {
        let blocks = self.trace.distinct();
        let block_bytes = match (self.trace.equal_bytes(), self.trace.sizes()) {
            (Some(bytes), _) => Some(f64::from(bytes)),
            (None, Some(sizes)) => {
                let bytes: u64 = sizes.iter().map(|&size| u64::from(size)).sum();
                (bytes > 0).then(|| bytes as f64 / f64::from(blocks))
            }
            (None, None) => None,
        };
        Footprint { blocks, block_bytes }
    }

    /// References that jobs will simulate, as far as that is known beforehand.
    pub fn references(&self, jobs: &[Job]) -> u64 {
        let all = self.trace.requests().len() as u64;
        let mut references = jobs.len() as u64 * all;
        if jobs.iter().any(|job| job.what.is_offline()) && !self.trace.has_next_uses() {
            references += all;
        }
        references
    }

    /// Computes what offline policies must be told, unless it is there.
    ///
    /// # Errors
    ///
    /// [`Stopped`] when `watch` was told so.
    pub fn look_ahead(&self, watch: &Watch) -> Result<(), Stopped> {
        next_uses(&self.trace, watch).map(|_| ())
    }

    /// Runs all jobs on `threads` threads, and tells each result in the order of the jobs. Stopped
    /// ones are not told; after [`Watch::stop`] neither is what was not begun.
    pub fn run_all(
        &self,
        jobs: &[Job],
        threads: NonZeroUsize,
        watch: &Watch,
        tell: impl FnMut(usize, Result<Record, RunError>),
    ) {
        let run = |index: usize| {
            let result = if watch.is_stopped() { Err(Stopped.into()) } else { self.run(&jobs[index], watch) };
            (!matches!(result, Err(RunError::Stopped(_)))).then_some(result)
        };
        side_by_side(jobs.len(), threads.get(), run, tell);
    }

    /// Runs one job.
    ///
    /// # Errors
    ///
    /// [`RunError`].
    pub fn run(&self, job: &Job, watch: &Watch) -> Result<Record, RunError> {
        let warm_up = job.warm_up.references(self.trace.requests().len());
        match (&job.what, job.ahead) {
            (What::Sharing(sharing), _) => self.run_sharing(job, sharing, warm_up, watch),
            (What::Policy(spec), Some(ahead)) => self.run_ahead(job, *spec, ahead, warm_up, watch),
            (What::Policy(spec), None) => {
                let outcome = simulate(&self.trace, *spec, job.size, warm_up, watch)?;
                Ok(self.of_policy(job, *spec, outcome, warm_up))
            }
        }
    }

    fn run_ahead(
        &self,
        job: &Job,
        spec: Spec,
        ahead: Ahead,
        warm_up: u64,
        watch: &Watch,
    ) -> Result<Record, RunError> {
        let (outcome, did) = simulate_ahead(&self.trace, spec, ahead, job.size, warm_up, watch, |_| {})?;
        let Ahead { lookahead, window } = ahead;
        Ok(Record {
            shown: format!("{spec}+{lookahead}"),
            ahead: Some(AheadRecord {
                lookahead: lookahead.to_string(),
                window,
                looked: did.looked.into(),
                room: did.room,
            }),
            ..self.of_policy(job, spec, outcome, warm_up)
        })
    }

    fn run_sharing(
        &self,
        job: &Job,
        sharing: &Sharing,
        warm_up: u64,
        watch: &Watch,
    ) -> Result<Record, RunError> {
        let shared = share(&self.trace, sharing, job.size, warm_up, watch)?;
        let allocation = sharing.allocation.to_string();
        Ok(Record {
            allocation: Some(allocation.clone()),
            owners: shared.owners,
            revocations: Some(shared.revocations),
            unknown: shared.unknown,
            ..self.record(job, allocation, shared.total, warm_up)
        })
    }

    fn of_policy(&self, job: &Job, spec: Spec, outcome: Outcome, warm_up: u64) -> Record {
        let counts =
            outcome.owners.into_iter().map(|counts| OwnerRecord { counts, ..OwnerRecord::default() });
        Record {
            policy: Some(spec.to_string()),
            byte_hit_ratio: outcome.bytes.map(|bytes| bytes.hit_ratio()),
            owners: self.trace.owner_names().iter().cloned().zip(counts).collect(),
            ..self.record(job, spec.to_string(), outcome.total, warm_up)
        }
    }

    fn record(&self, job: &Job, shown: String, counts: Counts, warm_up: u64) -> Record {
        Record {
            trace: self.name.clone(),
            size: job.size,
            counts,
            hit_ratio: counts.hit_ratio(),
            about: About::new("sim", &self.trace, warm_up),
            shown,
            ..Record::default()
        }
    }
}

/// Does `count` pieces of work on `threads` threads, and tells the results in order. A thread ends
/// at a piece without a result; what comes after such a piece is told at the end. A thread waits
/// until what it did before is told, so that it sees a stop soon.
pub(crate) fn side_by_side<R: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> Option<R> + Sync,
    mut tell: impl FnMut(usize, R),
) {
    let next = AtomicUsize::new(0);
    let (results, told) = mpsc::sync_channel(1);
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            let (results, next, work) = (results.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(result) = (index < count).then(|| work(index)).flatten() else { return };
                    if results.send((index, result)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(results);
        let (mut waiting, mut expected) = (BTreeMap::new(), 0);
        for (index, result) in told {
            waiting.insert(index, result);
            while let Some(result) = waiting.remove(&expected) {
                tell(expected, result);
                expected += 1;
            }
        }
        waiting.into_iter().for_each(|(index, result)| tell(index, result));
    });
}
