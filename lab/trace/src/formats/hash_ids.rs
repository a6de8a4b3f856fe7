//! JSON lines with a list `hash_ids`: the key-value cache of a language model, one request per
//! line.
//!
//! ```json
//! {"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2]}
//! ```
//!
//! Each id is one reference, in order. Other fields are ignored.

use serde::Deserialize;

use super::Lines;
use crate::Request;
use crate::error::Bad;
use crate::names::Names;

/// The parser.
pub struct HashIds;

#[derive(Deserialize)]
struct Line {
    hash_ids: Vec<u64>,
}

impl Lines for HashIds {
    fn line(&mut self, line: &[u8], _: &mut Names, out: &mut Vec<Request>) -> Result<(), Bad> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let parsed: Line = serde_json::from_slice(line)
            .map_err(|_| Bad::new(line, "a JSON object with \"hash_ids\", a list of numbers from 0"))?;
        out.extend(parsed.hash_ids.into_iter().map(Request::object));
        Ok(())
    }
}
