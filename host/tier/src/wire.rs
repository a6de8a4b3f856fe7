//! The wire format of the server: words in, replies out (RESP2 and RESP3). Pure: bytes to words,
//! and back.
//!
//! A command is one flat list of strings with bounds on their number and length, so that no peer
//! can make the server recurse, reserve or scan without end.
//!
//! ```text
//!   *3\r\n $3\r\nSET\r\n $1\r\nk\r\n $5\r\nvalue\r\n        a command
//!   PING\r\n                                                or a line, as typed by hand
//! ```

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};

/// Most words of a command.
pub const WORDS_MAX: usize = 1024;
/// Longest word that is not a value: keys, names, numbers.
pub const WORD_BYTES_MAX: usize = 64 << 10;
/// Longest line typed by hand.
const LINE_BYTES_MAX: usize = 16 << 10;
/// Longest line that says a number.
const NUMBER_BYTES_MAX: usize = 16;

/// Memory of a server that a block takes beside its key and value: the entry, its place in the
/// table and in the order, and what the allocator adds to three pieces.
pub const ENTRY_BYTES: u64 = 256;
/// Keys of one owner that one answer lists.
pub const LISTED_MAX: usize = 100_000;

/// A peer that does not speak the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// Something else than a list of strings.
    #[error("expected a list of strings")]
    Shape,
    /// A number that is none, or negative.
    #[error("invalid length")]
    Number,
    /// Too many words.
    #[error("more than {WORDS_MAX} words")]
    Words,
    /// A word, or all words together, are too long.
    #[error("too long")]
    Long,
}

/// What a buffer begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begin {
    /// A whole command: where its words are, and how many bytes it takes.
    Command {
        /// Positions of the words.
        words: Vec<Range<usize>>,
        /// Bytes of the command.
        length: usize,
    },
    /// Part of one, which takes at least this number of bytes in all.
    Part(usize),
}

/// Looks at what a buffer begins with. A command takes at most `bytes_max` bytes.
///
/// # Errors
/// [`WireError`]: nothing after this makes sense any more.
pub fn begin(buffer: &[u8], bytes_max: usize) -> Result<Begin, WireError> {
    match buffer.first() {
        None => Ok(Begin::Part(1)),
        Some(b'*') => list(buffer, bytes_max),
        Some(_) => line(buffer),
    }
}

/// A list, within all bounds as far as it goes.
fn list(buffer: &[u8], bytes_max: usize) -> Result<Begin, WireError> {
    let Some((count, mut at)) = number(buffer, 0)? else { return Ok(Begin::Part(buffer.len() + 1)) };
    if count > WORDS_MAX {
        return Err(WireError::Words);
    }
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        match buffer.get(at) {
            None => return Ok(Begin::Part(at + 1)),
            Some(b'$') => {}
            Some(_) => return Err(WireError::Shape),
        }
        let Some((length, start)) = number(buffer, at)? else { return Ok(Begin::Part(buffer.len() + 1)) };
        at = start.saturating_add(length).saturating_add(2);
        if at > bytes_max {
            return Err(WireError::Long);
        }
        match buffer.get(at - 2..at) {
            None if buffer.len() < at => return Ok(Begin::Part(at)),
            Some(b"\r\n") => words.push(start..start + length),
            _ => return Err(WireError::Shape),
        }
    }
    Ok(Begin::Command { words, length: at })
}

/// The number behind the sign at `at`, and where the next thing begins.
fn number(buffer: &[u8], at: usize) -> Result<Option<(usize, usize)>, WireError> {
    let rest = &buffer[at + 1..];
    let head = &rest[..rest.len().min(NUMBER_BYTES_MAX)];
    let Some(end) = head.iter().position(|&byte| byte == b'\r') else {
        return if head.len() < NUMBER_BYTES_MAX { Ok(None) } else { Err(WireError::Number) };
    };
    let digits = &head[..end];
    let is_number = !digits.is_empty() && digits.len() <= 10 && digits.iter().all(u8::is_ascii_digit);
    let value = digits.iter().fold(0_usize, |value, digit| {
        value.saturating_mul(10).saturating_add(usize::from(digit.wrapping_sub(b'0')))
    });
    match rest.get(end + 1) {
        _ if !is_number => Err(WireError::Number),
        None => Ok(None),
        Some(b'\n') => Ok(Some((value, at + 1 + end + 2))),
        Some(_) => Err(WireError::Number),
    }
}

fn line(buffer: &[u8]) -> Result<Begin, WireError> {
    let head = &buffer[..buffer.len().min(LINE_BYTES_MAX)];
    let Some(end) = head.iter().position(|&byte| byte == b'\n') else {
        return if head.len() < LINE_BYTES_MAX {
            Ok(Begin::Part(buffer.len() + 1))
        } else {
            Err(WireError::Long)
        };
    };
    let mut words = Vec::new();
    let mut start = None;
    for (at, byte) in head[..=end].iter().enumerate() {
        match (byte.is_ascii_whitespace(), start) {
            (false, None) => start = Some(at),
            (true, Some(from)) => {
                words.push(from..at);
                start = None;
            }
            _ => {}
        }
    }
    if words.len() > WORDS_MAX {
        return Err(WireError::Words);
    }
    Ok(Begin::Command { words, length: end + 1 })
}

/// Which of the two protocols a peer asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// The older one, which every tool speaks.
    #[default]
    Resp2,
    /// The one with maps and unasked messages.
    Resp3,
}

/// An answer, or an unasked message.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A short word.
    Simple(&'static str),
    /// What went wrong, beginning with a word for programs.
    Error(String),
    /// A number.
    Number(i64),
    /// Bytes.
    Bytes(Bytes),
    /// Nothing there.
    Null,
    /// A list.
    List(Vec<Reply>),
    /// Names and values; a flat list in RESP2.
    Map(Vec<(Reply, Reply)>),
    /// An unasked message; nothing in RESP2.
    Push(Vec<Reply>),
}

impl Reply {
    /// Text as bytes.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Bytes(Bytes::from(text.into()))
    }

    /// Appends the reply to `out`.
    pub fn encode(&self, protocol: Protocol, out: &mut BytesMut) {
        match self {
            Self::Simple(word) => line_of(out, b'+', word.as_bytes()),
            // A line break in an error would begin another reply.
            Self::Error(text) => line_of(out, b'-', text.replace(['\r', '\n'], " ").as_bytes()),
            Self::Number(number) => line_of(out, b':', number.to_string().as_bytes()),
            Self::Bytes(bytes) => {
                bytes_head(bytes.len(), out);
                out.put_slice(bytes);
                out.put_slice(b"\r\n");
            }
            Self::Null if protocol == Protocol::Resp3 => out.put_slice(b"_\r\n"),
            Self::Null => out.put_slice(b"$-1\r\n"),
            Self::List(list) => many(out, b'*', list.len(), list, protocol),
            Self::Map(pairs) => {
                let (sign, count) = match protocol {
                    Protocol::Resp3 => (b'%', pairs.len()),
                    Protocol::Resp2 => (b'*', pairs.len() * 2),
                };
                many(out, sign, count, pairs.iter().flat_map(|(name, value)| [name, value]), protocol);
            }
            Self::Push(_) if protocol == Protocol::Resp2 => {}
            Self::Push(list) => many(out, b'>', list.len(), list, protocol),
        }
    }
}

/// What stands before the bytes of a string; `\r\n` follows them.
pub fn bytes_head(length: usize, out: &mut BytesMut) {
    line_of(out, b'$', length.to_string().as_bytes());
}

fn line_of(out: &mut BytesMut, sign: u8, text: &[u8]) {
    out.reserve(text.len() + 3);
    out.put_u8(sign);
    out.put_slice(text);
    out.put_slice(b"\r\n");
}

fn many<'a>(
    out: &mut BytesMut,
    sign: u8,
    count: usize,
    list: impl IntoIterator<Item = &'a Reply>,
    protocol: Protocol,
) {
    line_of(out, sign, count.to_string().as_bytes());
    list.into_iter().for_each(|reply| reply.encode(protocol, out));
}
