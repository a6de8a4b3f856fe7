//! libCacheSim's `lcs`: a header of 8192 bytes (1024 in older files), then little-endian records.
//!
//! ```text
//!   header   0  magic 0x123456789abcdef0   8  version   16 .. statistics ..   magic at its end
//!
//!   version 1     time s u32 | object u64 | size u32 | next use i64                      24 bytes
//!   version 2     time s u32 | object u64 | size u32 | op u8, tenant u24 | next use i64  28 bytes
//!   version 3..8  time s u32 | object u64 | size i64 | op u8, tenant u24 | ttl u32 |
//!                 next use i64 | 0, 1, 2, 4, 8 or 16 features u32   36, 40, 44, 52, 68, 100 bytes
//! ```
//!
//! Tenants are owners. Operations are numbers; what writes is not told apart.

use std::collections::HashMap;

use super::{Records, bytes};
use crate::Request;
use crate::error::Bad;
use crate::names::Names;

/// First and last eight bytes of a header.
pub const MAGIC: [u8; 8] = 0x1234_5678_9abc_def0_u64.to_le_bytes();
/// Bytes in a header, now and earlier.
pub const HEADER_BYTES: [usize; 2] = [8192, 1024];
/// Bytes in a record, by version from 1.
const WIDTHS: [usize; 8] = [24, 28, 36, 40, 44, 52, 68, 100];

/// The layout of one version, and the tenants seen.
pub struct Lcs {
    version: u64,
    /// Owners by tenant.
    owners: HashMap<u32, u32>,
}

impl Lcs {
    /// Reads a header from the first bytes of a file: the parser, and the bytes that the header
    /// takes.
    pub fn of(head: &[u8]) -> Result<(Lcs, usize), Bad> {
        if !head.starts_with(&MAGIC) {
            return Err(Bad::new(&head[..head.len().min(8)], "an lcs header"));
        }
        let ends = |&length: &usize| head.len() >= length && head[..length].ends_with(&MAGIC);
        let length = HEADER_BYTES.into_iter().find(ends);
        let length =
            length.ok_or_else(|| Bad::number(head.len(), "a whole lcs header, 8192 or 1024 bytes"))?;
        let version = u64::from_le_bytes(bytes(head, 8));
        if !(1..=WIDTHS.len() as u64).contains(&version) {
            return Err(Bad::number(version, "an lcs version from 1 to 8"));
        }
        Ok((Lcs { version, owners: HashMap::new() }, length))
    }

    fn request(&mut self, record: &[u8], names: &mut Names) -> Result<Request, Bad> {
        let time_ns = Some(u64::from(u32::from_le_bytes(bytes(record, 0))) * 1_000_000_000);
        let object = u64::from_le_bytes(bytes(record, 4));
        let length = if self.version < 3 {
            u32::from_le_bytes(bytes(record, 12))
        } else {
            let size = i64::from_le_bytes(bytes(record, 12));
            u32::try_from(size).map_err(|_| Bad::number(size, "an object size from 0 to 4 GiB"))?
        };
        let owner = match self.version {
            1 => 0,
            2 => self.tenant(u32::from_le_bytes(bytes(record, 16)), names)?,
            _ => self.tenant(u32::from_le_bytes(bytes(record, 20)), names)?,
        };
        Ok(Request { time_ns, owner, object, objects: 1, length, ..Request::default() })
    }

    fn tenant(&mut self, word: u32, names: &mut Names) -> Result<u32, Bad> {
        let tenant = word >> 8;
        if let Some(&owner) = self.owners.get(&tenant) {
            return Ok(owner);
        }
        let owner = names.owner(tenant.to_string().as_bytes())?;
        self.owners.insert(tenant, owner);
        Ok(owner)
    }
}

impl Records for Lcs {
    fn width(&self) -> usize {
        WIDTHS[self.version as usize - 1]
    }

    fn records(
        &mut self,
        records: &[u8],
        names: &mut Names,
        out: &mut Vec<Request>,
    ) -> Result<(), (usize, Bad)> {
        for (at, record) in records.chunks_exact(self.width()).enumerate() {
            out.push(self.request(record, names).map_err(|bad| (at, bad))?);
        }
        Ok(())
    }
}
