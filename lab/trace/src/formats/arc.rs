//! `start count ignored ignored`: count blocks of 512 bytes, from start on.
//!
//! The form of the traces that come with the ARC paper (`.lis`). As objects, each of the `count`
//! blocks is a reference, as in that paper.

use super::{Lines, OBJECTS_MAX, SECTOR_BYTES, text};
use crate::Request;
use crate::error::Bad;
use crate::names::Names;

/// The parser.
pub struct Arc;

impl Lines for Arc {
    fn line(&mut self, line: &[u8], _: &mut Names, out: &mut Vec<Request>) -> Result<(), Bad> {
        let mut words = text::words(line);
        let Some(first) = words.next() else { return Ok(()) };
        let rest: [Option<&[u8]>; 4] = std::array::from_fn(|_| words.next());
        if rest[2].is_none() || rest[3].is_some() {
            return Err(Bad::new(line, "four numbers: start count ignored ignored"));
        }
        let start = text::number(first).ok_or_else(|| Bad::new(first, "a block number as first of four"))?;
        let count = rest[0].unwrap_or_default();
        let blocks = text::number(count).filter(|&count| count <= u64::from(OBJECTS_MAX));
        let blocks =
            blocks.ok_or_else(|| Bad::new(count, "a number of blocks up to 2097152 as second of four"))?;
        let offset = start.checked_mul(SECTOR_BYTES).filter(|_| start.checked_add(blocks).is_some());
        let offset = offset.ok_or_else(|| Bad::new(first, "a block number below 2^55"))?;
        if blocks > 0 {
            let length = (blocks * SECTOR_BYTES) as u32;
            let objects = blocks as u32;
            out.push(Request { object: start, objects, offset, length, ..Request::default() });
        }
        Ok(())
    }
}
