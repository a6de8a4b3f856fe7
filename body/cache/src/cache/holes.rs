//! Reading through holes: blocks of one file that lie near each other, in one go (rule Q7).
//!
//! ```text
//!   file    [7] 8  9 [10][11] 12 13 14 15 [16]
//!            |  `--'   |   |   `---------'  |      one read; where the waste is full, one after
//!          frame waste frame frame waste   frame   the other, each going on where the last ended
//! ```
//!
//! Bytes of a gap go to a buffer that is never read, and that lasts as long as the read.
//!
//! Why so: docs/decisions/0049-through-holes.md.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::panic::{AssertUnwindSafe, catch_unwind};

use pantler_origin::{READ_BUFFERS_MAX, Source};

use super::Cache;
use super::prefetch::Piece;
use crate::frames::Missing;
use crate::memory::Slab;

/// Bytes of holes that one read takes along.
const WASTE_BYTES: usize = 256 << 10;
/// What reads past the page cache ask of memory, at most: anything less aligned would go through
/// the page cache.
const ALIGNMENT: usize = 4096;

/// Where the next bytes of the file go.
#[derive(Clone, Copy)]
enum Part {
    Buffer(u32),
    Hole(usize),
}

/// Pieces of one file, each of blocks side by side, and what lies between them, on their way from
/// their source.
///
/// V1  Until the last read that [`next`](Self::next) handed out is over, `waste` is neither dropped
///     nor grown: it is written to.
struct HoleRead {
    /// What has not been asked for.
    rest: VecDeque<Part>,
    /// Where the next read begins.
    offset: u64,
    /// Bytes that the last read asked for.
    wanted: usize,
    waste: Vec<u8>,
}

impl HoleRead {
    /// Of at least one piece, in the order of the file.
    fn new(cache: &Cache, pieces: &[Piece]) -> Self {
        let blocks = || pieces.iter().flat_map(|piece| &piece.missing);
        let first = blocks().next().expect("pieces have blocks").block;
        let mut rest = VecDeque::new();
        let (mut next, mut holes) = (first.index, 0);
        for one in blocks() {
            let hole = (one.block.index - next) as usize * cache.block_bytes();
            if hole > 0 {
                rest.push_back(Part::Hole(hole));
                holes += hole;
            }
            rest.push_back(Part::Buffer(one.slot.buffer));
            next = one.block.index + 1;
        }
        let waste = if holes > 0 { vec![0; holes.min(WASTE_BYTES) + ALIGNMENT] } else { Vec::new() };
        Self { rest, offset: cache.cut.offset(first), wanted: 0, waste }
    }

    /// The next read: from where on in the file, and into what.
    ///
    /// # Safety
    /// The blocks are the caller's to bring: `equip` made it the only user of their buffers, and
    /// their slots are not ready (M1). The last read is over.
    unsafe fn next<'a>(&'a mut self, slab: &'a Slab) -> (u64, Vec<IoSliceMut<'a>>) {
        let start = self.waste.as_ptr().align_offset(ALIGNMENT).min(self.waste.len());
        let end = self.waste.len() - self.waste.len().min(ALIGNMENT - start);
        let (mut buffers, mut left) = (Vec::new(), &mut self.waste[start..end]);
        while let Some(part) = self.rest.front_mut().filter(|_| buffers.len() < READ_BUFFERS_MAX) {
            match part {
                Part::Buffer(buffer) => {
                    // SAFETY: the caller's word, and the buffers of different slots are different
                    // (F1).
                    buffers.push(IoSliceMut::new(unsafe { slab.bytes_mut(*buffer) }));
                }
                Part::Hole(_) if left.is_empty() => break,
                Part::Hole(bytes) => {
                    let (some, others) = left.split_at_mut((*bytes).min(left.len()));
                    *bytes -= some.len();
                    left = others;
                    buffers.push(IoSliceMut::new(some));
                    if *bytes > 0 {
                        break;
                    }
                }
            }
            self.rest.pop_front();
        }
        self.wanted = buffers.iter().map(|buffer| buffer.len()).sum();
        (self.offset, buffers)
    }

    /// The last read brought `count` bytes. Says whether there is more to read: not after the end
    /// of the file.
    fn came(&mut self, count: usize) -> bool {
        self.offset += count as u64;
        count == self.wanted && !self.rest.is_empty()
    }

    /// How many bytes of a piece there are, now that nothing more is to be read.
    fn bytes(&self, cache: &Cache, piece: &[Missing]) -> usize {
        let most = (piece.len() * cache.block_bytes()) as u64;
        self.offset.saturating_sub(cache.cut.offset(piece[0].block)).min(most) as usize
    }
}

/// Reads pieces of one file, each of blocks side by side, and what lies between them. Returns how
/// many bytes of each piece there are: none of what fails.
pub(super) fn read_through_holes(cache: &Cache, source: &dyn Source, pieces: &[Piece]) -> Vec<usize> {
    // A source that panics is the demand's to meet; here it has brought nothing.
    let result = catch_unwind(AssertUnwindSafe(|| fetch_through(cache, source, pieces)));
    result.unwrap_or_else(|_| vec![0; pieces.len()])
}

fn fetch_through(cache: &Cache, source: &dyn Source, pieces: &[Piece]) -> Vec<usize> {
    let through = if pieces.len() > 1 { fetch_past(cache, source, pieces).ok() } else { None };
    match through {
        Some(read) => pieces.iter().map(|piece| read.bytes(cache, &piece.missing)).collect(),
        // There is no gap, or there was an error: a bad spot in a gap spoils no wanted block.
        None => pieces.iter().map(|piece| cache.fetch(source, &piece.missing).unwrap_or(0)).collect(),
    }
}

fn fetch_past(cache: &Cache, source: &dyn Source, pieces: &[Piece]) -> io::Result<HoleRead> {
    let mut read = HoleRead::new(cache, pieces);
    loop {
        // SAFETY: this thread brings the blocks, and each read is over when `read_origin` returns.
        let (offset, mut buffers) = unsafe { read.next(&cache.slab) };
        let count = cache.read_origin(source, offset, &mut buffers)?;
        if !read.came(count) {
            return Ok(read);
        }
    }
}
