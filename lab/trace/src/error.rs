//! What can go wrong with a trace. Every message names the place, the value and the remedy.

use derive_more::Display;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Where something is in the content of a trace, after decompression.
#[derive(Debug, Clone, Copy, Display, PartialEq, Eq)]
pub enum Position {
    /// Number of a line, from 1.
    #[display("line {_0}")]
    Line(u64),
    /// Offset of a byte, from 0.
    #[display("byte {_0}")]
    Byte(u64),
}

/// What is wrong with one line or record.
#[derive(Debug, Clone, Display, PartialEq, Eq)]
#[display("{value:?}: expected {expected}")]
pub struct Bad {
    /// The value, as it stands there; shortened.
    pub value: String,
    /// What was expected instead.
    pub expected: &'static str,
}

/// Most characters of a value in a message.
const VALUE_CHARS_MAX: usize = 60;

impl Bad {
    /// A value that is not what was expected.
    pub fn new(value: &[u8], expected: &'static str) -> Bad {
        let head = &value[..value.len().min(4 * VALUE_CHARS_MAX)];
        let text = String::from_utf8_lossy(head);
        let mut shown: String = text.chars().take(VALUE_CHARS_MAX).collect();
        if shown.len() < text.len() || head.len() < value.len() {
            shown.push('…');
        }
        Bad { value: shown, expected }
    }

    /// A number that is not what was expected.
    pub fn number(value: impl fmt::Display, expected: &'static str) -> Bad {
        Bad { value: value.to_string(), expected }
    }
}

/// Why a trace could not be read, prepared or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say what fields are")]
pub enum TraceError {
    /// The operating system refused; the text says what was tried.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried: `open`, `read`, `write`.
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// Compressed data cannot be decompressed to its end.
    #[error("{}: cannot decompress as {compression} after at least {byte} bytes of content: {source}; the file is damaged or cut, so fetch or compress it again", path.display())]
    Damaged {
        path: PathBuf,
        compression: &'static str,
        /// Bytes of content that came out before; some decompressors keep the last of them back.
        byte: u64,
        source: io::Error,
    },
    /// A compressed file holds so much that it looks like a trap.
    #[error("{}: expands more than {times} times: decompress it to a file first if that is meant", path.display())]
    Expansion { path: PathBuf, times: u64 },
    /// A line, or a record of a binary format, that makes no sense.
    #[error("{}: {place}: {bad}", path.display())]
    Bad {
        path: PathBuf,
        /// Which line, or where the record starts.
        place: Position,
        bad: Bad,
    },
    /// The first bytes are plainly something else than what was named.
    #[error("{}: byte 0: {value:?}: expected {format}, and this is {found}: {remedy}", path.display())]
    Mismatch { path: PathBuf, value: String, format: &'static str, found: String, remedy: String },
    /// There is not a single request.
    #[error("{}: no request in it as {format}: --format names another", path.display())]
    Empty { path: PathBuf, format: &'static str },
    /// No format fits.
    #[error("{}: {problem}: {remedy}", path.display())]
    Unknown { path: PathBuf, problem: String, remedy: String },
    /// An option or a part of a specification makes no sense.
    #[error("{name} {value:?}: expected {remedy}")]
    Option { name: &'static str, value: String, remedy: String },
    /// More references than a prepared trace can hold.
    #[error("more than {bound} references: {remedy}")]
    TooLong { bound: u64, remedy: &'static str },
}

impl TraceError {
    /// Whether there is no such file.
    pub fn is_missing(&self) -> bool {
        matches!(self, TraceError::Io { action: "open", source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}
