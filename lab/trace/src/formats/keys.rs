//! Big-endian keys in a row, 4 or 8 bytes each, as Java's `DataOutputStream` writes them.

use super::{Records, bytes};
use crate::Request;
use crate::error::Bad;
use crate::names::Names;

/// Keys of `WIDTH` bytes.
pub struct Keys<const WIDTH: usize>;

impl<const WIDTH: usize> Keys<WIDTH> {
    fn key(record: &[u8]) -> u64 {
        match WIDTH {
            4 => u64::from(u32::from_be_bytes(bytes(record, 0))),
            _ => u64::from_be_bytes(bytes(record, 0)),
        }
    }

    /// How many of these keys differ from the one before in their lower half only: keys of one
    /// trace lie close together, and arbitrary bytes do not.
    pub fn plausible(sample: &[u8]) -> usize {
        let keys: Vec<u64> = sample.chunks_exact(WIDTH).map(Self::key).collect();
        let half = WIDTH as u32 * 4;
        keys.windows(2).filter(|pair| pair[0] >> half == pair[1] >> half).count()
    }
}

impl<const WIDTH: usize> Records for Keys<WIDTH> {
    fn width(&self) -> usize {
        WIDTH
    }

    fn records(&mut self, records: &[u8], _: &mut Names, out: &mut Vec<Request>) -> Result<(), (usize, Bad)> {
        out.extend(records.chunks_exact(WIDTH).map(|record| Request::object(Self::key(record))));
        Ok(())
    }

    fn plain(&mut self, records: &[u8], keys: &mut Vec<u64>, sizes: &mut Vec<u32>) -> bool {
        keys.extend(records.chunks_exact(WIDTH).map(Self::key));
        sizes.resize(keys.len(), Request::object(0).length);
        true
    }
}
