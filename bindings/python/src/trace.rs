//! A trace ready for jobs, as a Python object.

use std::fs::File;
use std::io;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use numpy::PyArray1;
use pantler_policy::Spec;
use pantler_sim::{Footprint, Job, Json, Loaded, RunError, Sizes, WarmUp, Watch, What, load};
use pantler_trace::{Content, Options, Prepared, ReadOptions, Request, TraceError, Unit, Writer};
use pyo3::prelude::*;

use crate::array::Ids;
use crate::interruptible::interruptible;
use crate::mistakes::{of_policy, of_run, of_trace, of_words};

/// A trace in memory, ready for jobs. Several threads may use one.
#[pyclass(frozen, module = "pantler")]
pub struct Trace {
    loaded: Arc<Loaded>,
    /// What sizes are measured against.
    measured: Footprint,
    #[pyo3(get)]
    name: String,
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
        let name = trace.into_os_string().into_string();
        let name = name.map_err(|name| of_words(format!("trace {name:?}: expected a name in UTF-8")))?;
        let read = ReadOptions { format: said(format)?, columns: said(columns)? };
        let options = Options { read, unit: said(unit)?, ..Options::default() };
        let (loaded, note) = interruptible(py, move |_| load(&name, &options))?.map_err(of_trace)?;
        Ok(Self::new(loaded, note))
    }

    /// Makes a trace of an array of ids.
    #[staticmethod]
    #[pyo3(signature = (ids, *, name="array".to_owned()))]
    fn from_array(py: Python<'_>, ids: &Bound<'_, PyAny>, name: String) -> PyResult<Self> {
        let ids = Ids::read(ids)?;
        let prepared = interruptible(py, move |_| match ids {
            Ids::Narrow(ids) => Prepared::from_ids(ids.into_iter().map(u64::from)),
            Ids::Wide(ids) => Prepared::from_ids(ids),
        })?;
        Ok(Self::new(Loaded::new(name, prepared), None))
    }

    /// The reference string in dense ids.
    fn ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let loaded = self.loaded.clone();
        Ok(PyArray1::from_vec(py, interruptible(py, move |_| loaded.trace().requests().to_vec())?))
    }

    /// The runs of policies at sizes, as pairs of both: by policy, then by size.
    fn jobs(&self, policies: Vec<String>, sizes: &str) -> PyResult<Vec<(String, u32)>> {
        let sizes: Sizes = sizes.parse().map_err(of_words)?;
        let sizes = sizes.resolve(self.measured).map_err(of_words)?;
        let mut specs: Vec<Spec> = Vec::new();
        for policy in policies {
            let spec = policy.parse().map_err(of_policy)?;
            // As on the command line: `min` and `opt` are one.
            if !specs.contains(&spec) {
                specs.push(spec);
            }
        }
        Ok(specs.iter().flat_map(|spec| sizes.iter().map(|&size| (spec.to_string(), size))).collect())
    }

    /// Runs policies at sizes, and gives their records as lines, in the same order.
    #[pyo3(signature = (jobs, *, warm_up_count=None, warm_up_share=None, threads=None))]
    fn run(
        &self,
        py: Python<'_>,
        jobs: Vec<(String, NonZeroU32)>,
        warm_up_count: Option<u64>,
        warm_up_share: Option<f64>,
        threads: Option<usize>,
    ) -> PyResult<Vec<String>> {
        let warm_up = match (warm_up_count, warm_up_share) {
            (_, Some(share)) => WarmUp::Share(checked_share(share)?),
            (Some(count), None) => WarmUp::Count(count),
            (None, None) => WarmUp::None,
        };
        let job = |(policy, size): (String, NonZeroU32)| {
            let what = What::Policy(policy.parse().map_err(of_policy)?);
            Ok(Job { what, size: size.get(), warm_up, ahead: None })
        };
        let jobs = jobs.into_iter().map(job).collect::<PyResult<Vec<Job>>>()?;
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
            let written = File::create(&path).and_then(|file| write(loaded.trace(), file));
            written.map_err(|source| TraceError::Io { action: "write", path, source })
        };
        interruptible(py, save)?.map_err(of_trace)
    }

    fn __repr__(&self) -> String {
        let Self { name, requests, footprint, unit, .. } = self;
        format!("<pantler.Trace {name:?}: {requests} references, {footprint} of {unit}>")
    }
}

impl Trace {
    fn new(loaded: Loaded, note: Option<String>) -> Self {
        let (name, trace) = (loaded.name().to_owned(), loaded.trace());
        let (requests, footprint) = (trace.requests().len(), trace.distinct());
        let (unit, measured) = (trace.unit().to_string(), loaded.footprint());
        Self { name, loaded: Arc::new(loaded), measured, requests, footprint, unit, note }
    }
}

/// What a word of the command line says.
fn said<T: FromStr<Err = TraceError>>(word: Option<String>) -> PyResult<Option<T>> {
    word.map(|word| word.parse()).transpose().map_err(of_trace)
}

/// Runs all jobs, or says why the first that failed did.
fn run(loaded: &Loaded, jobs: &[Job], threads: NonZeroUsize, watch: &Watch) -> Result<Vec<String>, RunError> {
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
