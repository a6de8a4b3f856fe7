//! What a generator gives.

/// One reference of a generated trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reference {
    /// The owner: index into the names of the specification; 0 where there is one process.
    pub owner: u32,
    /// Of which file; each process of a mix has one of its own.
    pub file: u32,
    /// Number of the block.
    pub block: u64,
}
