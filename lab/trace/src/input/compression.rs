//! gzip, zstd and xz as streams of bytes, in bounded memory.
//!
//! Each takes several members, frames or streams in a row, as the programs of these names do, and
//! checks the sums that they wrote. What is cut or damaged is an error, never a shorter trace.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::{Action, Status, XzStream};
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use strum::IntoStaticStr;

/// Bytes that tell a compression.
pub const MAGIC_BYTES: usize = 6;
/// Memory for the dictionary of an xz stream: what `xz -9` needs is a quarter of it.
const XZ_MEMORY_KIB: u32 = 256 << 10;

/// How a trace is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Compression {
    /// `.gz`
    Gzip,
    /// `.zst`
    Zstd,
    /// `.xz`
    Xz,
}

impl Compression {
    /// What the first bytes of a file promise.
    pub fn of(magic: &[u8]) -> Option<Compression> {
        let known: [(&[u8], Compression); 3] = [
            (&[0x1f, 0x8b, 0x08], Compression::Gzip),
            (&[0x28, 0xb5, 0x2f, 0xfd], Compression::Zstd),
            (&[0xfd, b'7', b'z', b'X', b'Z', 0], Compression::Xz),
        ];
        known.into_iter().find(|(first, _)| magic.starts_with(first)).map(|(_, compression)| compression)
    }

    /// The content of a compressed stream.
    pub fn reader(self, source: impl Read + Send + 'static) -> Box<dyn Read + Send> {
        let source = BufReader::with_capacity(64 << 10, source);
        match self {
            Compression::Gzip => Box::new(MultiGzDecoder::new(source)),
            Compression::Zstd => Box::new(Zstd { source, decoder: FrameDecoder::new(), within: false }),
            Compression::Xz => {
                let stream = XzStream::new_mem_limit(true, XZ_MEMORY_KIB);
                Box::new(Xz { source, stream, ended: false })
            }
        }
    }
}

/// Frames of zstd, one after the other. The decoder refuses windows above 100 MiB.
struct Zstd<R> {
    source: R,
    decoder: FrameDecoder,
    within: bool,
}

impl<R: BufRead> Zstd<R> {
    /// Starts the next frame; false at the end. Skippable frames are passed over.
    fn start(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = u64::from(length);
                    if io::copy(&mut self.source.by_ref().take(length), &mut io::sink())? < length {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::new(ErrorKind::InvalidData, error)),
            }
        }
        Ok(false)
    }

    fn check_sum(&self) -> io::Result<()> {
        match (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum()) {
            (Some(written), Some(found)) if written != found => {
                let text = format!("checksum {found:08x}, but {written:08x} was written");
                Err(io::Error::new(ErrorKind::InvalidData, text))
            }
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.within && !self.start()? {
                return Ok(0);
            }
            self.within = true;
            if self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                let decoded = self.decoder.decode_blocks(&mut self.source, one);
                decoded.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            }
            let read = self.decoder.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            if self.decoder.is_finished() {
                self.check_sum()?;
                self.within = false;
            }
        }
    }
}

/// Streams of xz, one after the other.
struct Xz<R> {
    source: R,
    stream: XzStream,
    ended: bool,
}

impl<R: BufRead> Read for Xz<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.ended && !buffer.is_empty() {
            let input = self.source.fill_buf()?;
            let action = if input.is_empty() { Action::Finish } else { Action::Run };
            let step = self.stream.process(input, buffer, action)?;
            self.source.consume(step.bytes_consumed);
            self.ended = step.status == Status::StreamEnd;
            if step.bytes_produced > 0 {
                return Ok(step.bytes_produced);
            }
            if action == Action::Finish && step.bytes_consumed == 0 && !self.ended {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(0)
    }
}
