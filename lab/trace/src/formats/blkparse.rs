//! What `blkparse` prints: `major,minor cpu sequence seconds pid action rwbs sector + sectors
//! [process]`.
//!
//! One action counts, the first of Q (queued), D (issued) and C (completed) that turns up: a
//! request passes through all three. Discards and flushes are left out, and so is the summary at
//! the end. Devices are files, processes owners.

use super::{Lines, SECTOR_BYTES, text};
use crate::Request;
use crate::error::Bad;
use crate::names::Names;

/// The parser.
#[derive(Default)]
pub struct Blkparse {
    /// The action that counts.
    action: Option<u8>,
    /// The summary began.
    summary: bool,
}

const SHAPE: &str = "major,minor cpu sequence seconds pid action rwbs sector + sectors [process]";

impl Lines for Blkparse {
    fn line(&mut self, line: &[u8], names: &mut Names, out: &mut Vec<Request>) -> Result<(), Bad> {
        let mut words = text::words(line);
        let Some(device) = words.next() else { return Ok(()) };
        self.summary |= self.action.is_some() && (device.starts_with(b"CPU") || device.starts_with(b"Total"));
        if self.summary {
            return Ok(());
        }
        let mut next = || words.next().ok_or_else(|| Bad::new(line, SHAPE));
        let parts = device.split(|&byte| byte == b',').filter(|part| text::number(part).is_some());
        if parts.count() != 2 {
            return Err(Bad::new(device, "a device such as 8,0 as first word"));
        }
        let (_cpu, _sequence, time, _pid) = (next()?, next()?, next()?, next()?);
        let time_ns = text::seconds(time).ok_or_else(|| Bad::new(time, "seconds as fourth word"))?;
        let (action, flags) = (next()?, next()?);
        let counted = match (self.action, action) {
            (Some(chosen), &[action]) => action == chosen,
            (None, b"Q" | b"D" | b"C") => true,
            _ => false,
        };
        let write = flags.contains(&b'W');
        if !counted || !(write || flags.contains(&b'R')) {
            return Ok(());
        }
        let (sector, plus, sectors) = (next()?, next()?, next()?);
        let number = |word| text::number(word).ok_or_else(|| Bad::new(line, SHAPE));
        let (object, sectors) = (number(sector)?, number(sectors)?);
        let offset = object.checked_mul(SECTOR_BYTES);
        let length = sectors.checked_mul(SECTOR_BYTES).and_then(|bytes| u32::try_from(bytes).ok());
        let (Some(offset), Some(length), b"+") = (offset, length, plus) else {
            return Err(Bad::new(line, SHAPE));
        };
        self.action = Some(action[0]);
        if length > 0 {
            let process = line.iter().rposition(|&byte| byte == b'[').map(|at| &line[at + 1..]);
            let process = process.map(|name| name.trim_ascii_end()).and_then(|name| name.strip_suffix(b"]"));
            let owner = names.owner(process.unwrap_or(b"?"))?;
            let file = names.file(device)?;
            let time_ns = Some(time_ns);
            out.push(Request { time_ns, owner, file, object, objects: 1, offset, length, write });
        }
        Ok(())
    }
}
