//! libCacheSim's `oracleGeneral`: little-endian records of 24 bytes.
//!
//! ```text
//!   0        4                12       16               24
//!   | time s |  object        | size   |  next use      |
//! ```
//!
//! The next use is ignored: it is computed again for what is simulated.

use super::{Records, bytes};
use crate::Request;
use crate::error::Bad;
use crate::names::Names;

/// Bytes in a record.
pub const WIDTH: usize = 24;

/// More requests than any file has.
const REQUESTS_MAX: i64 = 1 << 40;

/// The parser.
pub struct OracleGeneral;

impl Records for OracleGeneral {
    fn width(&self) -> usize {
        WIDTH
    }

    fn records(&mut self, records: &[u8], _: &mut Names, out: &mut Vec<Request>) -> Result<(), (usize, Bad)> {
        out.extend(records.chunks_exact(WIDTH).map(|record| Request {
            object: u64::from_le_bytes(bytes(record, 4)),
            objects: 1,
            length: u32::from_le_bytes(bytes(record, 12)),
            ..Request::default()
        }));
        Ok(())
    }

    fn plain(&mut self, records: &[u8], keys: &mut Vec<u64>, sizes: &mut Vec<u32>) -> bool {
        keys.extend(records.chunks_exact(WIDTH).map(|record| u64::from_le_bytes(bytes(record, 4))));
        sizes.extend(records.chunks_exact(WIDTH).map(|record| u32::from_le_bytes(bytes(record, 12))));
        true
    }
}

/// How many of these records look right: time does not run back, and the next use is later or
/// never.
pub fn plausible(sample: &[u8]) -> usize {
    let mut before = 0;
    let records = sample.chunks_exact(WIDTH).enumerate();
    records
        .filter(|(at, record)| {
            let time = u32::from_le_bytes(bytes(record, 0));
            let next = i64::from_le_bytes(bytes(record, 16));
            let forward = time >= before;
            before = time;
            // Writers disagree on "never": -1, -2, or the largest number.
            let never = matches!(next, -1 | -2 | i64::MAX);
            forward && (never || (*at as i64 + 1..REQUESTS_MAX).contains(&next))
        })
        .count()
}
