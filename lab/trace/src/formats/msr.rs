//! `timestamp,host,disk,Read|Write,offset,size,response`: the block traces of MSR Cambridge.
//!
//! Offset and size are bytes. Each disk of a host is a file. As objects, the offset is the key. A
//! first line with the names of the columns is passed over.

use super::{Lines, text};
use crate::Request;
use crate::error::Bad;
use crate::names::Names;

/// The parser.
#[derive(Default)]
pub struct Msr {
    name: Vec<u8>,
}

impl Lines for Msr {
    fn line(&mut self, line: &[u8], names: &mut Names, out: &mut Vec<Request>) -> Result<(), Bad> {
        if line.is_empty() {
            return Ok(());
        }
        let mut fields = line.split(|&byte| byte == b',');
        let mut next = |expected| fields.next().ok_or_else(|| Bad::new(line, expected));
        const SEVEN: &str = "seven fields: timestamp,host,disk,Read|Write,offset,size,response";
        let (time, host, disk) = (next(SEVEN)?, next(SEVEN)?, next(SEVEN)?);
        let (operation, offset, size) = (next(SEVEN)?, next(SEVEN)?, next(SEVEN)?);
        next(SEVEN)?;
        if self.name.is_empty() && time.eq_ignore_ascii_case(b"timestamp") {
            return Ok(());
        }
        let number = |field: &[u8], expected| text::number(field).ok_or_else(|| Bad::new(field, expected));
        number(time, "a timestamp in tenths of microseconds as first field")?;
        let write =
            text::writes(operation).ok_or_else(|| Bad::new(operation, "Read or Write as fourth field"))?;
        let offset = number(offset, "an offset in bytes as fifth field")?;
        let length = u32::try_from(number(size, "a size in bytes as sixth field")?);
        let length = length.map_err(|_| Bad::new(size, "a size below 4 GiB as sixth field"))?;
        self.name.clear();
        self.name.extend_from_slice(host);
        self.name.push(b'.');
        self.name.extend_from_slice(disk);
        let file = names.file(&self.name)?;
        out.push(Request { file, object: offset, objects: 1, offset, length, write, owner: 0 });
        Ok(())
    }
}
