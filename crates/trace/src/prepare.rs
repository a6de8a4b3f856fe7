//! From a file of any format to a prepared trace, in one pass.

use std::path::Path;

use crate::formats::Format;
use crate::reader::{ReadOptions, Reader};
use crate::{Block, Prepared, PreparedBuilder, Request, TraceError, Unit};

/// Most blocks of one request. More is taken for a mistake in the trace or in the choice of the block size.
const BLOCKS_OF_REQUEST_MAX: u64 = 1 << 21;
/// Room made beforehand for what the length of a file promises: longer ones grow as they come.
const RESERVE_MAX: u64 = 1 << 28;

/// How to prepare a trace.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How to read it.
    pub read: ReadOptions,
    /// What one reference is; the format's own choice where it is not given.
    pub unit: Option<Unit>,
    /// Stop after so many references.
    pub references_max: Option<u64>,
}

/// What was met on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// As what the file was read.
    pub format: Format,
    /// How it was compressed.
    pub compression: Option<&'static str>,
    /// What one reference is.
    pub unit: Unit,
    /// Requests read; one may be several references.
    pub requests: u64,
    /// Lines and records left out because they make no sense.
    pub skipped: u64,
    /// What was wrong with the first of them.
    pub first_bad: Option<String>,
    /// What to tell people about a guess that could be wrong.
    pub note: Option<String>,
}

/// Reads and prepares a trace.
///
/// # Errors
///
/// Whatever is wrong with the file, see [`TraceError`]; [`TraceError::Option`] if blocks were asked for where requests
/// are no ranges of bytes.
pub fn prepare(path: &Path, options: &Options) -> Result<(Prepared, Report), TraceError> {
    prepare_reader(Reader::open(path, &options.read)?, options)
}

/// Prepares what a reader gives.
///
/// # Errors
///
/// As for [`prepare`].
pub fn prepare_reader(mut reader: Reader, options: &Options) -> Result<(Prepared, Report), TraceError> {
    let references_max = options.references_max.unwrap_or(u64::MAX);
    let (mut batch, mut requests) = (Vec::new(), 0);
    // The first requests say whether there are ranges of bytes at all.
    let mut more = reader.fill(&mut batch)?;
    let unit = options.unit.unwrap_or(reader.default_unit());
    if unit != Unit::Object && !reader.has_ranges() {
        return Err(TraceError::Option {
            name: "unit",
            value: unit.to_string(),
            remedy: format!("object: this {} trace gives no offsets in bytes", reader.format()),
        });
    }
    let mut builder = PreparedBuilder::new(unit);
    if let Some(expected) = reader.requests_expected()
        && unit == Unit::Object
    {
        builder.reserve(expected.min(references_max).min(RESERVE_MAX) as usize);
    }
    while more {
        requests += batch.len() as u64;
        match unit {
            Unit::Object => objects(&mut builder, &batch, references_max)?,
            Unit::Block(bytes) => blocks(&mut builder, &batch, bytes, references_max)?,
        }
        more = (builder.len() as u64) < references_max && reader.fill(&mut batch)?;
    }
    let report = Report {
        format: reader.format(),
        compression: reader.compression(),
        unit,
        requests,
        skipped: reader.skipped(),
        first_bad: reader.first_bad().map(ToString::to_string),
        note: reader.note().map(str::to_owned),
    };
    let (owner_names, file_names) = reader.into_names();
    Ok((builder.finish(owner_names, file_names), report))
}

/// Requests looked at together.
const PLAIN_BATCH: usize = 512;

fn objects(builder: &mut PreparedBuilder, batch: &[Request], most: u64) -> Result<(), TraceError> {
    let plain = |request: &Request| request.owner == 0 && request.file == 0 && request.objects == 1;
    for part in batch.chunks(PLAIN_BATCH) {
        if part.iter().all(plain) && part.len() as u64 <= most - builder.len() as u64 {
            let (mut keys, mut bytes) = ([0; PLAIN_BATCH], [0; PLAIN_BATCH]);
            for (request, (key, bytes)) in part.iter().zip(keys.iter_mut().zip(&mut bytes)) {
                (*key, *bytes) = (request.object, request.length);
            }
            builder.plain(&keys[..part.len()], &bytes[..part.len()])?;
        } else {
            each_object(builder, part, most)?;
        }
    }
    Ok(())
}

fn each_object(builder: &mut PreparedBuilder, batch: &[Request], most: u64) -> Result<(), TraceError> {
    for request in batch {
        let bytes = request.length / request.objects.max(1);
        for index in request.object..request.object.saturating_add(request.objects.into()) {
            if builder.len() as u64 >= most {
                return Ok(());
            }
            builder.reference(request.owner, Block { file: request.file, index }, bytes)?;
        }
    }
    Ok(())
}

fn blocks(builder: &mut PreparedBuilder, batch: &[Request], bytes: u32, most: u64) -> Result<(), TraceError> {
    let shift = bytes.trailing_zeros();
    for request in batch {
        let first = request.offset >> shift;
        let last = request.offset.saturating_add(u64::from(request.length.max(1)) - 1) >> shift;
        if last - first >= BLOCKS_OF_REQUEST_MAX {
            return Err(TraceError::Option {
                name: "unit",
                value: Unit::Block(bytes).to_string(),
                remedy: format!("larger blocks: a request of {} bytes is too many of them", request.length),
            });
        }
        for index in first..=last {
            if builder.len() as u64 >= most {
                return Ok(());
            }
            builder.reference(request.owner, Block { file: request.file, index }, bytes)?;
        }
    }
    Ok(())
}
