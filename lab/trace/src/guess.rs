//! Tells a format from the content of a file, never from its name.
//!
//! Text is given to the parser of every text format, and the one that understands most lines wins;
//! binary formats are told by magic numbers and by what their fields must obey. Where the evidence
//! is thin the guess says so.
//!
//! Why so: docs/decisions/0052-a-named-format-is-doubted.md.

use std::path::PathBuf;

use crate::TraceError;
use crate::error::Bad;
use crate::formats::csv::Csv;
use crate::formats::text::without_mark;
use crate::formats::{Format, Lines, arc, hash_ids, keys, lirs, msr, oracle_general, vscsi};
use crate::input::{Input, SAMPLE_BYTES};
use crate::names::Names;

/// Lines that parsers are tried on.
const LINES_TRIED: usize = 200;

/// A format, and how sure that is.
#[derive(Debug, Clone)]
pub struct Guess {
    /// The format.
    pub format: Format,
    /// What to tell people where it could be another.
    pub note: Option<String>,
}

impl Guess {
    fn sure(format: Format) -> Guess {
        Guess { format, note: None }
    }

    fn thin(format: Format, why: &str) -> Guess {
        Guess { format, note: Some(format!("taken as {format}, because {why}; --format names another")) }
    }
}

/// Looks at the first bytes, without taking them.
pub fn guess(input: &mut Input) -> Result<Guess, TraceError> {
    let path = input.path().to_owned();
    let sample = input.peek(SAMPLE_BYTES)?;
    let names: Vec<&str> = Format::all().map(Format::as_str).collect();
    let unknown = |problem: &str| TraceError::Unknown {
        path: path.clone(),
        problem: problem.to_owned(),
        remedy: format!("--format names one of {}", names.join(", ")),
    };
    if sample.is_empty() {
        return Err(empty(path));
    }
    if is_text(sample) {
        return text(sample).ok_or_else(|| unknown("text of no known trace format"));
    }
    binary(sample).ok_or_else(|| unknown("binary data of no known trace format"))
}

fn empty(path: PathBuf) -> TraceError {
    let (problem, remedy) = ("the file is empty".to_owned(), "a trace has at least one request".to_owned());
    TraceError::Unknown { path, problem, remedy }
}

/// Records that are looked at, at least, before a named binary format is doubted.
const RECORDS_DOUBTED: usize = 8;

/// Whether the first bytes can be what was named. Where they are plainly something else, no line
/// and no record of it would mean anything, and a binary format would take it all the same.
pub fn check(input: &mut Input, format: Format) -> Result<(), TraceError> {
    let path = input.path().to_owned();
    let sample = input.peek(SAMPLE_BYTES)?;
    if sample.is_empty() {
        return Err(empty(path));
    }
    let (found, guess) = match (format.is_binary(), is_text(sample)) {
        (true, true) => {
            let guess = text(sample);
            if guess.is_none() && !is_prose(sample) {
                return Ok(());
            }
            ("text", guess)
        }
        (false, false) if text(sample).is_none() => ("binary data", binary(sample)),
        (true, false) if is_never(format, sample) => match binary(sample) {
            Some(guess) if guess.format != format && guess.note.is_none() => ("binary data", Some(guess)),
            _ => return Ok(()),
        },
        _ => return Ok(()),
    };
    let line = sample.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let (found, remedy) = match guess {
        Some(Guess { format: other, .. }) => {
            (format!("{found}, as {other}"), format!("leave --format out, or name {other}"))
        }
        None => {
            let same = Format::all().filter(|other| other.is_binary() != format.is_binary());
            let names: Vec<&str> = same.map(Format::as_str).collect();
            (
                format!("{found} of no known trace format"),
                format!("--format names one of {}", names.join(", ")),
            )
        }
    };
    let (value, format) = (Bad::new(line, "").value, format.as_str());
    Err(TraceError::Mismatch { path, value, format, found, remedy })
}

/// Whether most of these records look wrong, in formats with records that can.
fn is_never(format: Format, sample: &[u8]) -> bool {
    let (plausible, width) = match format {
        Format::Vscsi => {
            let scsi = vscsi::Vscsi::of(sample);
            (scsi.plausible(sample), crate::formats::Records::width(&scsi))
        }
        Format::OracleGeneral => (oracle_general::plausible(sample), oracle_general::WIDTH),
        Format::Keys32 => (keys::plausible(sample), keys::WIDTH),
        _ => return false,
    };
    let records = sample.len() / width;
    records >= RECORDS_DOUBTED && plausible * 2 < records
}

/// Text beyond doubt, whatever it says: lines, and not one byte that no line has.
fn is_prose(sample: &[u8]) -> bool {
    let odd = |byte: &u8| *byte < b' ' && !matches!(*byte, b'\n' | b'\r' | b'\t' | 0x1a);
    let is_utf8 = std::str::from_utf8(sample).map_or_else(|error| error.error_len().is_none(), |_| true);
    is_utf8 && sample.contains(&b'\n') && !sample.iter().any(odd)
}

/// Printable, but for the bytes that are cut off at the end of the sample.
fn is_text(sample: &[u8]) -> bool {
    let odd = |byte: &&u8| **byte < b' ' && !matches!(**byte, b'\n' | b'\r' | b'\t' | 0x1a);
    // A few odd bytes are garbage in a text; a binary file has them everywhere.
    sample.iter().filter(odd).count() * 50 < sample.len().max(50)
}

/// The text format that understands most lines, if it understands half of them.
fn text(sample: &[u8]) -> Option<Guess> {
    let mut lines: Vec<&[u8]> = without_mark(sample).split(|&byte| byte == b'\n').collect();
    if sample.len() >= SAMPLE_BYTES {
        // The last one is cut.
        lines.pop();
    }
    let lines: Vec<&[u8]> = lines
        .into_iter()
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| !line.trim_ascii().is_empty())
        .take(LINES_TRIED)
        .collect();
    let first = lines.first()?;
    // In the order of preference: where two understand the same lines, the stricter one comes
    // first.
    let mut candidates: Vec<(Format, Box<dyn Lines>)> = vec![
        (Format::Lirs, Box::new(lirs::Lirs)),
        (Format::Arc, Box::new(arc::Arc)),
        (Format::HashIds, Box::new(hash_ids::HashIds)),
        (Format::Msr, Box::<msr::Msr>::default()),
    ];
    if Csv::has_header(first) {
        candidates.push((Format::Csv, Box::new(Csv::new(None))));
    }
    let scores = candidates.iter_mut().map(|(format, parser)| (understood(parser.as_mut(), &lines), *format));
    let scores: Vec<(usize, Format)> = scores.collect();
    let best = scores.iter().map(|score| score.0).max()?;
    if best == 0 || best * 2 < lines.len() {
        // Names of columns are evidence enough: what is wrong with the lines below is for the
        // parser to say.
        return Csv::is_header(first).then(|| Guess::sure(Format::Csv));
    }
    scores.iter().find(|score| score.0 == best).map(|score| Guess::sure(score.1))
}

/// Lines with requests in them that a parser takes. A first line of names counts too.
fn understood(parser: &mut dyn Lines, lines: &[&[u8]]) -> usize {
    let (mut names, mut out) = (Names::default(), Vec::new());
    let taken = lines.iter().filter(|line| parser.line(line, &mut names, &mut out).is_ok()).count();
    if out.is_empty() { 0 } else { taken }
}

fn binary(sample: &[u8]) -> Option<Guess> {
    // Nine of ten records must look right.
    let most = |plausible: usize, width: usize| {
        let records = sample.len() / width;
        records > 0 && plausible * 10 >= records * 9
    };
    let scsi = vscsi::Vscsi::of(sample);
    if most(scsi.plausible(sample), crate::formats::Records::width(&scsi)) {
        return Some(Guess::sure(Format::Vscsi));
    }
    if most(oracle_general::plausible(sample), oracle_general::WIDTH) {
        return Some(Guess::sure(Format::OracleGeneral));
    }
    // Of 8-byte keys the upper half is constant, which 4-byte keys are not in every second place.
    if keys::plausible(sample) * 4 >= sample.len() / keys::WIDTH {
        return Some(Guess::thin(Format::Keys32, "neighbouring keys are close"));
    }
    None
}
