//! Reading through holes: blocks of one file that lie near each other, in one go (rule Q7).
//!
//! ```text
//!   file    [7] 8  9 [10][11] 12 13 14 15 [16]
//!            |  `--'   |   |   `---------'  |      one read; where the waste is full, one after the other,
//!          frame waste frame frame waste   frame   each going on where the last ended
//! ```
//!
//! What is in a hole goes to a buffer that nobody looks at, and that lasts as long as the read.

use std::io::{self, IoSliceMut};

use pantler_origin::{READ_BUFFERS_MAX, Source};

use crate::cache::Cache;
use crate::fetch::Missing;

/// Bytes of holes that one read takes along.
const WASTE_BYTES: usize = 256 << 10;

/// Where the next bytes of the file go.
#[derive(Clone, Copy)]
enum Part {
    Buffer(u32),
    Hole(usize),
}

impl Cache {
    /// Reads pieces of one file, each of blocks side by side, and what lies between them. Returns how many bytes of each
    /// piece there are.
    pub(crate) fn fetch_through(&self, source: &dyn Source, pieces: &[&[Missing]]) -> Vec<usize> {
        if let [only] = pieces {
            return vec![self.fetch(source, only).unwrap_or(0)];
        }
        match self.sieve(source, pieces) {
            Ok(end) => {
                let bytes = |piece: &&[Missing]| {
                    let most = piece.len() * self.block_bytes();
                    end.saturating_sub(self.offset(piece[0].block)).min(most as u64) as usize
                };
                pieces.iter().map(bytes).collect()
            }
            // A bad spot that nobody wanted spoils nothing.
            Err(_) => pieces.iter().map(|piece| self.fetch(source, piece).unwrap_or(0)).collect(),
        }
    }

    /// Up to where in the file the bytes came.
    fn sieve(&self, source: &dyn Source, pieces: &[&[Missing]]) -> io::Result<u64> {
        let parts = self.parts(pieces);
        let hole = |part: &Part| if let Part::Hole(bytes) = part { *bytes } else { 0 };
        let holes: usize = parts.iter().map(hole).sum();
        let mut waste = vec![0; holes.min(WASTE_BYTES)];
        let mut offset = self.offset(pieces[0][0].block);
        let mut rest = parts.into_iter().peekable();
        while rest.peek().is_some() {
            let (mut buffers, mut left) = (Vec::new(), &mut waste[..]);
            while let Some(part) = rest.peek_mut().filter(|_| buffers.len() < READ_BUFFERS_MAX) {
                match part {
                    Part::Buffer(buffer) => {
                        // SAFETY: as in `fetch_from_origin`: `equip` made this thread the buffer's only user, the slot
                        // is not ready (M1), and the buffers of different slots are different (F1).
                        buffers.push(IoSliceMut::new(unsafe { self.slab.bytes_mut(*buffer) }));
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
                rest.next();
            }
            let wanted: usize = buffers.iter().map(|buffer| buffer.len()).sum();
            let count = self.read_origin(source, offset, &mut buffers)?;
            offset += count as u64;
            if count < wanted {
                break;
            }
        }
        Ok(offset)
    }

    fn parts(&self, pieces: &[&[Missing]]) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut next = pieces[0][0].block.index;
        for one in pieces.iter().copied().flatten() {
            let hole = (one.block.index - next) as usize * self.block_bytes();
            if hole > 0 {
                parts.push(Part::Hole(hole));
            }
            parts.push(Part::Buffer(one.slot.buffer));
            next = one.block.index + 1;
        }
        parts
    }
}
