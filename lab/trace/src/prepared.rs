//! A prepared trace: columns of small numbers, ready to be simulated over and over.
//!
//! ```text
//!   per request   requests   0 1 2 1 0 ...      the block's id
//!                 next uses  4 3 - - - ...      where it is referenced next
//!                 owners     0 0 1 1 0 ...      of each; only where the trace knows several
//!   per id        blocks     which block of its file, or the key as given
//!                 files      which file; only where the trace knows several
//!                 sizes      bytes at the first reference; only where they differ
//! ```
//!
//! P1  Ids are dense, and numbered in order of first use: the first request is 0, and each is at
//!     most one more than the largest before it.
//! P2  `next_uses[t]` is the next position of `requests[t]`, or [`NEVER`].
//! P3  Columns per request are as long as `requests`, columns per id as there are ids; `blocks` is
//!     empty where names were forgotten.
//! P4  Owners and files are indices into their names, where there are names; owners are at most
//!     65,535.
//! P5  One number says the bytes of every object, or there is a column, or they are unknown; under
//!     [`Unit::Block`] the unit says it.

use std::sync::{Mutex, OnceLock, PoisonError};

use crate::Unit;

/// The position after the last: a block is not referenced again.
pub const NEVER: u32 = u32::MAX;

/// A block by its file and its place there. In traces of plain keys all belong to file 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Block {
    /// Index into [`Prepared::file_names`]; 0 where the trace knows no files.
    pub file: u32,
    /// Number of the block in its file, or the key as given.
    pub index: u64,
}

/// A trace with dense ids as names of its blocks.
#[derive(Debug, Default)]
pub struct Prepared {
    pub(crate) unit: Unit,
    pub(crate) requests: Vec<u32>,
    pub(crate) next_uses: OnceLock<Vec<u32>>,
    /// Held while next uses are computed, so that they are computed once.
    pub(crate) computing: Mutex<()>,
    pub(crate) owners: Option<Vec<u16>>,
    pub(crate) owner_names: Vec<String>,
    pub(crate) distinct: u32,
    pub(crate) blocks: Vec<u64>,
    pub(crate) files: Option<Vec<u32>>,
    pub(crate) file_names: Vec<String>,
    pub(crate) sizes: Option<Vec<u32>>,
    /// Bytes of every object, where all are equal and known; else 0.
    pub(crate) object_bytes: u32,
}

impl Prepared {
    /// The block's id for each reference (P1).
    pub fn requests(&self) -> &[u32] {
        &self.requests
    }

    /// How many different blocks are referenced; ids are `0..distinct()`.
    pub fn distinct(&self) -> u32 {
        self.distinct
    }

    /// For each reference the position of the next one to the same block, or [`NEVER`] (P2).
    ///
    /// Computed when asked for the first time: 4 bytes per reference.
    pub fn next_uses(&self) -> &[u32] {
        self.next_uses_while(&|_| true).expect("nobody stopped it")
    }

    /// The same, for as long as `go_on` says so; `None` once it does not, and what was begun is
    /// forgotten. It is told how many references were looked at since it was asked last, and
    /// nothing of what was computed before.
    pub fn next_uses_while(&self, go_on: &dyn Fn(usize) -> bool) -> Option<&[u32]> {
        if self.next_uses.get().is_none() {
            // The second caller waits, and a panic leaves nothing half done.
            let _computing = self.computing.lock().unwrap_or_else(PoisonError::into_inner);
            if self.next_uses.get().is_none() {
                let computed = next_uses(self.requests(), self.distinct(), go_on)?;
                self.next_uses.get_or_init(|| computed);
            }
        }
        self.next_uses.get().map(Vec::as_slice)
    }

    /// Whether next uses are there already.
    pub fn has_next_uses(&self) -> bool {
        self.next_uses.get().is_some()
    }

    /// For each reference its owner; `None` where everything has one owner.
    pub fn owners(&self) -> Option<&[u16]> {
        self.owners.as_deref()
    }

    /// Names of owners. Empty where the trace knows none; one where everything is its.
    pub fn owner_names(&self) -> &[String] {
        &self.owner_names
    }

    /// The file of each id; `None` where all belong to one.
    pub fn files(&self) -> Option<&[u32]> {
        self.files.as_deref()
    }

    /// Names of files. Empty where the trace knows none.
    pub fn file_names(&self) -> &[String] {
        &self.file_names
    }

    /// For each id the number of the block in its file, or the key as given; empty once they were
    /// [forgotten](Self::forget_blocks).
    pub fn blocks(&self) -> &[u64] {
        &self.blocks
    }

    /// Forgets which blocks ids name, and of which files they are: 8 bytes for each id, and a
    /// simulation of policies needs ids only. From now on each block is named by its id.
    pub fn forget_blocks(&mut self) {
        self.blocks = Vec::new();
        self.files = None;
    }

    /// Which block an id names.
    pub fn block_of(&self, id: u32) -> Block {
        let file = self.files().map_or(0, |files| files[id as usize]);
        let index = if self.blocks.is_empty() { id.into() } else { self.blocks[id as usize] };
        Block { file, index }
    }

    /// Bytes of each id as of its first reference; `None` where the trace does not say, or all are
    /// equal: then [`equal_bytes`](Prepared::equal_bytes) knows.
    pub fn sizes(&self) -> Option<&[u32]> {
        self.sizes.as_deref()
    }

    /// Bytes of every block, where all have as many: what the unit says, or the trace of each
    /// object. `None` where sizes differ, or the trace does not say.
    ///
    /// ```
    /// use pantler_trace::{PreparedBuilder, Unit};
    ///
    /// let mut builder = PreparedBuilder::new(Unit::Object);
    /// builder.plain(&[1, 2, 1], &[4096; 3]).unwrap();
    /// assert_eq!(builder.finish(Vec::new(), Vec::new()).equal_bytes(), Some(4096));
    /// ```
    pub fn equal_bytes(&self) -> Option<u32> {
        match self.unit {
            Unit::Block(bytes) => Some(bytes),
            Unit::Object => (self.object_bytes > 0).then_some(self.object_bytes),
        }
    }

    /// What one reference is.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// Recomputes from scratch what the columns claim, and panics with the number of the invariant
    /// that fails.
    pub fn validate(&self) {
        let mut known = 0;
        for &id in self.requests() {
            assert!(id <= known, "P1: {id} after {known} ids");
            known += u32::from(id == known);
        }
        assert_eq!(known, self.distinct(), "P1");
        let (requests, distinct) = (self.requests.len(), self.distinct as usize);
        assert!(self.blocks.is_empty() || self.blocks.len() == distinct, "P3");
        assert_eq!(self.next_uses().len(), requests, "P3");
        // Forwards, where the computation goes backwards.
        let mut last: Vec<Option<usize>> = vec![None; distinct];
        let mut expected = vec![NEVER; requests];
        for (at, &id) in self.requests().iter().enumerate() {
            if let Some(before) = last[id as usize].replace(at) {
                expected[before] = at as u32;
            }
        }
        assert!(self.next_uses() == expected, "P2");
        assert!(self.owners().is_none_or(|owners| owners.len() == requests), "P3");
        assert!(self.files().is_none_or(|files| files.len() == distinct), "P3");
        assert!(self.sizes().is_none_or(|sizes| sizes.len() == distinct), "P3");
        assert!(self.object_bytes == 0 || (self.sizes().is_none() && self.unit == Unit::Object), "P5");
        let named = |names: &[String], index: usize| index < names.len().max(1);
        assert!(
            self.owners()
                .is_none_or(|owners| owners.iter().all(|&owner| named(&self.owner_names, owner.into()))),
            "P4"
        );
        assert!(
            self.files().is_none_or(|files| files.iter().all(|&file| named(&self.file_names, file as usize))),
            "P4"
        );
    }
}

/// References between two questions whether to go on: a fraction of a millisecond.
const NEXT_USES_BATCH: usize = 1 << 16;

/// One pass from the end, with the position seen last for each id.
fn next_uses(requests: &[u32], distinct: u32, go_on: &dyn Fn(usize) -> bool) -> Option<Vec<u32>> {
    let mut seen = vec![NEVER; distinct as usize];
    let mut next = vec![NEVER; requests.len()];
    let batches = requests.chunks(NEXT_USES_BATCH).zip(next.chunks_mut(NEXT_USES_BATCH));
    for (batch, (ids, next)) in batches.enumerate().rev() {
        for (at, (&id, next)) in ids.iter().zip(next).enumerate().rev() {
            *next = std::mem::replace(&mut seen[id as usize], (batch * NEXT_USES_BATCH + at) as u32);
        }
        if !go_on(ids.len()) {
            return None;
        }
    }
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_trace_is_a_trace() {
        let trace = Prepared::from_ids([]);
        trace.validate();
        assert_eq!(trace.distinct(), 0);
        assert!(trace.next_uses().is_empty());
    }

    #[test]
    fn next_uses_stop_when_told_and_begin_again() {
        let length = 3 * NEXT_USES_BATCH as u64 + 5;
        let trace = Prepared::from_ids((0..length).map(|at| at % 1009));
        let seen = std::cell::Cell::new(0);
        let some = |references| {
            seen.set(seen.get() + references);
            seen.get() < 2 * NEXT_USES_BATCH
        };
        assert!(trace.next_uses_while(&some).is_none());
        assert!(seen.get() < length as usize, "it went on to the end");
        trace.validate();
        assert!(trace.next_uses_while(&|_| false).is_some(), "what is there need not be computed");
    }

    #[test]
    fn forgotten_blocks_are_named_by_their_ids() {
        let mut trace = Prepared::from_ids([70, 30, 70]);
        trace.forget_blocks();
        trace.validate();
        assert_eq!((trace.requests(), trace.distinct()), (&[0, 1, 0][..], 2));
        assert_eq!(trace.block_of(1), Block { file: 0, index: 1 });
    }

    proptest! {
        #[test]
        fn keys_come_back(keys in prop::collection::vec(0_u64..60, 0..400)) {
            let trace = Prepared::from_ids(keys.iter().map(|key| key << 33));
            trace.validate();
            let back: Vec<u64> = trace.requests().iter().map(|&id| trace.block_of(id).index >> 33).collect();
            prop_assert_eq!(back, keys);
        }
    }
}
