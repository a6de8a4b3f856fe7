//! Writes traces as CSV.

use std::io::{self, BufWriter, Write};

use crate::{Reader, Request};

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
        if reader.has_ranges() { Content::KeyedRanges } else { Content::Keys }
    }
}

/// A trace being written: a CSV with a first line that names its columns.
///
/// ```
/// use pantler_trace::{Content, ReadOptions, Reader, Request, Writer};
///
/// let mut bytes = Vec::new();
/// let mut writer = Writer::new(&mut bytes, Content::Ranges);
/// let request =
///     Request { offset: 8192, object: 8192, objects: 1, length: 4096, ..Request::default() };
/// writer.write(&request, &["cscope".to_owned()], &["/src/cscope.out".to_owned()]).unwrap();
/// writer.finish().unwrap();
///
/// let bytes = std::io::Cursor::new(bytes);
/// let mut reader = Reader::from_read("memory", bytes, &ReadOptions::default()).unwrap();
/// let mut batch = Vec::new();
/// assert!(reader.fill(&mut batch).unwrap());
/// assert_eq!((batch[0].offset, reader.owner_names()), (8192, &["cscope".to_owned()][..]));
/// ```
pub struct Writer<W: Write> {
    out: BufWriter<W>,
    content: Content,
    /// Whether owners and files have columns, which the first request tells.
    named: Option<[bool; 2]>,
}

impl<W: Write> Writer<W> {
    /// Starts a trace.
    pub fn new(out: W, content: Content) -> Writer<W> {
        Writer { out: BufWriter::new(out), content, named: None }
    }

    /// Writes one request. The names are those of all owners and files so far, by number; they only
    /// ever grow. Without offsets, requests of several objects in a row become one each.
    ///
    /// # Errors
    ///
    /// Whatever the output says; [`InvalidInput`](io::ErrorKind::InvalidInput) when owners or files
    /// turn up in the middle of a trace that began without.
    pub fn write(&mut self, request: &Request, owners: &[String], files: &[String]) -> io::Result<()> {
        let owner = owners.get(request.owner as usize).map(String::as_str);
        let file = files.get(request.file as usize).map(String::as_str);
        let has = [owner.is_some(), file.is_some()];
        if self.named.is_none() {
            header(&mut self.out, has, self.content)?;
        }
        if *self.named.get_or_insert(has) != has {
            let text = "owners or files begin in the middle of the trace, which CSV has no place for";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        if self.content != Content::Keys || request.objects <= 1 {
            return row(&mut self.out, request, [owner, file], self.content);
        }
        let length = request.length / request.objects;
        for object in request.object..request.object.saturating_add(request.objects.into()) {
            let request = Request { object, objects: 1, length, ..*request };
            row(&mut self.out, &request, [owner, file], self.content)?;
        }
        Ok(())
    }

    /// Writes what is left.
    ///
    /// # Errors
    ///
    /// Whatever the output says.
    pub fn finish(mut self) -> io::Result<()> {
        if self.named.is_none() {
            header(&mut self.out, [false; 2], self.content)?;
        }
        self.out.flush()
    }
}

/// The first line.
fn header(out: &mut impl Write, [owners, files]: [bool; 2], content: Content) -> io::Result<()> {
    let place = match content {
        Content::Ranges => "offset",
        Content::Keys => "block",
        Content::KeyedRanges => "block,objects,offset",
    };
    let (owner, file) = (if owners { "owner," } else { "" }, if files { "file," } else { "" });
    writeln!(out, "{owner}{file}{place},length,op")
}

/// A further line.
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
    writeln!(out, ",{},{operation}", request.length)
}

/// A field. A line break ends a line for our reader even between quotes, so it becomes a
/// space.
fn quoted(out: &mut impl Write, field: &str) -> io::Result<()> {
    if !field.contains(['"', ',', '\n', '\r']) && field.trim() == field {
        return out.write_all(field.as_bytes());
    }
    let field = field.replace(['\n', '\r'], " ").replace('"', "\"\"");
    write!(out, "\"{field}\"")
}
