//! Writes recorded traces: our binary form, JSON lines, or CSV.

use std::io::{self, BufWriter, Write};
use std::str::FromStr;

use crate::formats::{recorded, recorded_json};
use crate::{Request, TraceError};

/// In which form a trace is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteFormat {
    /// Our binary form; see `docs/FORMAT.md`.
    Recorded,
    /// The same as JSON lines.
    RecordedJson,
    /// Columns with names in the first line.
    Csv,
}

impl FromStr for WriteFormat {
    type Err = TraceError;

    fn from_str(name: &str) -> Result<Self, TraceError> {
        match name {
            "recorded" => Ok(WriteFormat::Recorded),
            "recorded-json" => Ok(WriteFormat::RecordedJson),
            "csv" => Ok(WriteFormat::Csv),
            _ => {
                let remedy = "recorded, recorded-json or csv".to_owned();
                Err(TraceError::Option { name: "output format", value: name.to_owned(), remedy })
            }
        }
    }
}

/// A trace being written.
///
/// ```
/// use pantler_trace::{ReadOptions, Reader, Request, WriteFormat, Writer};
///
/// let mut bytes = Vec::new();
/// let mut writer = Writer::new(&mut bytes, WriteFormat::Recorded, false).unwrap();
/// let request = Request { offset: 8192, object: 8192, objects: 1, length: 4096, ..Request::default() };
/// writer.write(&request, &["cscope".to_owned()], &["/src/cscope.out".to_owned()]).unwrap();
/// writer.finish().unwrap();
///
/// let mut reader = Reader::from_read("memory", std::io::Cursor::new(bytes), &ReadOptions::default()).unwrap();
/// let mut batch = Vec::new();
/// assert!(reader.fill(&mut batch).unwrap());
/// assert_eq!((batch, reader.owner_names()), (vec![request], &["cscope".to_owned()][..]));
/// ```
pub struct Writer<W: Write>(Form<W>);

enum Form<W: Write> {
    Recorded(recorded::Encoder<BufWriter<W>>),
    Json(BufWriter<W>, bool),
    Csv(BufWriter<W>, bool),
}

impl<W: Write> Writer<W> {
    /// Starts a trace; with `keys` requests are objects by number, without offsets.
    ///
    /// # Errors
    ///
    /// Whatever `out` says.
    pub fn new(out: W, format: WriteFormat, keys: bool) -> io::Result<Writer<W>> {
        let mut out = BufWriter::new(out);
        Ok(Writer(match format {
            WriteFormat::Recorded => Form::Recorded(recorded::Encoder::new(out, keys)?),
            WriteFormat::RecordedJson => Form::Json(out, keys),
            WriteFormat::Csv => {
                let place = if keys { "block" } else { "offset" };
                writeln!(out, "owner,file,{place},length,op,time_ns")?;
                Form::Csv(out, keys)
            }
        }))
    }

    /// Writes one request. The names are those of all owners and files so far, by number; they only ever grow.
    /// Requests of several objects in a row become one each.
    ///
    /// # Errors
    ///
    /// Whatever the output says.
    pub fn write(&mut self, request: &Request, owners: &[String], files: &[String]) -> io::Result<()> {
        let keys = match &self.0 {
            Form::Recorded(encoder) => encoder.has_keys(),
            Form::Json(_, keys) | Form::Csv(_, keys) => *keys,
        };
        if !keys || request.objects <= 1 {
            return self.one(request, owners, files);
        }
        let length = request.length / request.objects;
        for object in request.object..request.object.saturating_add(request.objects.into()) {
            self.one(&Request { object, objects: 1, length, ..*request }, owners, files)?;
        }
        Ok(())
    }

    fn one(&mut self, request: &Request, owners: &[String], files: &[String]) -> io::Result<()> {
        let owner = owners.get(request.owner as usize).map(String::as_str);
        let file = files.get(request.file as usize).map(String::as_str);
        match &mut self.0 {
            Form::Recorded(encoder) => encoder.write(request, owners, files),
            Form::Json(out, keys) => recorded_json::write(out, request, owner, file, *keys),
            Form::Csv(out, keys) => {
                let place = if *keys { request.object } else { request.offset };
                let operation = if request.write { "w" } else { "r" };
                quoted(out, owner.unwrap_or_default())?;
                out.write_all(b",")?;
                quoted(out, file.unwrap_or_default())?;
                let time = request.time_ns.unwrap_or(0);
                writeln!(out, ",{place},{},{operation},{time}", request.length)
            }
        }
    }

    /// Writes what is left, and the end. Without it a recorded trace counts as cut.
    ///
    /// # Errors
    ///
    /// Whatever the output says.
    pub fn finish(self) -> io::Result<()> {
        match self.0 {
            Form::Recorded(encoder) => encoder.finish().map(drop),
            Form::Json(mut out, _) | Form::Csv(mut out, _) => out.flush(),
        }
    }
}

/// A field of a CSV. A line break ends a line for our reader even between quotes, so it becomes a space.
fn quoted(out: &mut impl Write, field: &str) -> io::Result<()> {
    if !field.contains(['"', ',', '\n', '\r']) && field.trim() == field {
        return out.write_all(field.as_bytes());
    }
    let field = field.replace(['\n', '\r'], " ").replace('"', "\"\"");
    write!(out, "\"{field}\"")
}
