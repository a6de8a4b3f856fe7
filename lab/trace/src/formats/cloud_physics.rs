//! `version,time,op,size,lbn`: CloudPhysics' block traces as text.
//!
//! Times are microseconds, operations SCSI commands in hexadecimal, sizes bytes, and block numbers
//! count sectors of 512 bytes. A first line with these names is passed over. As objects, the sector
//! is the key.

use super::{Lines, SECTOR_BYTES, text};
use crate::Request;
use crate::error::Bad;
use crate::names::Names;

/// The parser.
pub struct CloudPhysics;

/// The first line, where there is one.
const HEADER: &[u8] = b"version,time,op,size,lbn";

impl Lines for CloudPhysics {
    fn line(&mut self, line: &[u8], _: &mut Names, out: &mut Vec<Request>) -> Result<(), Bad> {
        if line.is_empty() || line == HEADER {
            return Ok(());
        }
        let mut fields = line.split(|&byte| byte == b',');
        const FIVE: &str = "five fields: version,time,op,size,lbn";
        let mut next = || fields.next().ok_or_else(|| Bad::new(line, FIVE));
        let (version, time, operation, size, sector) = (next()?, next()?, next()?, next()?, next()?);
        if fields.next().is_some() {
            return Err(Bad::new(line, FIVE));
        }
        let number = |field: &[u8], expected| text::number(field).ok_or_else(|| Bad::new(field, expected));
        number(version, "a version as first field")?;
        let time = number(time, "a time in microseconds as second field")?;
        let write = text::writes(operation)
            .ok_or_else(|| Bad::new(operation, "a SCSI read or write such as 28 or 2a as third field"))?;
        let length = u32::try_from(number(size, "a size in bytes as fourth field")?);
        let length = length.map_err(|_| Bad::new(size, "a size below 4 GiB as fourth field"))?;
        let object = number(sector, "a sector as fifth field")?;
        let offset =
            object.checked_mul(SECTOR_BYTES).ok_or_else(|| Bad::new(sector, "a sector below 2^55"))?;
        let time_ns = Some(time.saturating_mul(1000));
        out.push(Request { time_ns, object, objects: 1, offset, length, write, ..Request::default() });
        Ok(())
    }
}
