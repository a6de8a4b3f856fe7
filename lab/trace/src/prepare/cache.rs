//! Prepared traces kept for the next time.
//!
//! The name of a kept file is a hash of everything that could change it: the trace's path, size and
//! time of change, and the options. The same text is kept in the file and compared, because hashes
//! can collide.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Options, Report};
use crate::store::{Place, trim};
use crate::{Prepared, TraceError, Unit};

/// Bytes of all kept traces together; past them those go that were made longest ago.
const BYTES_MAX: u64 = 16 << 30;

/// What is kept with a trace.
#[derive(Serialize, Deserialize)]
struct About {
    key: String,
    format: String,
    compression: Option<String>,
    unit: String,
    requests: u64,
    skipped: u64,
    first_bad: Option<String>,
    note: Option<String>,
}

/// Where the prepared trace of a file belongs; `None` for what is no ordinary file.
pub fn place(folder: &Path, path: &Path, options: &Options) -> Option<Place> {
    Some(Place::new(folder, key(path, options)?))
}

fn key(path: &Path, options: &Options) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let metadata = path.metadata().ok().filter(fs::Metadata::is_file)?;
    let identity = (metadata.dev(), metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec());
    let read = &options.read;
    let reading = (read.format, &read.columns, read.delimiter, read.skip_bad_lines);
    Some(format!("{path:?} {identity:?} {reading:?} {:?} {:?}", options.unit, options.references_max))
}

/// The trace that is kept at a place. One that cannot be used is as good as none: it is made again.
pub fn find(place: &Place) -> Option<(Prepared, Report)> {
    let (trace, about) = Prepared::load(&place.path).ok()?;
    let kept: About = serde_json::from_str(&about).ok()?;
    (kept.key == place.key).then_some(())?;
    Some((trace, report(&about)?))
}

/// The report of a trace, made when it was prepared; `None` if that cannot be read.
pub fn report(about: &str) -> Option<Report> {
    let kept: About = serde_json::from_str(about).ok()?;
    Some(Report {
        format: kept.format.parse().ok()?,
        compression: kept.compression,
        unit: kept.unit.parse::<Unit>().ok()?,
        requests: kept.requests,
        skipped: kept.skipped,
        first_bad: kept.first_bad,
        note: kept.note,
        cached: true,
    })
}

/// Keeps a trace, unless its file changed while it was read.
pub fn keep(
    place: &Place,
    folder: &Path,
    path: &Path,
    options: &Options,
    trace: &Prepared,
    report: &Report,
) -> Result<(), TraceError> {
    if key(path, options).as_ref() != Some(&place.key) {
        return Ok(());
    }
    // Only for the user: a process that may write there can change what is mapped.
    match fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(source) if source.kind() != ErrorKind::AlreadyExists => {
            return Err(TraceError::Io { action: "create", path: folder.to_owned(), source });
        }
        _ => {}
    }
    let about = About {
        key: place.key.clone(),
        format: report.format.to_string(),
        compression: report.compression.clone(),
        unit: report.unit.to_string(),
        requests: report.requests,
        skipped: report.skipped,
        first_bad: report.first_bad.clone(),
        note: report.note.clone(),
    };
    let about = serde_json::to_string(&about).expect("text and numbers become JSON");
    trace.save(&place.path, &about)?;
    trim(folder, BYTES_MAX);
    Ok(())
}
