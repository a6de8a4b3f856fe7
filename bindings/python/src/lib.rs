//! The part of the Python package `pantler` that is Rust: a trace ready for jobs, running them, and
//! [`hints`] of a program.
//!
//! ```text
//!   pantler.sweep, run, jobs, simulate   Python: which jobs run where, again if a worker was lost
//!         |             |
//!       Trace.jobs   Trace.run           here: policies and sizes in, lines of JSON out
//! ```
//!
//! A result is the very line that `pantler sim --json` prints, so it does not matter where a job
//! runs. Nothing here holds Python's lock while it reads, prepares or simulates.

use pyo3::prelude::*;

mod array;
mod hints;
mod interruptible;
mod mistakes;
mod trace;

/// Module `pantler._core`.
#[pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::hints::Hints;

    #[pymodule_export]
    use crate::trace::Trace;

    #[pymodule_export]
    use super::{generators, policies};

    /// Adds the version.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

/// Name, meaning, range, default.
type Parameter = (&'static str, String, String, String);

/// All policies by name: one line about each, and its parameters.
#[pyfunction]
fn policies() -> Vec<(&'static str, String, Vec<Parameter>)> {
    let all = pantler_policy::Spec::all().into_iter();
    all.map(|known| {
        let keys = known.keys.iter().map(|key| {
            let meaning = key.meaning.trim().trim_end_matches('.').to_owned();
            (key.key, meaning, key.range.to_string(), key.default.to_string())
        });
        (known.name, known.summary.to_string(), keys.collect())
    })
    .collect()
}

/// All generators as (name, parameters, meaning).
#[pyfunction]
fn generators() -> Vec<(&'static str, &'static str, &'static str)> {
    pantler_trace::generate::GENERATORS.to_vec()
}
