//! Virtual SCSI traces, as CloudPhysics published them: little-endian records, version 1 or 2.
//!
//! ```text
//!   version 1, 32 bytes                            version 2, 40 bytes
//!    0 serial number  u32                           0 command          u16
//!    4 bytes          u32                           2 version << 8     u16
//!    8 segments       u32                           4 serial number    u32
//!   12 command        u16                           8 bytes            u32
//!   14 version << 8   u16                          12 segments         u32
//!   16 sector         u64                          16 sector           u64
//!   24 time us        u64                          24 time us          u64
//!                                                  32 response time    u64
//! ```
//!
//! As objects, the sector is the key and each record one reference.

use super::{Records, SECTOR_BYTES, bytes};
use crate::Request;
use crate::error::Bad;
use crate::names::Names;

/// More sectors than any disk has. Big-endian keys read as a sector are larger.
const SECTORS_MAX: u64 = 1 << 48;

/// The layout of one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vscsi {
    version: u8,
}

impl Vscsi {
    /// The version of a trace by its first records; version 1 where neither fits.
    pub fn of(sample: &[u8]) -> Vscsi {
        let [one, two] = [Vscsi { version: 1 }, Vscsi { version: 2 }];
        if two.plausible(sample) > one.plausible(sample) { two } else { one }
    }

    /// How many of these records carry the version where it belongs, and a sector that some disk
    /// has.
    pub fn plausible(self, sample: &[u8]) -> usize {
        let sector = |record: &[u8]| u64::from_le_bytes(bytes(record, 16));
        let right = |record: &&[u8]| self.version_of(record) == self.version && sector(record) < SECTORS_MAX;
        sample.chunks_exact(self.width()).filter(right).count()
    }

    fn version_of(self, record: &[u8]) -> u8 {
        record[if self.version == 1 { 15 } else { 3 }]
    }

    fn request(self, record: &[u8]) -> Result<Request, Bad> {
        if self.version_of(record) != self.version {
            let expected =
                if self.version == 1 { "version 1 in the record" } else { "version 2 in the record" };
            return Err(Bad::number(self.version_of(record), expected));
        }
        let (command, length) = if self.version == 1 { (12, 4) } else { (0, 8) };
        let object = u64::from_le_bytes(bytes(record, 16));
        let offset =
            object.checked_mul(SECTOR_BYTES).ok_or_else(|| Bad::number(object, "a sector below 2^55"))?;
        Ok(Request {
            object,
            objects: 1,
            offset,
            length: u32::from_le_bytes(bytes(record, length)),
            write: matches!(u16::from_le_bytes(bytes(record, command)), 0x0a | 0x2a | 0x8a | 0xaa),
            ..Request::default()
        })
    }
}

impl Records for Vscsi {
    fn width(&self) -> usize {
        if self.version == 1 { 32 } else { 40 }
    }

    fn records(&mut self, records: &[u8], _: &mut Names, out: &mut Vec<Request>) -> Result<(), (usize, Bad)> {
        for (at, record) in records.chunks_exact(self.width()).enumerate() {
            out.push(self.request(record).map_err(|bad| (at, bad))?);
        }
        Ok(())
    }
}
