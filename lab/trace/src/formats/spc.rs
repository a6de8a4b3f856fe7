//! `unit,sector,size,r|w,seconds`: the Storage Performance Council's text form, as in the UMass
//! trace repository.
//!
//! Sectors have 512 bytes, sizes are bytes. Each unit is a file. Further fields are ignored. As
//! objects, the sector is the key.

use super::{Lines, SECTOR_BYTES, text};
use crate::Request;
use crate::error::Bad;
use crate::names::Names;

/// The parser.
pub struct Spc;

impl Lines for Spc {
    fn line(&mut self, line: &[u8], names: &mut Names, out: &mut Vec<Request>) -> Result<(), Bad> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let mut fields = line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        const FIVE: &str = "five fields: unit,sector,size,r|w,seconds";
        let mut next = || fields.next().ok_or_else(|| Bad::new(line, FIVE));
        let (unit, sector, size, operation, time) = (next()?, next()?, next()?, next()?, next()?);
        let number = |field: &[u8], expected| text::number(field).ok_or_else(|| Bad::new(field, expected));
        number(unit, "a number as first field, the unit")?;
        let object = number(sector, "a sector as second field")?;
        let offset =
            object.checked_mul(SECTOR_BYTES).ok_or_else(|| Bad::new(sector, "a sector below 2^55"))?;
        let length = u32::try_from(number(size, "a size in bytes as third field")?);
        let length = length.map_err(|_| Bad::new(size, "a size below 4 GiB as third field"))?;
        let write = match operation {
            b"r" | b"R" => false,
            b"w" | b"W" => true,
            _ => return Err(Bad::new(operation, "r or w as fourth field")),
        };
        let time_ns = text::seconds(time).ok_or_else(|| Bad::new(time, "seconds as fifth field"))?;
        let file = names.file(unit)?;
        out.push(Request {
            time_ns: Some(time_ns),
            file,
            object,
            objects: 1,
            offset,
            length,
            write,
            owner: 0,
        });
        Ok(())
    }
}
