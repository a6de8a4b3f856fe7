//! Names of what the steward decides about. All are chosen by the body and opaque here, but for the
//! frame.

use core::ops::Range;

/// What blocks are charged to: a process, a run, a control group or a user, as the body likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnerId(pub u64);

/// The slot of an owner's record.
pub(crate) type OwnerKey = u32;

/// The common owner: all live owners without control of their own, together. It never exits.
pub(crate) const COMMON: OwnerKey = 0;

/// No owner, for good.
pub(crate) const NOBODY: OwnerKey = u32::MAX;

/// One version of a file. A file that changes gets a new one, so that blocks of different versions
/// never meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u64);

/// A fixed-size, aligned piece of one version of a file (docs/RULES.md, A).
#[derive(Clone, Copy, Debug, derive_more::Display, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[display("{}:{index}", file.0)]
pub struct Block {
    /// The version of the file.
    pub file: FileId,
    /// Offset in the file, in blocks.
    pub index: u64,
}

impl Block {
    /// The block at `index` of `file`.
    pub const fn new(file: FileId, index: u64) -> Self {
        Self { file, index }
    }

    /// The pages of a block of `pages` in its file, before `end`.
    #[inline]
    pub(crate) fn extent(self, pages: u32, end: u64) -> Range<u64> {
        let pages = u64::from(pages);
        let start = self.index.saturating_mul(pages);
        start..start.saturating_add(pages).min(end)
    }

    /// The block `by` blocks further on.
    pub(crate) fn after(self, by: u64) -> Option<Self> {
        Some(Self { index: self.index.checked_add(by)?, ..self })
    }
}

/// A slot of the cache. A block keeps its frame from entry to exit; the number is free again after
/// its drop.
///
/// Numbers are below the capacity, plus the blocks that a body could not drop or could not refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame(pub u32);

/// What a version of a file is called in lower tiers, chosen by the body so that no two versions of
/// any file have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version(pub [u8; 20]);

/// What a block is called in lower tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label {
    /// The version of its file.
    pub version: Version,
    /// Offset in the file, in blocks.
    pub index: u64,
}
