//! Reads a trace of any format, request by request.
//!
//! ```no_run
//! use pantler_trace::{ReadOptions, Reader};
//!
//! let mut reader = Reader::open("OLTP.lis.zst".as_ref(), &ReadOptions::default())?;
//! let mut batch = Vec::new();
//! while reader.fill(&mut batch)? {
//!     for request in &batch {
//!         println!("{}", request.object);
//!     }
//! }
//! # Ok::<(), pantler_trace::TraceError>(())
//! ```

use std::path::Path;

use crate::error::{Bad, Position};
use crate::formats::csv::{Columns, Csv};
use crate::formats::{Format, Lines, Records};
use crate::formats::{arc, hash_ids, keys, lirs, msr, oracle_general, text, vscsi};
use crate::guess::{self, Guess};
use crate::input::{Input, LINE_BYTES_MAX, SAMPLE_BYTES};
use crate::names::Names;
use crate::{Request, TraceError};

/// Records parsed at once: their requests fit the first-level cache.
const BATCH_RECORDS: usize = 512;
/// Plain records parsed at once: their keys and bytes fit there, too.
const PLAIN_RECORDS: usize = 1024;

/// How to read a trace.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// The format; guessed from the content where it is not given.
    pub format: Option<Format>,
    /// Which column of a CSV means what; from its first line where it is not given.
    pub columns: Option<Columns>,
}

/// A trace being read.
pub struct Reader {
    input: Input,
    guess: Guess,
    parser: Parser,
    names: Names,
    /// Lines so far.
    line: u64,
    /// Requests so far.
    requests: u64,
    ended: bool,
}

enum Parser {
    Lines(Box<dyn Lines>),
    Records(Box<dyn Records>),
}

impl Reader {
    /// Opens a file; `-` is standard input.
    ///
    /// # Errors
    ///
    /// Whatever is wrong with the file or its first bytes.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Reader, TraceError> {
        Reader::new(Input::open(path)?, options)
    }

    /// Reads a trace from memory or a stream; `name` is what messages call it.
    ///
    /// # Errors
    ///
    /// As for [`open`](Reader::open).
    pub fn from_read(
        name: &str,
        source: impl std::io::Read + Send + 'static,
        options: &ReadOptions,
    ) -> Result<Reader, TraceError> {
        Reader::new(Input::from_read(Path::new(name), source, None)?, options)
    }

    pub(crate) fn new(mut input: Input, options: &ReadOptions) -> Result<Reader, TraceError> {
        let guess = match (options.format, &options.columns) {
            (Some(format), _) => Guess { format, note: None },
            (None, Some(_)) => Guess { format: Format::Csv, note: None },
            (None, None) => guess::guess(&mut input)?,
        };
        if options.format.is_some() || options.columns.is_some() {
            guess::check(&mut input, guess.format)?;
        }
        let parser = parser(&mut input, guess.format, options)?;
        Ok(Reader { input, guess, parser, names: Names::default(), line: 0, requests: 0, ended: false })
    }

    /// The format, as given or guessed.
    pub fn format(&self) -> Format {
        self.guess.format
    }

    /// What to tell people about the guess, where it could be wrong.
    pub fn note(&self) -> Option<&str> {
        self.guess.note.as_deref()
    }

    /// How the file is compressed.
    pub fn compression(&self) -> Option<&'static str> {
        self.input.compression().map(<&str>::from)
    }

    /// Whether requests are ranges of bytes. Known once the first batch was read.
    pub fn has_ranges(&self) -> bool {
        match &self.parser {
            Parser::Lines(parser) => parser.has_ranges() && self.format().has_ranges(),
            Parser::Records(_) => self.format().has_ranges(),
        }
    }

    /// Requests in the file, where its length tells.
    pub fn requests_expected(&self) -> Option<u64> {
        match &self.parser {
            Parser::Lines(_) => None,
            Parser::Records(parser) => Some(self.input.content_bytes()? / parser.width() as u64),
        }
    }

    /// Names of owners so far, by number.
    pub fn owner_names(&self) -> &[String] {
        self.names.owners()
    }

    /// Names of files so far, by number.
    pub fn file_names(&self) -> &[String] {
        self.names.files()
    }

    /// Both lists, owners first.
    pub fn into_names(self) -> (Vec<String>, Vec<String>) {
        self.names.into_lists()
    }

    /// Replaces what is in `batch` by the next requests; false at the end.
    ///
    /// # Errors
    ///
    /// What is wrong with the next line or record; whatever ends the
    /// file too early; and at the end, that there was no request at all.
    pub fn fill(&mut self, batch: &mut Vec<Request>) -> Result<bool, TraceError> {
        batch.clear();
        while batch.is_empty() && !self.ended {
            match &mut self.parser {
                Parser::Lines(_) => self.lines(batch)?,
                Parser::Records(_) => self.records(batch)?,
            }
        }
        self.requests += batch.len() as u64;
        if self.ended {
            self.finish()?;
        }
        Ok(!batch.is_empty())
    }

    /// As [`fill`](Reader::fill), of keys and bytes alone: for formats with such records only. Of
    /// others nothing is taken.
    pub(crate) fn fill_plain(
        &mut self,
        keys: &mut Vec<u64>,
        bytes: &mut Vec<u32>,
    ) -> Result<bool, TraceError> {
        keys.clear();
        bytes.clear();
        let Parser::Records(parser) = &mut self.parser else { return Ok(false) };
        if !parser.plain(&[], keys, bytes) {
            return Ok(false);
        }
        let width = parser.width();
        let start = self.input.offset();
        let chunk = if self.ended { &[][..] } else { self.input.records(width, PLAIN_RECORDS)? };
        if chunk.is_empty() {
            self.ended = true;
        } else if chunk.len() < width {
            let bad = cut(chunk);
            return Err(self.bad(Position::Byte(start), bad));
        } else {
            parser.plain(chunk, keys, bytes);
        }
        self.requests += keys.len() as u64;
        if self.ended {
            self.finish()?;
        }
        Ok(!self.ended)
    }

    /// Parses lines until there are enough requests.
    fn lines(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        let Parser::Lines(parser) = &mut self.parser else { unreachable!("asked for lines") };
        while batch.len() < BATCH_RECORDS {
            let Some(line) = self.input.line()? else {
                self.ended = true;
                break;
            };
            let line = if self.line == 0 { text::without_mark(line) } else { line };
            self.line += 1;
            // Programs for DOS end files, not lines, with a mark.
            let last = line.trim_ascii() != b"\x1a";
            let result = if line.len() >= LINE_BYTES_MAX {
                Err(Bad::new(line, "a line of less than a mebibyte"))
            } else {
                parser.line(line, &mut self.names, batch)
            };
            if let Err(bad) = result {
                return Err(self.bad(Position::Line(self.line), bad));
            }
            if last && self.input.is_unended() && self.guess.format.hides_cuts() {
                let text = format!("line {}, the last one, has no end: it may be cut", self.line);
                let note = &mut self.guess.note;
                *note = Some(note.take().map_or(text.clone(), |note| format!("{note}; {text}")));
            }
        }
        Ok(())
    }

    /// Parses one chunk of records.
    fn records(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        let Parser::Records(parser) = &mut self.parser else { unreachable!("asked for records") };
        let width = parser.width();
        let start = self.input.offset();
        let chunk = self.input.records(width, BATCH_RECORDS)?;
        if chunk.is_empty() {
            self.ended = true;
            return Ok(());
        }
        if chunk.len() < width {
            let bad = cut(chunk);
            return Err(self.bad(Position::Byte(start), bad));
        }
        let parsed = parser.records(chunk, &mut self.names, batch);
        parsed.map_err(|(at, bad)| self.bad(Position::Byte(start + (at * width) as u64), bad))
    }

    /// Ends with a bad line or record.
    fn bad(&mut self, place: Position, bad: Bad) -> TraceError {
        self.ended = true;
        TraceError::Bad { path: self.input.path().to_owned(), place, bad }
    }

    fn finish(&self) -> Result<(), TraceError> {
        if self.requests > 0 {
            return Ok(());
        }
        Err(TraceError::Empty { path: self.input.path().to_owned(), format: self.format().as_str() })
    }
}

/// What is left where a record should begin.
fn cut(rest: &[u8]) -> Bad {
    Bad::number(format_args!("{} bytes", rest.len()), "a whole record; the file is cut")
}

/// The parser of a format. Formats with headers and versions look at the first bytes.
fn parser(input: &mut Input, format: Format, options: &ReadOptions) -> Result<Parser, TraceError> {
    let lines = |parser: Box<dyn Lines>| Ok(Parser::Lines(parser));
    let records = |parser: Box<dyn Records>| Ok(Parser::Records(parser));
    match format {
        Format::Lirs => lines(Box::new(lirs::Lirs)),
        Format::Arc => lines(Box::new(arc::Arc)),
        Format::Csv => lines(Box::new(Csv::new(options.columns.clone()))),
        Format::Msr => lines(Box::<msr::Msr>::default()),
        Format::HashIds => lines(Box::new(hash_ids::HashIds)),
        Format::OracleGeneral => records(Box::new(oracle_general::OracleGeneral)),
        Format::Vscsi => {
            let sample = input.peek(SAMPLE_BYTES)?;
            records(Box::new(vscsi::Vscsi::of(sample)))
        }
        Format::Keys32 => records(Box::new(keys::Keys)),
        Format::Generated => Err(TraceError::Option {
            name: "format",
            value: format.to_string(),
            remedy: "nothing: such a trace is known without".to_owned(),
        }),
    }
}
