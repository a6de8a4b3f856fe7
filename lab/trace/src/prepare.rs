//! From a file of any format to a prepared trace, in one pass.

use std::path::Path;

use crate::formats::Format;
use crate::generate::{GENERATORS, Specification};
use crate::input::Input;
use crate::reader::{ReadOptions, Reader};
use crate::{Block, Prepared, PreparedBuilder, Request, TraceError, Unit};

/// Most blocks of one request. More is taken for a mistake in the trace or in the choice of the
/// block size.
const BLOCKS_OF_REQUEST_MAX: u64 = 1 << 21;
/// References that are always accepted, however few requests they are of.
const REFERENCES_FREE: u64 = 1 << 28;
/// References for each request, past the first [`REFERENCES_FREE`]: a short file cannot take memory
/// without bound.
const REFERENCES_OF_REQUEST_MAX: u64 = 1024;
/// Room made beforehand for what the length of a file promises: longer ones grow as they come.
const RESERVE_MAX: u64 = 1 << 28;

/// How to prepare a trace.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// How to read it.
    pub read: ReadOptions,
    /// What one reference is; the format's own choice where it is not given.
    pub unit: Option<Unit>,
    /// Stop after this number of references.
    pub references_max: Option<u64>,
}

/// What was met on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// As what the file was read.
    pub format: Format,
    /// How it was compressed.
    pub compression: Option<String>,
    /// What one reference is.
    pub unit: Unit,
    /// Requests read; one may be several references.
    pub requests: u64,
    /// What to tell people: a guess that could be wrong.
    pub note: Option<String>,
}

/// Reads and prepares a trace: a file of any format, or a generator's specification such as
/// `zipf:ids=1000,requests=5000`.
///
/// # Errors
///
/// Whatever is wrong with the file, see [`TraceError`]; [`TraceError::Option`] if blocks were asked
/// for where requests are no ranges of bytes.
pub fn prepare(path: &Path, options: &Options) -> Result<(Prepared, Report), TraceError> {
    if let Some(text) = path.to_str()
        && Specification::is_meant(text)
        && !path.exists()
    {
        return generate(text, options);
    }
    if let Some((name, parameters, _)) = GENERATORS.iter().find(|known| path == Path::new(known.0))
        && !path.exists()
    {
        let remedy =
            format!("a file, or that generator with its parameters, {name}:KEY=VALUE,...: {parameters}");
        return Err(TraceError::Option { name: "trace", value: (*name).to_owned(), remedy });
    }
    prepare_reader(Reader::new(Input::open(path)?, &options.read)?, options)
}

/// A generated trace, as if it had been a file.
fn generate(text: &str, options: &Options) -> Result<(Prepared, Report), TraceError> {
    let specification: Specification = text.parse()?;
    if let Some(unit @ Unit::Block(_)) = options.unit {
        let remedy = "object: a generated trace gives keys and no ranges of bytes".to_owned();
        return Err(TraceError::Option { name: "unit", value: unit.to_string(), remedy });
    }
    let trace = specification.prepare_up_to(options.references_max.unwrap_or(u64::MAX))?;
    let requests = trace.requests().len() as u64;
    let (format, unit) = (Format::Generated, Unit::Object);
    let (compression, note) = (None, None);
    Ok((trace, Report { format, compression, unit, requests, note }))
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
    let unit = options.unit.unwrap_or_default();
    if unit != Unit::Object && !reader.has_ranges() {
        return Err(TraceError::Option {
            name: "unit",
            value: unit.to_string(),
            remedy: format!("object: this {} trace gives keys and no ranges of bytes", reader.format()),
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
        if builder.len() as u64 > REFERENCES_FREE.max(requests.saturating_mul(REFERENCES_OF_REQUEST_MAX)) {
            let remedy = "its lines ask for over a thousand blocks each, which no program does: cut it, or choose larger blocks";
            return Err(TraceError::TooLong { bound: builder.len() as u64 - 1, remedy });
        }
        if unit == Unit::Object {
            requests += plain(&mut reader, &mut builder, references_max)?;
        }
        more = (builder.len() as u64) < references_max && reader.fill(&mut batch)?;
    }
    let report = Report {
        format: reader.format(),
        compression: reader.compression().map(str::to_owned),
        unit,
        requests,
        note: reader.note().map(str::to_owned),
    };
    let (owner_names, file_names) = reader.into_names();
    Ok((builder.finish(owner_names, file_names), report))
}

/// Takes all that is left of a trace with plain records; nothing of another. Gives the
/// requests taken.
fn plain(reader: &mut Reader, builder: &mut PreparedBuilder, most: u64) -> Result<u64, TraceError> {
    let (mut keys, mut bytes, mut requests) = (Vec::new(), Vec::new(), 0);
    while (builder.len() as u64) < most && reader.fill_plain(&mut keys, &mut bytes)? {
        requests += keys.len() as u64;
        let taken = keys.len().min(usize::try_from(most - builder.len() as u64).unwrap_or(usize::MAX));
        builder.plain(&keys[..taken], &bytes[..taken])?;
    }
    Ok(requests)
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
