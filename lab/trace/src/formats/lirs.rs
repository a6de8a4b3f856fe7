//! One block number per line; a line `*` is skipped.
//!
//! The form of the traces that come with the LIRS and ULC papers. Empty lines and the end-of-file
//! mark of DOS are skipped too, because some of those files end with them.

use super::{Lines, text};
use crate::Request;
use crate::error::Bad;
use crate::names::Names;

/// The parser.
pub struct Lirs;

impl Lines for Lirs {
    fn line(&mut self, line: &[u8], _: &mut Names, out: &mut Vec<Request>) -> Result<(), Bad> {
        let word = line.trim_ascii();
        if word.is_empty() || word == b"*" || word == b"\x1a" {
            return Ok(());
        }
        let block = text::number(word).ok_or_else(|| Bad::new(line, "one block number in a line"))?;
        out.push(Request::object(block));
        Ok(())
    }
}
