//! Many jobs over one trace: prepared once, run side by side, told in order.
//!
//! ```text
//!   jobs     0  1  2  3  4  5 ...        the next one to a free thread
//!   threads  A: 0 2 3 ..   B: 1 4 5 ..   a shared curve or sample is made by the first
//!   told     0, 1, 2, ...                in the order of the jobs, as soon as all before are done
//! ```
//!
//! Every job's result depends on the job and the trace alone, so neither threads nor what else is
//! run changes a digit.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use pantler_policy::Spec;
use pantler_trace::Prepared;

use crate::ahead::{Ahead, Course, simulate_ahead};
use crate::allocation::{SharedError, Sharing, share};
use crate::curve::LruCurve;
use crate::engine::simulate;
use crate::job::{Job, Sampling, What};
use crate::offline::next_uses;
use crate::outcome::{Counts, Outcome};
use crate::record::{About, AheadRecord, ByName, PolicyRecord, Record, SampleRecord, SharingRecord};
use crate::sample::{SAMPLES, Samples};
use crate::size::Footprint;
use crate::watch::{Stopped, Watch};

/// From this number of LRU sizes on one trace the whole curve is cheaper than separate runs.
const CURVE_FROM: usize = 8;

/// Blocks of a sample, at least: what fewer show is chance.
const SAMPLE_BLOCKS_MIN: f64 = 16.0;

/// A trace ready for jobs.
#[derive(Debug)]
pub struct Loaded {
    trace: Prepared,
    skipped_lines: u64,
    lru_jobs: usize,
    curves: Mutex<BTreeMap<u64, Arc<LruCurve>>>,
    samples: Mutex<Option<KeptSamples>>,
}

/// Samples, and how and after which warm-up they were drawn.
type KeptSamples = ((Sampling, u64), Arc<Samples>);

/// Why a job has no result.
pub type RunError = SharedError;

impl Loaded {
    /// A prepared trace. `skipped_lines` made no sense when it was read.
    pub fn new(trace: Prepared, skipped_lines: u64) -> Self {
        Self { trace, skipped_lines, lru_jobs: 0, curves: Mutex::default(), samples: Mutex::default() }
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

    /// Lines that made no sense when the trace was read.
    pub(crate) fn skipped_lines(&self) -> u64 {
        self.skipped_lines
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
        let of = |job: &Job| match job.sample {
            Some(sampling) => (sampling.rate * f64::from(SAMPLES) * all as f64) as u64,
            None => all,
        };
        let mut references: u64 = jobs.iter().map(of).sum();
        if jobs.iter().any(|job| job.what.is_offline()) && !self.trace.has_next_uses() {
            references += all;
        }
        if jobs.iter().any(|job| job.sample.is_some()) {
            references += u64::from(SAMPLES) * all;
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

    /// These jobs will be run: with many LRU sizes among them the first draws the whole curve, and
    /// the others read it.
    pub fn expect(&mut self, jobs: &[Job]) {
        self.lru_jobs = jobs.iter().filter(|job| is_lru(job)).count();
    }

    /// Whether the answer to a job will be read off the whole curve.
    pub fn is_on_curve(&self, job: &Job) -> bool {
        self.lru_jobs >= CURVE_FROM && LruCurve::knows_owners(&self.trace) && is_lru(job)
    }

    /// Runs all jobs on `threads` threads, and tells each result in the order of the jobs. Stopped
    /// ones are not told; after [`Watch::stop`] neither is what was not begun.
    pub fn run_all(
        &mut self,
        jobs: &[Job],
        threads: NonZeroUsize,
        watch: &Watch,
        mut tell: impl FnMut(usize, Result<Record, RunError>),
    ) {
        self.expect(jobs);
        let next = AtomicUsize::new(0);
        let (results, told) = mpsc::channel();
        let this = &*self;
        std::thread::scope(|scope| {
            for _ in 0..threads.get().min(jobs.len()) {
                let (results, next) = (results.clone(), &next);
                scope.spawn(move || {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(job) = jobs.get(index) else { return };
                        if results.send((index, this.run(job, watch))).is_err() || watch.is_stopped() {
                            return;
                        }
                    }
                });
            }
            drop(results);
            tell_in_order(told, &mut tell);
        });
    }

    /// Runs one job.
    ///
    /// # Errors
    ///
    /// [`RunError`].
    pub fn run(&self, job: &Job, watch: &Watch) -> Result<Record, RunError> {
        let warm_up = job.warm_up.references(self.trace.requests().len());
        self.check_sample(job)?;
        match &job.what {
            What::Sharing(sharing) => self.run_sharing(job, sharing, warm_up, watch),
            What::Policy(spec) => Ok(Record::Policy(match (job.sample, job.ahead) {
                (Some(sampling), _) => self.estimate(job, *spec, sampling, warm_up, watch)?,
                (None, Some(ahead)) => self.run_ahead(job, *spec, ahead, warm_up, watch)?,
                (None, None) => self.run_policy(job, *spec, warm_up, watch)?,
            })),
        }
    }

    /// How samples differ says nothing of how far off they are when they hold next to nothing.
    fn check_sample(&self, job: &Job) -> Result<(), RunError> {
        let Some(Sampling { rate, .. }) = job.sample else { return Ok(()) };
        let check = |whole: u32, least: f64, what| {
            let share = rate * f64::from(whole);
            if rate < 1.0 && share < least {
                return Err(RunError::Sample { rate, share, whole, what });
            }
            Ok(())
        };
        const BLOCKS: &str = "blocks: expected a share that draws at least 16 blocks, or no sample";
        const FRAMES: &str = "frames: expected a size of at least one frame of the sample, or a larger share";
        check(self.trace.distinct(), SAMPLE_BLOCKS_MIN, BLOCKS)?;
        check(job.size, 1.0, FRAMES)
    }

    fn run_policy(
        &self,
        job: &Job,
        spec: Spec,
        warm_up: u64,
        watch: &Watch,
    ) -> Result<PolicyRecord, Stopped> {
        if self.is_on_curve(job) {
            let curve = self.curve(warm_up, watch)?;
            let outcome = curve.outcome(&self.trace, job.size);
            return Ok(self.whole_record(job, spec, outcome, warm_up));
        }
        let outcome = simulate(&self.trace, spec, job.size, warm_up, watch)?;
        Ok(self.whole_record(job, spec, outcome, warm_up))
    }

    fn run_ahead(
        &self,
        job: &Job,
        spec: Spec,
        ahead: Ahead,
        warm_up: u64,
        watch: &Watch,
    ) -> Result<PolicyRecord, RunError> {
        let mut course = Course::new(self.trace.requests().len());
        let seen = |room| course.see(room);
        let (outcome, did) = simulate_ahead(&self.trace, spec, ahead, job.size, warm_up, watch, seen)?;
        Ok(PolicyRecord {
            shown: format!("{spec}+{}", ahead.lookahead),
            ahead: Some(AheadRecord {
                lookahead: ahead.lookahead.to_string(),
                window: ahead.window,
                prefetched: did.looked.prefetched,
                used: did.looked.used,
                wasted: did.looked.wasted,
                room: did.room,
                room_over_time: course.finish(),
            }),
            ..self.whole_record(job, spec, outcome, warm_up)
        })
    }

    fn whole_record(&self, job: &Job, spec: Spec, outcome: Outcome, warm_up: u64) -> PolicyRecord {
        let owners = self.trace.owner_names().iter().cloned().zip(outcome.owners);
        PolicyRecord {
            byte_hit_ratio: outcome.bytes.map(|bytes| bytes.hit_ratio()),
            owners: ByName(owners.collect()),
            ..self.record(job, spec, outcome.total, warm_up)
        }
    }

    fn record(&self, job: &Job, spec: Spec, counts: Counts, warm_up: u64) -> PolicyRecord {
        PolicyRecord {
            trace: job.source.trace.clone(),
            policy: spec.to_string(),
            size: job.size,
            requests: counts.requests,
            misses: counts.misses,
            hit_ratio: counts.hit_ratio(),
            byte_hit_ratio: None,
            sample: None,
            ahead: None,
            owners: ByName::default(),
            about: self.about(warm_up),
            shown: spec.to_string(),
        }
    }

    /// The whole LRU curve: drawn by the first that asks.
    fn curve(&self, warm_up: u64, watch: &Watch) -> Result<Arc<LruCurve>, Stopped> {
        let mut curves = self.curves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(curve) = curves.get(&warm_up) {
            watch.advance(self.trace.requests().len())?;
            return Ok(curve.clone());
        }
        let curve = Arc::new(LruCurve::of(&self.trace, warm_up, watch)?);
        curves.insert(warm_up, curve.clone());
        Ok(curve)
    }

    /// The samples: drawn by the first that asks, and kept for all that ask for the same.
    fn samples(&self, sampling: Sampling, warm_up: u64, watch: &Watch) -> Result<Arc<Samples>, Stopped> {
        let draw = || Samples::draw(&self.trace, sampling.rate, sampling.seed, warm_up, watch).map(Arc::new);
        let mut kept = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some((of, samples)) if *of == (sampling, warm_up) => return Ok(samples.clone()),
            Some(_) => {}
            None => {
                let samples = draw()?;
                *kept = Some(((sampling, warm_up), samples.clone()));
                return Ok(samples);
            }
        }
        drop(kept);
        draw()
    }

    fn estimate(
        &self,
        job: &Job,
        spec: Spec,
        sampling: Sampling,
        warm_up: u64,
        watch: &Watch,
    ) -> Result<PolicyRecord, Stopped> {
        let estimate = self.samples(sampling, warm_up, watch)?.estimate(spec, job.size, watch)?;
        let counts = Counts { requests: estimate.requests, misses: estimate.misses };
        let sample = SampleRecord {
            rate: sampling.rate,
            samples: SAMPLES,
            seed: sampling.seed,
            hit_ratio_error: estimate.error,
        };
        Ok(PolicyRecord {
            hit_ratio: estimate.hit_ratio,
            sample: Some(sample),
            ..self.record(job, spec, counts, warm_up)
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
        Ok(Record::Sharing(SharingRecord {
            allocation: sharing.allocation.to_string(),
            size: job.size,
            owners: ByName(shared.owners),
            trace: job.source.trace.clone(),
            requests: shared.total.requests,
            misses: shared.total.misses,
            hit_ratio: shared.total.hit_ratio(),
            revocations: shared.revocations,
            about: self.about(warm_up),
            unknown: shared.unknown,
        }))
    }

    fn about(&self, warm_up: u64) -> About {
        About::new(self.trace.distinct(), self.trace.unit().to_string(), warm_up, self.skipped_lines)
    }
}

fn is_lru(job: &Job) -> bool {
    job.what == What::Policy(Spec::Lru(Default::default())) && job.sample.is_none() && job.ahead.is_none()
}

/// Tells results in order. One that a stop left without a predecessor is told at the end.
fn tell_in_order(
    results: mpsc::Receiver<(usize, Result<Record, RunError>)>,
    tell: &mut impl FnMut(usize, Result<Record, RunError>),
) {
    let mut waiting = BTreeMap::new();
    let mut expected = 0;
    for (index, result) in results {
        if matches!(result, Err(RunError::Stopped(Stopped))) {
            continue;
        }
        waiting.insert(index, result);
        while let Some(result) = waiting.remove(&expected) {
            tell(expected, result);
            expected += 1;
        }
    }
    for (index, result) in waiting {
        tell(index, result);
    }
}
