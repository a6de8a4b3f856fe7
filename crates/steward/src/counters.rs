//! Counters, by owner, priority and file.

/// What happened to an owner, or to all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// References to blocks.
    pub references: u64,
    /// References that met a cached block, those to a block on its way included.
    pub hits: u64,
    /// References that brought a block in.
    pub misses: u64,
    /// Victims that a manager chose instead of the candidate (rule L4).
    pub overrules: u64,
    /// Overrules that a later miss proved wrong (rule L2).
    pub mistakes: u64,
    /// Times that control was lost (rule L7).
    pub revocations: u64,
    /// Blocks held now.
    pub blocks: u32,
}

impl Counters {
    pub(crate) fn add(&mut self, other: &Self) {
        self.references += other.references;
        self.hits += other.hits;
        self.misses += other.misses;
        self.overrules += other.overrules;
        self.mistakes += other.mistakes;
        self.revocations += other.revocations;
    }
}

/// What happened to the blocks of one file or of one priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// References that met a cached block.
    pub hits: u64,
    /// References that brought a block in.
    pub misses: u64,
}
