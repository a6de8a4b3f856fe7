//! How blocks, files and owners are found: by the hash of their names, or by names that are
//! numbers.

mod hashed;
mod numbered;

use alloc::vec::Vec;

use self::hashed::HashedIndex;
use self::numbered::NumberedIndex;
use crate::{Block, FileId, Names};

/// Files and owners are found as if they were blocks of this name.
#[inline]
pub(crate) const fn named(number: u64) -> Block {
    Block::new(FileId(0), number)
}

/// Gives a record a number: a free one, or the next.
#[inline]
pub(crate) fn put<T>(records: &mut Vec<T>, free: &mut Vec<u32>, record: T) -> u32 {
    let Some(number) = free.pop() else {
        records.push(record);
        return records.len() as u32 - 1;
    };
    records[number as usize] = record;
    number
}

/// For how many numbers a table is made that shall have `number`: an eighth more. To double it
/// would leave up to half of it unused, which counts where a limit holds everything.
#[inline]
pub(crate) const fn grown(number: u32) -> u32 {
    number.saturating_add(number / 8).saturating_add(8)
}

/// Finds numbers by the blocks that they stand for.
#[derive(Clone, Debug)]
pub(crate) enum BlockIndex {
    Hashed(HashedIndex),
    Numbered(NumberedIndex),
}

macro_rules! each {
    ($self:expr, $index:ident => $body:expr) => {
        match $self {
            Self::Hashed($index) => $body,
            Self::Numbered($index) => $body,
        }
    };
}

impl BlockIndex {
    pub(crate) fn new(names: Names, seed: u64) -> Self {
        match names {
            Names::Any => Self::Hashed(HashedIndex::new(seed)),
            Names::Numbers => Self::Numbered(NumberedIndex::default()),
        }
    }

    pub(crate) fn len(&self) -> u32 {
        each!(self, index => index.len())
    }

    /// The number that stands for `block`; `is` says whether one does. It is asked rarely more than
    /// once.
    #[inline]
    pub(crate) fn find(&self, block: Block, is: impl Fn(u32) -> bool) -> Option<u32> {
        each!(self, index => index.find(block, is))
    }

    /// Says that `block` will be looked for soon.
    #[inline]
    pub(crate) fn prefetch(&self, block: Block) {
        each!(self, index => index.prefetch(block));
    }

    /// Adds a number for `block`, which has none yet.
    #[inline]
    pub(crate) fn insert(&mut self, block: Block, value: u32) {
        each!(self, index => index.insert(block, value));
    }

    /// Removes the number of `block`.
    #[inline]
    pub(crate) fn remove(&mut self, block: Block, value: u32) {
        each!(self, index => index.remove(block, value));
    }

    /// Checks the index, given the block that each number stands for.
    pub(crate) fn validate(&self, block_of: impl Fn(u32) -> Block) {
        each!(self, index => index.validate(block_of));
    }
}
