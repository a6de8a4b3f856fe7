//! The bytes of a trace: a file or a stream, decompressed on the way, in lines or in records.
//!
//! ```text
//!   file --- compression --- guard ---> [ ....buffer.... ] ---> line, or records
//!            by first bytes  counts     one chunk, or one line
//! ```
//!
//! Memory is bounded whatever the bytes are: by the buffer, by [`LINE_BYTES_MAX`], and by the
//! window of the decompressor. What expands too much is refused (see [`EXPANSION_MAX`]): a small
//! file cannot keep a simulation busy for days.
//!
//! Files are read, not mapped: a mapped file that is cut meanwhile ends the process, and
//! reading in large chunks is no slower, because every byte is looked at once.

mod compression;

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::TraceError;

pub use compression::Compression;

/// Bytes asked for at once: large enough that system calls cost nothing, small enough for the
/// second-level cache.
const CHUNK_BYTES: usize = 256 << 10;
/// Bytes looked at to tell a format and its version.
pub const SAMPLE_BYTES: usize = 64 << 10;
/// Longest line in bytes.
pub const LINE_BYTES_MAX: usize = 1 << 20;
/// Bytes of content that are always accepted, however small the compressed file is.
const EXPANSION_FREE_BYTES: u64 = 1 << 30;
/// Bytes of content for each compressed byte, past the first [`EXPANSION_FREE_BYTES`].
const EXPANSION_MAX: u64 = 1000;

/// Bytes in order, with a place in the content for messages.
pub struct Input {
    path: PathBuf,
    source: Box<dyn Read + Send>,
    compression: Option<Compression>,
    /// Bytes read before decompression.
    raw_bytes: Arc<AtomicU64>,
    /// Bytes of the file, where it is one.
    file_bytes: Option<u64>,
    /// Bytes of content that came out so far.
    content_bytes: u64,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    ended: bool,
    /// Whether a line ran into the end.
    unended: bool,
}

impl Input {
    /// Opens a file. `-` is standard input.
    ///
    /// # Errors
    ///
    /// [`TraceError::Io`] if it cannot be opened, [`TraceError::Damaged`] if its first bytes
    /// promise a compression that does not follow.
    pub fn open(path: &Path) -> Result<Input, TraceError> {
        if path == Path::new("-") {
            return Input::from_read(Path::new("standard input"), std::io::stdin(), None);
        }
        let io = |action| move |source| TraceError::Io { action, path: path.to_owned(), source };
        let file = File::open(path).map_err(io("open"))?;
        let metadata = file.metadata().map_err(io("look at"))?;
        if metadata.is_dir() {
            return Err(io("read")(ErrorKind::IsADirectory.into()));
        }
        Input::from_read(path, file, metadata.is_file().then_some(metadata.len()))
    }

    /// Reads from anything. `path` is what messages call it.
    ///
    /// # Errors
    ///
    /// As for [`open`](Input::open).
    pub fn from_read(
        path: &Path,
        source: impl Read + Send + 'static,
        file_bytes: Option<u64>,
    ) -> Result<Input, TraceError> {
        let raw_bytes = Arc::new(AtomicU64::new(0));
        let counted = Counted { source, bytes: Arc::clone(&raw_bytes) };
        let mut input = Input {
            path: path.to_owned(),
            source: Box::new(counted),
            compression: None,
            raw_bytes,
            file_bytes,
            content_bytes: 0,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            ended: false,
            unended: false,
        };
        input.decompress()?;
        Ok(input)
    }

    /// What messages call it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How the content was compressed.
    pub fn compression(&self) -> Option<Compression> {
        self.compression
    }

    /// Bytes of content, where that is known beforehand.
    pub fn content_bytes(&self) -> Option<u64> {
        self.file_bytes.filter(|_| self.compression.is_none())
    }

    /// Where the next byte stands in the content.
    pub fn offset(&self) -> u64 {
        self.content_bytes - (self.end - self.start) as u64
    }

    /// Whether the last line was given, and had no line break behind it.
    pub fn is_unended(&self) -> bool {
        self.unended
    }

    /// The next bytes, without taking them: `bytes` of them, or fewer at the end.
    pub fn peek(&mut self, bytes: usize) -> Result<&[u8], TraceError> {
        while self.end - self.start < bytes && !self.ended {
            self.fill(bytes)?;
        }
        Ok(&self.buffer[self.start..self.end.min(self.start + bytes)])
    }

    /// The next line, without its end; `None` at the end. A line that is too long is a piece of
    /// [`LINE_BYTES_MAX`] bytes.
    pub fn line(&mut self) -> Result<Option<&[u8]>, TraceError> {
        let mut looked_at = 0;
        let length = loop {
            let seen = &self.buffer[self.start..self.end];
            if let Some(found) = memchr::memchr(b'\n', &seen[looked_at..]) {
                break looked_at + found;
            }
            looked_at = seen.len();
            if looked_at >= LINE_BYTES_MAX {
                let first = self.start;
                self.start += LINE_BYTES_MAX;
                return Ok(Some(&self.buffer[first..first + LINE_BYTES_MAX]));
            }
            if self.ended {
                if looked_at == 0 {
                    return Ok(None);
                }
                self.unended = true;
                let first = std::mem::replace(&mut self.start, self.end);
                return Ok(Some(&self.buffer[first..self.end]));
            }
            self.fill(LINE_BYTES_MAX)?;
        };
        let first = self.start;
        self.start += length + 1;
        let line = &self.buffer[first..first + length];
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// Whole records of `width` bytes, at most `records` of them; fewer than one record's bytes at
    /// the end.
    pub fn records(&mut self, width: usize, records: usize) -> Result<&[u8], TraceError> {
        while self.end - self.start < width && !self.ended {
            self.fill(width)?;
        }
        let seen = self.end - self.start;
        let whole = (seen / width).min(records) * width;
        let taken = if whole == 0 { seen } else { whole };
        let first = self.start;
        self.start += taken;
        Ok(&self.buffer[first..first + taken])
    }

    /// Looks at the first bytes, and puts a decompressor between.
    fn decompress(&mut self) -> Result<(), TraceError> {
        let magic = self.peek(compression::MAGIC_BYTES)?;
        let Some(compression) = Compression::of(magic) else { return Ok(()) };
        let seen = std::io::Cursor::new(self.buffer[self.start..self.end].to_vec());
        let source = std::mem::replace(&mut self.source, Box::new(std::io::empty()));
        (self.start, self.end, self.content_bytes, self.ended) = (0, 0, 0, false);
        self.compression = Some(compression);
        self.source = compression.reader(seen.chain(source));
        Ok(())
    }

    /// Makes room for `bytes` bytes in a row, and reads once.
    fn fill(&mut self, bytes: usize) -> Result<(), TraceError> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        // Longer than a chunk only as far as a long line needs it.
        let wanted = CHUNK_BYTES.max((self.end * 2).min(bytes.next_multiple_of(CHUNK_BYTES) + CHUNK_BYTES));
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        let read = loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let read = read.map_err(|source| self.failure(source))?;
        self.ended = read == 0;
        self.end += read;
        self.content_bytes += read as u64;
        let allowed = self.raw_bytes.load(Ordering::Relaxed).saturating_mul(EXPANSION_MAX);
        if self.compression.is_some() && self.content_bytes > EXPANSION_FREE_BYTES.max(allowed) {
            return Err(TraceError::Expansion { path: self.path.clone(), times: EXPANSION_MAX });
        }
        Ok(())
    }

    fn failure(&self, source: std::io::Error) -> TraceError {
        let path = self.path.clone();
        match self.compression {
            None => TraceError::Io { action: "read", path, source },
            Some(compression) => TraceError::Damaged {
                path,
                compression: compression.into(),
                byte: self.content_bytes,
                source,
            },
        }
    }
}

/// Counts what passes.
struct Counted<R> {
    source: R,
    bytes: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
