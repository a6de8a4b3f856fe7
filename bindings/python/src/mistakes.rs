//! From errors of Rust to exceptions of Python: each names the value, and what to do about it.

use std::io;

use pantler_policy::{Spec, SpecError};
use pantler_sim::{RunError, nearest};
use pantler_trace::TraceError;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// `OSError` with number and file where the system refused (`FileNotFoundError` and so on), else
/// `ValueError`.
pub fn of_trace(error: TraceError) -> PyErr {
    let TraceError::Io { action, path, source } = error else { return of_words(error) };
    let text = source.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let remedy = match source.kind() {
        io::ErrorKind::NotFound if action != "write" => {
            "; expected a file, or a generator such as zipf:ids=1000,requests=5000"
        }
        io::ErrorKind::NotFound => "; make its folder first",
        _ => "",
    };
    let text = format!("cannot {action}: {text}{remedy}");
    match source.raw_os_error() {
        Some(number) => PyOSError::new_err((number, text, path.into_os_string())),
        None => PyOSError::new_err(format!("{}: {text}", path.display())),
    }
}

/// `ValueError`: what was said makes no sense.
pub fn of_words(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// `ValueError`, with the name that was perhaps meant.
pub fn of_policy(error: SpecError) -> PyErr {
    let SpecError::UnknownPolicy { name, .. } = error else { return of_words(error) };
    let near = nearest(&name, Spec::all().iter().map(|known| known.name));
    let near = near.map_or(":".to_owned(), |near| format!(", did you mean {near:?}?"));
    of_words(format!("unknown policy {name:?}{near} pantler.policies() lists all"))
}

/// `ValueError` for what no steward can do, `RuntimeError` for what was stopped.
pub fn of_run(error: RunError) -> PyErr {
    match error {
        RunError::Stopped(stopped) => PyRuntimeError::new_err(stopped.to_string()),
        error => of_words(error),
    }
}
