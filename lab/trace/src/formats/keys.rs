//! Big-endian keys of 4 bytes in a row, as Java's `DataOutputStream` writes them.

use super::{Records, bytes};
use crate::Request;
use crate::error::Bad;
use crate::names::Names;

/// Bytes of a key.
pub const WIDTH: usize = 4;

/// The parser.
pub struct Keys;

fn key(record: &[u8]) -> u64 {
    u32::from_be_bytes(bytes(record, 0)).into()
}

/// How many of these keys differ from the one before in their lower half only: keys of one trace
/// lie close together, and arbitrary bytes do not.
pub fn plausible(sample: &[u8]) -> usize {
    let keys: Vec<u64> = sample.chunks_exact(WIDTH).map(key).collect();
    keys.windows(2).filter(|pair| pair[0] >> 16 == pair[1] >> 16).count()
}

impl Records for Keys {
    fn width(&self) -> usize {
        WIDTH
    }

    fn records(&mut self, records: &[u8], _: &mut Names, out: &mut Vec<Request>) -> Result<(), (usize, Bad)> {
        out.extend(records.chunks_exact(WIDTH).map(|record| Request::object(key(record))));
        Ok(())
    }

    fn plain(&mut self, records: &[u8], keys: &mut Vec<u64>, sizes: &mut Vec<u32>) -> bool {
        keys.extend(records.chunks_exact(WIDTH).map(key));
        sizes.resize(keys.len(), Request::object(0).length);
        true
    }
}
