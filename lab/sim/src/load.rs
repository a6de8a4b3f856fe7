//! From the words that name a trace to a trace ready for jobs.

use std::path::Path;

use pantler_trace::{Options, ReadOptions, TraceError, prepare};

use crate::job::Source;
use crate::sweep::Loaded;

/// Reads and prepares the trace that `source` names, with what is to be told about it.
///
/// # Errors
///
/// Whatever is wrong with the words or the file, see [`TraceError`].
pub fn load(source: &Source) -> Result<(Loaded, Option<String>), TraceError> {
    let options = Options {
        read: ReadOptions {
            format: source.format.as_deref().map(str::parse).transpose()?,
            columns: source.columns.as_deref().map(str::parse).transpose()?,
        },
        unit: source.unit.as_deref().map(str::parse).transpose()?,
        ..Options::default()
    };
    let (trace, report) = prepare(Path::new(&source.trace), &options)?;
    Ok((Loaded::new(trace), report.note))
}
