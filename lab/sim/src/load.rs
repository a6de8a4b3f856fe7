//! From the words that name a trace to a trace ready for jobs.

use std::path::Path;

use pantler_trace::{Format, Options, ReadOptions, Report, TraceError, prepare};

use crate::job::Source;
use crate::sweep::Loaded;

/// Reads and prepares the trace that `source` names, and reports what was met on the way; nothing
/// of a generator.
///
/// # Errors
///
/// Whatever is wrong with the words or the file, see [`TraceError`].
pub fn load(source: &Source) -> Result<(Loaded, Option<Report>), TraceError> {
    let options = Options {
        read: ReadOptions {
            format: source.format.as_deref().map(str::parse).transpose()?,
            columns: source.columns.as_deref().map(str::parse).transpose()?,
            skip_bad_lines: source.skip_bad_lines,
        },
        unit: source.unit.as_deref().map(str::parse).transpose()?,
        ..Options::default()
    };
    let (trace, report) = prepare(Path::new(&source.trace), &options)?;
    let is_file = report.format != Format::Generated;
    Ok((Loaded::new(trace, report.skipped), is_file.then_some(report)))
}
