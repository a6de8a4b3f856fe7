//! Writes recorded traces: our binary form, JSON lines, or CSV.

use std::io::{self, BufWriter, Write};
use std::str::FromStr;

use crate::formats::{recorded, recorded_json};
use crate::{Reader, Request, TraceError, Unit};

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

/// What requests of a trace are, and what a reference is by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// Ranges of bytes, counted in blocks.
    Ranges,
    /// Objects by number, without offsets.
    Keys,
    /// Ranges of bytes, counted as the objects that they are, too.
    KeyedRanges,
}

impl Content {
    /// That of a reader, once its first batch was read.
    pub fn of(reader: &Reader) -> Content {
        match (reader.has_ranges(), reader.default_unit()) {
            (false, _) => Content::Keys,
            (true, Unit::Object) => Content::KeyedRanges,
            (true, Unit::Block(_)) => Content::Ranges,
        }
    }
}

/// A trace being written.
///
/// ```
/// use pantler_trace::{Content, ReadOptions, Reader, Request, WriteFormat, Writer};
///
/// let mut bytes = Vec::new();
/// let mut writer = Writer::new(&mut bytes, WriteFormat::Recorded, Content::Ranges).unwrap();
/// let request = Request { offset: 8192, object: 8192, objects: 1, length: 4096, ..Request::default() };
/// writer.write(&request, &["cscope".to_owned()], &["/src/cscope.out".to_owned()]).unwrap();
/// writer.finish().unwrap();
///
/// let mut reader = Reader::from_read("memory", std::io::Cursor::new(bytes), &ReadOptions::default()).unwrap();
/// let mut batch = Vec::new();
/// assert!(reader.fill(&mut batch).unwrap());
/// assert_eq!((batch, reader.owner_names()), (vec![request], &["cscope".to_owned()][..]));
/// ```
pub struct Writer<W: Write> {
    form: Form<W>,
    content: Content,
}

enum Form<W: Write> {
    Recorded(recorded::Encoder<BufWriter<W>>),
    Json(BufWriter<W>),
    /// And whether owners and files have columns, which the first request tells.
    Csv(BufWriter<W>, Option<[bool; 2]>),
}

impl<W: Write> Writer<W> {
    /// Starts a trace.
    ///
    /// # Errors
    ///
    /// Whatever `out` says.
    pub fn new(out: W, format: WriteFormat, content: Content) -> io::Result<Writer<W>> {
        let out = BufWriter::new(out);
        let form = match format {
            WriteFormat::Recorded => Form::Recorded(recorded::Encoder::new(out, content)?),
            WriteFormat::RecordedJson => Form::Json(out),
            WriteFormat::Csv => Form::Csv(out, None),
        };
        Ok(Writer { form, content })
    }

    /// Writes one request. The names are those of all owners and files so far, by number; they only
    /// ever grow. Without offsets, requests of several objects in a row become one each.
    ///
    /// # Errors
    ///
    /// Whatever the output says; [`InvalidInput`](io::ErrorKind::InvalidInput) when owners or files
    /// turn up in the middle of a CSV that began without.
    pub fn write(&mut self, request: &Request, owners: &[String], files: &[String]) -> io::Result<()> {
        if self.content != Content::Keys || request.objects <= 1 {
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
        match &mut self.form {
            Form::Recorded(encoder) => encoder.write(request, owners, files),
            Form::Json(out) => recorded_json::write(out, request, owner, file, self.content),
            Form::Csv(out, named) => {
                let has = [owner.is_some(), file.is_some()];
                if named.is_none() {
                    header(out, has, self.content)?;
                }
                if *named.get_or_insert(has) != has {
                    let text = "owners or files begin in the middle of the trace, which CSV has no place for: \
                                write recorded or recorded-json";
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
                }
                row(out, request, [owner, file], self.content)
            }
        }
    }

    /// Writes what is left, and the end. Without it a recorded trace counts as cut.
    ///
    /// # Errors
    ///
    /// Whatever the output says.
    pub fn finish(self) -> io::Result<()> {
        match self.form {
            Form::Recorded(encoder) => encoder.finish().map(drop),
            Form::Json(mut out) => out.flush(),
            Form::Csv(mut out, named) => {
                if named.is_none() {
                    header(&mut out, [false; 2], self.content)?;
                }
                out.flush()
            }
        }
    }
}

/// The first line of a CSV.
fn header(out: &mut impl Write, [owners, files]: [bool; 2], content: Content) -> io::Result<()> {
    let place = match content {
        Content::Ranges => "offset",
        Content::Keys => "block",
        Content::KeyedRanges => "block,objects,offset",
    };
    let (owner, file) = (if owners { "owner," } else { "" }, if files { "file," } else { "" });
    writeln!(out, "{owner}{file}{place},length,op,time_ns")
}

/// A further line of it. A time that is not known is 0.
fn row(
    out: &mut impl Write,
    request: &Request,
    names: [Option<&str>; 2],
    content: Content,
) -> io::Result<()> {
    for name in names.into_iter().flatten() {
        quoted(out, name)?;
        out.write_all(b",")?;
    }
    let Request { object, objects, offset, .. } = request;
    match content {
        Content::Ranges => write!(out, "{offset}")?,
        Content::Keys => write!(out, "{object}")?,
        Content::KeyedRanges => write!(out, "{object},{objects},{offset}")?,
    }
    let operation = if request.write { "w" } else { "r" };
    writeln!(out, ",{},{operation},{}", request.length, request.time_ns.unwrap_or(0))
}

/// A field of a CSV. A line break ends a line for our reader even between quotes, so it becomes a
/// space.
fn quoted(out: &mut impl Write, field: &str) -> io::Result<()> {
    if !field.contains(['"', ',', '\n', '\r']) && field.trim() == field {
        return out.write_all(field.as_bytes());
    }
    let field = field.replace(['\n', '\r'], " ").replace('"', "\"\"");
    write!(out, "\"{field}\"")
}
