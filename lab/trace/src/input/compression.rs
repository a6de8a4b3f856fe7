//! gzip, zstd and xz as streams of bytes, in bounded memory.
//!
//! Each takes several members, frames or streams in a row, as the programs of these names do, and
//! checks the sums that they wrote. What is cut or damaged is an error, never a shorter trace.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::{Action, Status, XzStream};
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Bytes that tell a compression.
pub const MAGIC_BYTES: usize = 6;
/// Memory for the dictionary of an xz stream: what `xz -9` needs is a quarter of it.
const XZ_MEMORY_KIB: u32 = 256 << 10;

/// How a trace is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
            Compression::Xz => "xz",
        }
    }

    /// The content of a compressed stream.
    pub fn reader(self, source: impl Read + Send + 'static) -> Box<dyn Read + Send> {
        let source = BufReader::with_capacity(64 << 10, source);
        match self {
            Compression::Gzip => Box::new(MultiGzDecoder::new(source)),
            Compression::Zstd => Box::new(Zstd {
                source,
                decoder: FrameDecoder::new(),
                within: false,
                before: 0,
                failure: None,
            }),
            Compression::Xz => {
                let stream = XzStream::new_mem_limit(true, XZ_MEMORY_KIB);
                Box::new(Xz { source, stream, taken: 0, ended: false })
            }
        }
    }
}

/// Frames of zstd, one after the other. The decoder refuses windows above 100 MiB.
struct Zstd<R> {
    source: R,
    decoder: FrameDecoder,
    within: bool,
    /// Compressed bytes of the frames before.
    before: u64,
    /// What ended the frame too early, told once all that came before is read.
    failure: Option<io::Error>,
}

/// Bytes before the content of a frame that is skipped: magic and length.
const SKIPPED_HEADER_BYTES: u64 = 8;
/// The last block of a frame, empty, and a checksum.
const END_OF_FRAME: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

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
                    let skipped =
                        io::copy(&mut self.source.by_ref().take(u64::from(length)), &mut io::sink())?;
                    if skipped < u64::from(length) {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                    self.before += SKIPPED_HEADER_BYTES + skipped;
                }
                Err(_) => {
                    let text = format!("no frame begins at byte {} of the file", self.before);
                    return Err(io::Error::new(ErrorKind::InvalidData, text));
                }
            }
        }
        Ok(false)
    }

    /// Decodes a block. The decoder keeps back what later blocks may refer to, so where none can
    /// follow the frame is ended for it: all that came before the failure comes out, and then the
    /// failure.
    fn decode_block(&mut self) {
        let strategy = BlockDecodingStrategy::UptoBlocks(1);
        if self.decoder.decode_blocks(&mut self.source, strategy).is_ok() {
            return;
        }
        let (block, byte) =
            (self.decoder.blocks_decoded(), self.before + self.decoder.bytes_read_from_source());
        let text = format!("block {block} of the frame is bad, about byte {byte} of the file");
        self.failure = Some(io::Error::new(ErrorKind::InvalidData, text));
        // It cannot fail: these bytes are a block.
        let _ = self.decoder.decode_blocks(&END_OF_FRAME[..], BlockDecodingStrategy::UptoBlocks(1));
    }

    fn finish(&mut self) -> io::Result<()> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.within = false;
        self.before += self.decoder.bytes_read_from_source();
        let (written, found) =
            (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum());
        match (written, found) {
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
                self.decode_block();
            }
            let read = self.decoder.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            if self.decoder.is_finished() {
                self.finish()?;
            }
        }
    }
}

/// Streams of xz, one after the other.
struct Xz<R> {
    source: R,
    stream: XzStream,
    /// Compressed bytes so far.
    taken: u64,
    ended: bool,
}

/// Bytes taken from an xz stream at once: what came out of a step that fails is lost with it, so
/// steps are short.
const XZ_STEP_BYTES: usize = 512;

impl<R: BufRead> Read for Xz<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.ended && !buffer.is_empty() {
            let input = self.source.fill_buf()?;
            let action = if input.is_empty() { Action::Finish } else { Action::Run };
            let input = &input[..input.len().min(XZ_STEP_BYTES)];
            let step = self.stream.process(input, buffer, action).map_err(|error| {
                let text = format!("{error}, behind byte {} of the file", self.taken);
                io::Error::new(error.kind(), text)
            })?;
            self.source.consume(step.bytes_consumed);
            self.taken += step.bytes_consumed as u64;
            self.ended = step.status == Status::StreamEnd;
            if step.bytes_produced > 0 {
                return Ok(step.bytes_produced);
            }
            if action == Action::Finish && step.bytes_consumed == 0 && !self.ended {
                let text = format!("its {} bytes are no whole stream", self.taken);
                return Err(io::Error::new(ErrorKind::UnexpectedEof, text));
            }
        }
        Ok(0)
    }
}
