//! One range of an access list, and what is wrong with bad ones.

use alloc::vec::Vec;
use core::iter;

use crate::{FileId, HintError};

/// Blocks `first..=last` of a file, read in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The version of the file.
    pub file: FileId,
    /// The first block.
    pub first: u64,
    /// The last block.
    pub last: u64,
}

impl Chunk {
    /// A whole file of `blocks` blocks. `None` for an empty one, which has nothing to read.
    pub const fn whole(file: FileId, blocks: u64) -> Option<Self> {
        match blocks.checked_sub(1) {
            Some(last) => Some(Self { file, first: 0, last }),
            None => None,
        }
    }

    /// The blocks that hold the bytes `start..end` of a file, as programs give them.
    ///
    /// # Errors
    ///
    /// [`HintError::NegativeRange`] and [`HintError::EmptyBytes`].
    pub fn of_bytes(file: FileId, start: i64, end: i64, block_bytes: u32) -> Result<Self, HintError> {
        let bytes = u64::from(block_bytes.max(1));
        match (u64::try_from(start), u64::try_from(end)) {
            (Ok(from), Ok(to)) if from < to => Ok(Self { file, first: from / bytes, last: (to - 1) / bytes }),
            (Ok(_), Ok(_)) => Err(HintError::EmptyBytes { start, end }),
            _ => Err(HintError::NegativeRange { start, end }),
        }
    }

    /// Steps, one per block.
    pub(crate) const fn steps(&self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }
}

/// Checks ranges that follow `before`, and cuts off what a range shares with the one before it, as
/// neighbouring ranges in bytes do: the block in which that one ends, or more if this range begins
/// inside and goes on beyond. One block of both is one step, because P2 matches further references
/// to it. A range that begins anew is another pass.
pub(super) fn check(before: Option<Chunk>, chunks: &[Chunk]) -> Result<Vec<Chunk>, HintError> {
    let mut accepted: Vec<Chunk> = Vec::with_capacity(chunks.len());
    let befores = iter::once(before).chain(chunks.iter().copied().map(Some));
    for (before, &chunk) in befores.zip(chunks) {
        let Chunk { file, first, last } = chunk;
        if last < first {
            return Err(HintError::EmptyRange { first, last });
        }
        let shared = before.filter(|before| {
            let goes_on = before.first < first && first < before.last && before.last < last;
            before.file == file && (first == before.last || goes_on)
        });
        match shared {
            Some(before) if last == before.last => {}
            Some(before) => accepted.push(Chunk { first: before.last + 1, ..chunk }),
            None => accepted.push(chunk),
        }
    }
    Ok(accepted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId(1);

    const fn chunk(first: u64, last: u64) -> Chunk {
        Chunk { file: FILE, first, last }
    }

    #[test]
    fn bytes_become_blocks_and_nonsense_an_error() {
        assert_eq!(Chunk::of_bytes(FILE, 0, 6000, 4096), Ok(chunk(0, 1)));
        assert_eq!(Chunk::of_bytes(FILE, 4096, 8192, 4096), Ok(chunk(1, 1)));
        let negative = Chunk::of_bytes(FILE, -1, 5, 4096).unwrap_err();
        assert_eq!(alloc::format!("{negative}"), "bytes -1 to 5 begin or end before the file does");
        assert_eq!(Chunk::of_bytes(FILE, 5, 5, 4096), Err(HintError::EmptyBytes { start: 5, end: 5 }));
        assert_eq!(Chunk::whole(FILE, 0), None);
    }

    #[test]
    fn overlaps_are_cut_and_passes_are_not() {
        let checked = check(None, &[chunk(0, 4), chunk(4, 7), chunk(7, 7), chunk(0, 9), chunk(3, 5)]);
        assert_eq!(checked, Ok(alloc::vec![chunk(0, 4), chunk(5, 7), chunk(0, 9), chunk(3, 5)]));
        assert_eq!(check(Some(chunk(0, 4)), &[chunk(2, 6)]), Ok(alloc::vec![chunk(5, 6)]));
        // Ranges smaller than a block, and one that begins where they were.
        let small = [chunk(3, 3), chunk(3, 3), chunk(3, 3), chunk(3, 5), chunk(5, 5), chunk(5, 5)];
        assert_eq!(check(None, &small), Ok(alloc::vec![chunk(3, 3), chunk(4, 5)]));
        assert_eq!(check(Some(chunk(3, 3)), &small[..3]), Ok(alloc::vec![]));
        assert_eq!(check(None, &[chunk(5, 4)]), Err(HintError::EmptyRange { first: 5, last: 4 }));
    }
}
