//! The formats, one file each, and what they have in common.
//!
//! A format is a parser of lines or of records of fixed width. It knows nothing of files,
//! compression, skipping or message places; it says what is [`Bad`], and [`Reader`](crate::Reader)
//! says where. Why these and no others:
//! docs/decisions/0094-what-a-simulator-need-not-know.md and
//! docs/decisions/0101-what-csv-and-lists-say-already.md.

pub mod arc;
pub mod csv;
pub mod hash_ids;
pub mod keys;
pub mod lirs;
pub mod msr;
pub mod oracle_general;
pub mod text;
pub mod vscsi;

use derive_more::Display;
use std::str::FromStr;

use crate::error::Bad;
use crate::names::Names;
use crate::{Request, TraceError};

/// Bytes of a sector, in which block traces count.
pub const SECTOR_BYTES: u64 = 512;

/// Most objects in a row that one line may ask for: a gibibyte of sectors.
pub const OBJECTS_MAX: u32 = 1 << 21;

/// A format of trace files.
///
/// ```
/// use pantler_trace::Format;
/// assert_eq!("oracle-general".parse::<Format>().unwrap(), Format::OracleGeneral);
/// assert_eq!(Format::Lirs.to_string(), "lirs");
/// ```
#[derive(Debug, Clone, Copy, Display, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[display("{}", self.as_str())]
#[non_exhaustive]
pub enum Format {
    /// One block number per line.
    Lirs,
    /// `start count ignored ignored`: blocks in a row.
    Arc,
    /// Named columns.
    Csv,
    /// libCacheSim's records of 24 bytes.
    OracleGeneral,
    /// Virtual SCSI, both versions.
    Vscsi,
    /// MSR Cambridge's block traces.
    Msr,
    /// Big-endian keys of 4 bytes.
    Keys32,
    /// JSON lines with a list `hash_ids`.
    HashIds,
    /// No file at all: a generator.
    Generated,
}

/// Name and one line for each, in the order in which a guess prefers them.
const FORMATS: &[(Format, &str, &str)] = &[
    (Format::Lirs, "lirs", "one block number per line; a line * is skipped"),
    (Format::Arc, "arc", "start count ignored ignored: count blocks from start"),
    (Format::HashIds, "hash-ids", "JSON lines with a list hash_ids"),
    (Format::Msr, "msr", "timestamp,host,disk,Read|Write,offset,size,response (MSR Cambridge)"),
    (Format::Csv, "csv", "named columns, from the first line or --columns"),
    (Format::Vscsi, "vscsi", "binary records of 32 or 40 bytes (CloudPhysics)"),
    (Format::OracleGeneral, "oracle-general", "libCacheSim's binary records of 24 bytes"),
    (Format::Keys32, "int32-be", "big-endian keys of 4 bytes"),
    (Format::Generated, "generated", "no file: a generator's specification"),
];

impl Format {
    /// All that a file can be read as.
    pub fn all() -> impl Iterator<Item = Format> {
        FORMATS.iter().map(|entry| entry.0).filter(|format| *format != Format::Generated)
    }

    /// The name as typed.
    pub fn as_str(self) -> &'static str {
        self.entry().1
    }

    /// One line about it.
    pub fn description(self) -> &'static str {
        self.entry().2
    }

    /// Whether its requests are ranges of bytes, which [`Unit::Block`](crate::Unit::Block) cuts.
    pub fn has_ranges(self) -> bool {
        !matches!(self, Format::Lirs | Format::Keys32 | Format::HashIds | Format::OracleGeneral)
    }

    /// Whether it is made of records and not of lines.
    pub(crate) fn is_binary(self) -> bool {
        matches!(self, Format::Vscsi | Format::OracleGeneral | Format::Keys32)
    }

    /// Whether a line that is cut may look whole: as a shorter number.
    pub(crate) fn hides_cuts(self) -> bool {
        matches!(self, Format::Lirs | Format::Csv | Format::Arc)
    }

    fn entry(self) -> &'static (Format, &'static str, &'static str) {
        FORMATS.iter().find(|entry| entry.0 == self).expect("every format is in the table")
    }
}

impl FromStr for Format {
    type Err = TraceError;

    fn from_str(name: &str) -> Result<Self, TraceError> {
        let found = FORMATS.iter().find(|entry| entry.1 == name).map(|entry| entry.0);
        found.ok_or_else(|| {
            let names: Vec<&str> = Format::all().map(Format::as_str).collect();
            TraceError::Option { name: "format", value: name.to_owned(), remedy: names.join(", ") }
        })
    }
}

/// A format made of lines.
pub trait Lines: Send {
    /// Takes one line, without its end, and appends the requests in it.
    ///
    /// After an error the parser goes on with the next line as if this one had not been there.
    fn line(&mut self, line: &[u8], names: &mut Names, out: &mut Vec<Request>) -> Result<(), Bad>;

    /// Whether requests are ranges of bytes, as far as the lines so far tell.
    fn has_ranges(&self) -> bool {
        true
    }
}

/// A format made of records of fixed width.
pub trait Records: Send {
    /// Bytes in a record.
    fn width(&self) -> usize;

    /// Takes whole records and appends a request for each. An error names the record it is about,
    /// counted from 0; requests of those before it were appended.
    fn records(
        &mut self,
        records: &[u8],
        names: &mut Names,
        out: &mut Vec<Request>,
    ) -> Result<(), (usize, Bad)>;

    /// The same for formats with plain records: a key and bytes, one object each, of one owner
    /// and one file, and never bad. Appends them without making requests of them; false, and
    /// nothing is appended, for all other formats.
    fn plain(&mut self, records: &[u8], keys: &mut Vec<u64>, bytes: &mut Vec<u32>) -> bool {
        let _ = (records, keys, bytes);
        false
    }
}

/// `N` bytes of a record from `at` on.
#[inline]
fn bytes<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    record[at..at + N].try_into().expect("as many bytes as asked for")
}
