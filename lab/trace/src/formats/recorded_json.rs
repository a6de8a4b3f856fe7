//! Recorded traces as text: JSON lines that other programs can write.
//!
//! ```json
//! {"owner":"cscope","file":"/src/cscope.out","offset":8192,"length":4096,"write":false,"time_ns":1234}
//! {"object":17}
//! ```
//!
//! `offset`, in bytes, or `object`, a key, or both: then references are objects by default,
//! `objects` of them in a row. All others may be missing. `owner` and `file` stand in every line or
//! in none.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::Lines;
use crate::error::Bad;
use crate::names::Names;
use crate::{Content, Request};

/// The parser.
#[derive(Default)]
pub struct RecordedJson {
    /// Whether lines have offsets, objects, owners and files, once one was seen.
    shape: Option<[bool; 4]>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    owner: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    file: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    objects: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(default)]
    length: u32,
    #[serde(default)]
    write: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ns: Option<u64>,
}

impl Lines for RecordedJson {
    fn line(&mut self, line: &[u8], names: &mut Names, out: &mut Vec<Request>) -> Result<(), Bad> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        const SHAPE: &str =
            "a JSON object with offset or object, and perhaps owner, file, objects, length, write, time_ns";
        let parsed: Line = serde_json::from_slice(line).map_err(|_| Bad::new(line, SHAPE))?;
        let (offset, object) = match (parsed.offset, parsed.object) {
            (Some(offset), None) => (offset, offset),
            (None, Some(object)) => (0, object),
            (Some(offset), Some(object)) => (offset, object),
            (None, None) => return Err(Bad::new(line, "offset or object")),
        };
        let shape =
            [parsed.offset.is_some(), parsed.object.is_some(), parsed.owner.is_some(), parsed.file.is_some()];
        if *self.shape.get_or_insert(shape) != shape {
            return Err(Bad::new(line, "offset, object, owner and file each in every line or in none"));
        }
        let objects = parsed.objects.unwrap_or(1);
        if !(1..=super::OBJECTS_MAX).contains(&objects) || (objects > 1 && parsed.object.is_none()) {
            return Err(Bad::number(objects, "from 1 to 2097152 objects, beside an object"));
        }
        let owner = parsed.owner.map_or(Ok(0), |name| names.owner(name.as_bytes()))?;
        let file = parsed.file.map_or(Ok(0), |name| names.file(name.as_bytes()))?;
        let Line { length, write, time_ns, .. } = parsed;
        out.push(Request { time_ns, owner, file, object, objects, offset, length, write });
        Ok(())
    }

    fn has_ranges(&self) -> bool {
        self.shape.is_none_or(|shape| shape[0])
    }

    fn counts_objects(&self) -> bool {
        self.shape.is_some_and(|shape| shape[1])
    }
}

/// Writes a request as one line.
pub fn write(
    out: &mut impl Write,
    request: &Request,
    owner: Option<&str>,
    file: Option<&str>,
    content: Content,
) -> io::Result<()> {
    let line = Line {
        owner: owner.map(Cow::Borrowed),
        file: file.map(Cow::Borrowed),
        object: (content != Content::Ranges).then_some(request.object),
        objects: (content == Content::KeyedRanges && request.objects != 1).then_some(request.objects),
        offset: (content != Content::Keys).then_some(request.offset),
        length: request.length,
        write: request.write,
        time_ns: request.time_ns,
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")
}
