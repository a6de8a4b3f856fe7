//! A trace ready for jobs, as a Python object.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use numpy::PyArray1;
use pantler_policy::Spec;
use pantler_sim::{Footprint, Job, Json, Loaded, RunError, Sizes, Source, WarmUp, Watch, What, load};
use pantler_trace::{Content, Prepared, Request, TraceError, Unit, Writer};
use pyo3::prelude::*;

use crate::array::Ids;
use crate::interruptible::interruptible;
use crate::mistakes::{of_policy, of_run, of_trace, of_words};

/// A trace in memory, ready for jobs. Several threads may use one.
#[pyclass(frozen, module = "pantler")]
pub struct Trace {
    source: Source,
    /// Written to by runs of several jobs, which share what they compute; read by runs of one.
    loaded: Arc<RwLock<Loaded>>,
    /// What sizes are measured against.
    measured: Footprint,
    #[pyo3(get)]
    requests: usize,
    #[pyo3(get)]
    footprint: u32,
    #[pyo3(get)]
    unit: String,
    #[pyo3(get)]
    note: Option<String>,
}

#[pymethods]
impl Trace {
    /// Reads a file, or makes what a generator's text says.
    #[staticmethod]
    #[pyo3(signature = (trace, *, format=None, unit=None, columns=None))]
    fn open(
        py: Python<'_>,
        trace: PathBuf,
        format: Option<String>,
        unit: Option<String>,
        columns: Option<String>,
    ) -> PyResult<Self> {
        let trace = trace.into_os_string().into_string();
        let trace = trace.map_err(|name| of_words(format!("trace {name:?}: expected a name in UTF-8")))?;
        let source = Source { trace, format, unit, columns };
        let wanted = source.clone();
        let (loaded, note) = interruptible(py, move |_| load(&wanted))?.map_err(of_trace)?;
        Ok(Self::new(source, loaded, note))
    }

    /// Makes a trace of an array of ids.
    #[staticmethod]
    #[pyo3(signature = (ids, *, name="array".to_owned()))]
    fn from_array(py: Python<'_>, ids: &Bound<'_, PyAny>, name: String) -> PyResult<Self> {
        let ids = Ids::read(ids)?;
        let source = Source { trace: name, ..Source::default() };
        let prepared = interruptible(py, move |_| match ids {
            Ids::Narrow(ids) => Prepared::from_ids(ids.into_iter().map(u64::from)),
            Ids::Wide(ids) => Prepared::from_ids(ids),
        })?;
        Ok(Self::new(source, Loaded::new(prepared), None))
    }

    /// The name that results carry.
    #[getter]
    fn name(&self) -> &str {
        &self.source.trace
    }

    /// The reference string in dense ids.
    fn ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let loaded = self.loaded.clone();
        let copy = move |_: &Watch| {
            let loaded = loaded.read().unwrap_or_else(PoisonError::into_inner);
            loaded.trace().requests().to_vec()
        };
        Ok(PyArray1::from_vec(py, interruptible(py, copy)?))
    }

    /// Lines of jobs: by policy, then by size.
    #[pyo3(signature = (policies, sizes, *, warm_up_count=None, warm_up_share=None))]
    fn jobs(
        &self,
        policies: Vec<String>,
        sizes: &str,
        warm_up_count: Option<u64>,
        warm_up_share: Option<f64>,
    ) -> PyResult<Vec<String>> {
        let sizes: Sizes = sizes.parse().map_err(of_words)?;
        let sizes = sizes.resolve(self.measured).map_err(of_words)?;
        let warm_up = match (warm_up_count, warm_up_share) {
            (_, Some(share)) => WarmUp::Share(checked_share(share)?),
            (Some(count), None) => WarmUp::Count(count),
            (None, None) => WarmUp::None,
        };
        let mut whats = Vec::new();
        for policy in policies {
            let what = What::Policy(policy.parse::<Spec>().map_err(of_policy)?);
            // As on the command line: `min` and `opt` are one.
            if !whats.contains(&what) {
                whats.push(what);
            }
        }
        let mut lines = Vec::new();
        for what in &whats {
            for &size in &sizes {
                let (source, what) = (self.source.clone(), what.clone());
                let job = Job { source, what, size, warm_up, ahead: None };
                lines.push(job.to_json());
            }
        }
        Ok(lines)
    }

    /// Runs lines of jobs about this trace, and gives their records as lines, in the same order.
    #[pyo3(signature = (jobs, *, threads=None))]
    fn run(&self, py: Python<'_>, jobs: Vec<String>, threads: Option<usize>) -> PyResult<Vec<String>> {
        let jobs = jobs.iter().map(|line| self.job(line)).collect::<PyResult<Vec<Job>>>()?;
        let threads = match threads {
            Some(count) => NonZeroUsize::new(count)
                .ok_or_else(|| of_words("threads 0: expected at least 1, or None for one per processor"))?,
            None => std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        };
        let loaded = self.loaded.clone();
        interruptible(py, move |watch| run(&loaded, &jobs, threads, watch))?.map_err(of_run)
    }

    /// Writes the trace as CSV, so that it can be opened as a file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let loaded = self.loaded.clone();
        let save = move |_: &Watch| {
            let loaded = loaded.read().unwrap_or_else(PoisonError::into_inner);
            let written = File::create(&path).and_then(|file| write(loaded.trace(), file));
            written.map_err(|source| TraceError::Io { action: "write", path, source })
        };
        interruptible(py, save)?.map_err(of_trace)
    }

    fn __repr__(&self) -> String {
        let Self { source, requests, footprint, unit, .. } = self;
        format!("<pantler.Trace {:?}: {requests} references, {footprint} of {unit}>", source.trace)
    }
}

impl Trace {
    fn new(source: Source, loaded: Loaded, note: Option<String>) -> Self {
        let trace = loaded.trace();
        let (requests, footprint) = (trace.requests().len(), trace.distinct());
        let (unit, measured) = (trace.unit().to_string(), loaded.footprint());
        let loaded = Arc::new(RwLock::new(loaded));
        Self { source, loaded, measured, requests, footprint, unit, note }
    }

    fn job(&self, line: &str) -> PyResult<Job> {
        let job: Job =
            serde_json::from_str(line).map_err(|error| of_words(format!("job {line}: {error}")))?;
        if job.source != self.source {
            let text =
                format!("job {line}: expected one about trace {:?}, read in the same way", self.source.trace);
            return Err(of_words(text));
        }
        Ok(job)
    }
}

/// Runs all jobs, or says why the first that failed did.
fn run(
    loaded: &RwLock<Loaded>,
    jobs: &[Job],
    threads: NonZeroUsize,
    watch: &Watch,
) -> Result<Vec<String>, RunError> {
    if let [job] = jobs {
        let loaded = loaded.read().unwrap_or_else(PoisonError::into_inner);
        return Ok(vec![loaded.run(job, watch)?.to_json()]);
    }
    let mut loaded = loaded.write().unwrap_or_else(PoisonError::into_inner);
    let mut records = Ok(Vec::with_capacity(jobs.len()));
    loaded.run_all(jobs, threads, watch, |_, result| match (result, &mut records) {
        (Ok(record), Ok(records)) => records.push(record.to_json()),
        (Err(error), Ok(_)) => {
            records = Err(error);
            watch.stop();
        }
        (_, Err(_)) => {}
    });
    records
}

/// A share above 0 and at most 1.
fn checked_share(share: f64) -> PyResult<f64> {
    let sensible = share > 0.0 && share <= 1.0;
    sensible.then_some(share).ok_or_else(|| {
        of_words(format!("warm_up {share}: expected a share above 0, at most 1.0, such as 0.1"))
    })
}

/// Each reference is one record: an object, or the range of bytes of a block.
fn write(trace: &Prepared, file: File) -> io::Result<()> {
    let (content, block_bytes) = match trace.unit() {
        Unit::Object => (Content::Keys, 1),
        Unit::Block(bytes) => (Content::Ranges, bytes),
    };
    let mut writer = Writer::new(file, content);
    for (at, &id) in trace.requests().iter().enumerate() {
        let block = trace.block_of(id);
        let offset = block.index.saturating_mul(block_bytes.into());
        let length = trace.sizes().map_or(trace.equal_bytes().unwrap_or(0), |sizes| sizes[id as usize]);
        let owner = trace.owners().map_or(0, |owners| owners[at].into());
        let request = Request { owner, file: block.file, offset, length, ..Request::object(offset) };
        writer.write(&request, trace.owner_names(), trace.file_names())?;
    }
    writer.finish()
}
