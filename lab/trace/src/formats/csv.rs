//! Named columns, with any delimiter.
//!
//! ```text
//!   owner,file,block          a first line with names ...
//!   cscope,index,17           ... or --columns owner,file,block
//!   cscope,index,18
//! ```
//!
//! A column means something by its name in the first line, or by what `--columns` says: a list of
//! meanings in order of the columns (`-` for one that means nothing), or of `meaning=NAME` and
//! `meaning=POSITION` (from 1).
//!
//! One column must name the block. Where its first value is a number, all must be; else values are
//! text, and become 64-bit hashes that are the same on every machine.
//!
//! Fields may be quoted as in RFC 4180, but a line break ends a line even between quotes.

use std::borrow::Cow;
use std::str::FromStr;

use super::{Lines, OBJECTS_MAX, SECTOR_BYTES, text};
use crate::error::Bad;
use crate::names::Names;
use crate::{Request, TraceError};

/// What a column means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// The owner.
    Owner,
    /// Of which file.
    File,
    /// The block's number or key.
    Block,
    /// The block's number, in sectors of 512 bytes.
    Sector,
    /// Blocks in a row, from that one on.
    Objects,
    /// First byte.
    Offset,
    /// Bytes.
    Length,
    /// Whether it reads or writes.
    Operation,
    /// When: no policy asks for it.
    Time,
}

/// Words for each meaning. The first is the one that `--columns` lists in messages.
const MEANINGS: &[(Meaning, &[&str])] = &[
    (Meaning::Owner, &["owner", "tenant"]),
    (Meaning::File, &["file", "path", "inode"]),
    (
        Meaning::Block,
        &["block", "block_id", "blockid", "key", "id", "obj_id", "object_id", "objectid", "object", "page"],
    ),
    (Meaning::Objects, &["objects"]),
    (Meaning::Sector, &["sector", "lbn", "lba"]),
    (Meaning::Offset, &["offset"]),
    (Meaning::Length, &["size", "length", "len", "bytes", "obj_size", "object_size", "io_size"]),
    (Meaning::Operation, &["op", "operation", "rw"]),
    (
        Meaning::Time,
        &["time", "timestamp", "time_s", "op_time", "clock_time", "time_ms", "time_us", "time_ns"],
    ),
];

impl Meaning {
    fn of(word: &str) -> Option<Meaning> {
        let known = |words: &&[&str]| words.iter().any(|known| known.eq_ignore_ascii_case(word.trim()));
        MEANINGS.iter().find(|(_, words)| known(words)).map(|(meaning, _)| *meaning)
    }
}

/// Which column means what.
///
/// ```
/// use pantler_trace::Columns;
/// assert!("owner,file,block".parse::<Columns>().is_ok());
/// assert!("block=lbn,op=2".parse::<Columns>().is_ok());
/// let error = "owner,colour".parse::<Columns>().unwrap_err().to_string();
/// assert!(error.contains("colour"), "{error}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    entries: Vec<(Meaning, Where)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Where {
    Position(usize),
    Header(String),
}

impl FromStr for Columns {
    type Err = TraceError;

    fn from_str(list: &str) -> Result<Self, TraceError> {
        let refuse = |value: &str| TraceError::Option {
            name: "column",
            value: value.to_owned(),
            remedy: "one of owner, file, block, objects, sector, offset, size, op, time, or -, \
                     each perhaps with =NAME or =POSITION, and among them block, sector or offset"
                .to_owned(),
        };
        let mut entries = Vec::new();
        for (position, part) in list.split(',').enumerate() {
            let (word, place) = match part.split_once('=') {
                None if part.trim() == "-" => continue,
                None => (part, Where::Position(position)),
                Some((word, place)) => match place.trim().parse::<usize>() {
                    Ok(0) => return Err(refuse(part)),
                    Ok(number) => (word, Where::Position(number - 1)),
                    Err(_) => (word, Where::Header(place.trim().to_owned())),
                },
            };
            let meaning = Meaning::of(word).ok_or_else(|| refuse(part))?;
            entries.push((meaning, place));
        }
        if !entries.iter().any(|(meaning, _)| names_block(*meaning)) {
            return Err(refuse(list));
        }
        Ok(Columns { entries })
    }
}

fn names_block(meaning: Meaning) -> bool {
    matches!(meaning, Meaning::Block | Meaning::Sector | Meaning::Offset)
}

/// The parser.
pub struct Csv {
    wanted: Option<Columns>,
    /// That of the first line.
    delimiter: Option<u8>,
    /// By position, once the first line was seen.
    columns: Option<Vec<(Meaning, usize)>>,
    key: KeyKind,
    /// Ends of the fields of a line.
    fields: Vec<(usize, usize)>,
}

#[derive(Clone, Copy, PartialEq)]
enum KeyKind {
    Unknown,
    Number,
    Text,
}

const DELIMITERS: [u8; 5] = [b',', b';', b'\t', b'|', b' '];
/// Columns past these are ignored.
const FIELDS_MAX: usize = 256;

impl Csv {
    /// A parser that takes its columns from `wanted`, or from the first line.
    pub fn new(wanted: Option<Columns>) -> Csv {
        Csv { wanted, delimiter: None, columns: None, key: KeyKind::Unknown, fields: Vec::new() }
    }

    /// Whether a first line names a column that can be the block.
    pub fn has_header(line: &[u8]) -> bool {
        let text = String::from_utf8_lossy(line);
        let mut names = text.split(['\t', ',', ';', '|', ' ']);
        names.any(|name| Meaning::of(name.trim_matches('"')).is_some_and(names_block))
    }

    /// Whether a first line is a header beyond doubt: all of it names, one of them of the block,
    /// and words between blanks only if each means something.
    pub fn is_header(line: &[u8]) -> bool {
        let delimiter = delimiter_of(line);
        let text = String::from_utf8_lossy(line);
        let names = || {
            let parts = text.split(char::from(delimiter)).map(|name| name.trim().trim_matches('"'));
            parts.filter(|name| !name.is_empty())
        };
        let meant = names().filter_map(Meaning::of).count();
        names().filter_map(Meaning::of).any(names_block)
            && names().all(|name| name.starts_with(|first: char| first.is_alphabetic() || first == '_'))
            && (delimiter != b' ' || meant == names().count())
    }

    fn start(&mut self, line: &[u8]) -> Result<bool, Bad> {
        let delimiter = *self.delimiter.get_or_insert_with(|| delimiter_of(line));
        self.split(line, delimiter);
        let names: Vec<String> =
            self.fields.iter().map(|&place| String::from_utf8_lossy(&field(line, place)).into()).collect();
        let position = |name: &str| names.iter().position(|other| other.eq_ignore_ascii_case(name));
        let Some(wanted) = &self.wanted else {
            let known = names.iter().enumerate();
            let found: Vec<(Meaning, usize)> =
                known.filter_map(|(at, name)| Meaning::of(name).map(|meaning| (meaning, at))).collect();
            if !found.iter().any(|(meaning, _)| names_block(*meaning)) {
                return Err(Bad::new(
                    line,
                    "a first line with names of columns, one of them block, lbn, id or offset; --columns names them",
                ));
            }
            self.columns = Some(found);
            return Ok(true);
        };
        let mut header = false;
        let mut found = Vec::new();
        for (meaning, place) in &wanted.entries {
            let at = match place {
                Where::Position(at) => {
                    // A first line of names may stand there although positions were given.
                    header |= names_block(*meaning)
                        && names.get(*at).is_some_and(|name| {
                            text::number(name.as_bytes()).is_none() && Meaning::of(name).is_some()
                        });
                    *at
                }
                Where::Header(name) => {
                    header = true;
                    position(name).ok_or_else(|| {
                        Bad::new(line, "a first line with the names of columns that --columns gives")
                    })?
                }
            };
            found.push((*meaning, at));
        }
        self.columns = Some(found);
        Ok(header)
    }

    fn split(&mut self, line: &[u8], delimiter: u8) {
        self.fields.clear();
        let (mut start, mut quoted) = (0, false);
        for (at, &byte) in line.iter().enumerate() {
            if byte == b'"' {
                quoted = !quoted;
            } else if byte == delimiter && !quoted {
                // Blanks in a row are one.
                if byte != b' ' || at > start {
                    self.fields.push((start, at));
                }
                start = at + 1;
                if self.fields.len() == FIELDS_MAX {
                    return;
                }
            }
        }
        self.fields.push((start, line.len()));
    }

    fn request(&mut self, line: &[u8], names: &mut Names) -> Result<Request, Bad> {
        let columns = self.columns.as_deref().expect("the first line was seen");
        let mut request = Request { objects: 1, ..Request::default() };
        let mut keyed = false;
        for &(meaning, at) in columns {
            let Some(&place) = self.fields.get(at) else {
                return Err(Bad::new(line, "as many fields as there are columns"));
            };
            let field = field(line, place);
            let field = field.as_ref();
            match meaning {
                Meaning::Owner => request.owner = names.owner(field)?,
                Meaning::File => request.file = names.file(field)?,
                Meaning::Block => {
                    request.object = self.key.read(field)?;
                    keyed = true;
                }
                Meaning::Sector => {
                    let sector =
                        text::number(field).filter(|sector| sector.checked_mul(SECTOR_BYTES).is_some());
                    request.object = sector.ok_or_else(|| Bad::new(field, "a sector below 2^55"))?;
                    request.offset = request.object * SECTOR_BYTES;
                    keyed = true;
                }
                Meaning::Objects => {
                    let objects = text::number(field).and_then(|objects| u32::try_from(objects).ok());
                    let objects = objects.filter(|objects| (1..=OBJECTS_MAX).contains(objects));
                    request.objects = objects.ok_or_else(|| Bad::new(field, "from 1 to 2097152 objects"))?;
                }
                Meaning::Offset => {
                    let offset = text::number(field);
                    request.offset = offset.ok_or_else(|| Bad::new(field, "an offset in bytes"))?;
                    if !keyed {
                        request.object = request.offset;
                    }
                }
                Meaning::Length => {
                    let length = text::whole(field).ok_or_else(|| Bad::new(field, "a size in bytes"))?;
                    let length = u32::try_from(length);
                    request.length = length.map_err(|_| {
                        Bad::new(field, "a size below 4 GiB, or --columns without a column of sizes")
                    })?;
                }
                // Unknown words read: there is no standard for the names of operations.
                Meaning::Operation => request.write = text::writes(field).unwrap_or(false),
                Meaning::Time => {}
            }
        }
        Ok(request)
    }
}

/// A field without blanks and quotes around it.
fn field(line: &[u8], (start, end): (usize, usize)) -> Cow<'_, [u8]> {
    let field = line[start..end].trim_ascii();
    match field.strip_prefix(b"\"").and_then(|field| field.strip_suffix(b"\"")) {
        None => Cow::Borrowed(field),
        Some(inner) if !inner.contains(&b'"') => Cow::Borrowed(inner),
        Some(inner) => Cow::Owned(String::from_utf8_lossy(inner).replace("\"\"", "\"").into_bytes()),
    }
}

impl KeyKind {
    /// The key in a field, which says what all others are if it is the first.
    fn read(&mut self, field: &[u8]) -> Result<u64, Bad> {
        if field.is_empty() {
            return Err(Bad::new(field, "a block"));
        }
        let number = if *self == Self::Text { None } else { text::number(field) };
        match (*self, number) {
            (Self::Unknown | Self::Number, Some(number)) => {
                *self = Self::Number;
                Ok(number)
            }
            (Self::Number, None) => Err(Bad::new(field, "a block number, as in the lines before")),
            (Self::Unknown | Self::Text, _) => {
                *self = Self::Text;
                Ok(hash(field))
            }
        }
    }
}

impl Lines for Csv {
    fn line(&mut self, line: &[u8], names: &mut Names, out: &mut Vec<Request>) -> Result<(), Bad> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        if self.columns.is_none() && self.start(line)? {
            return Ok(());
        }
        let delimiter = self.delimiter.expect("the first line gave it");
        self.split(line, delimiter);
        out.push(self.request(line, names)?);
        Ok(())
    }

    fn has_ranges(&self) -> bool {
        let columns = self.columns.as_deref().unwrap_or_default();
        columns.iter().any(|(meaning, _)| matches!(meaning, Meaning::Offset | Meaning::Sector))
    }
}

/// What stands between fields: what occurs most, the earlier one of equals.
fn delimiter_of(line: &[u8]) -> u8 {
    let count = |delimiter: &u8| line.iter().filter(|byte| *byte == delimiter).count();
    let most = DELIMITERS.iter().rev().max_by_key(|&delimiter| count(delimiter));
    *most.expect("the list is not empty")
}

/// A hash of text that is the same everywhere: FNV-1a, with a final mix because it is used as a
/// key.
fn hash(text: &[u8]) -> u64 {
    let fold = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = text.iter().fold(0xcbf2_9ce4_8422_2325, fold);
    (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
