//! Counters, by owner and file.
//!
//! Each reference is one of three: a hit, the first use of a block that was prefetched, or a miss.
//! A block that was prefetched had to be read like one that was missed, so its first use is no hit.

/// What happened to an owner, or to all. Bodies count files in them, too: what is counted by owner
/// only stays 0 there. Sums are over owners: blocks held now are no sum over time.
#[derive(Clone, Copy, Debug, Default, derive_more::Add, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Counters {
    /// References to blocks.
    pub references: u64,
    /// References that met a block which an earlier reference brought in or used, one in flight
    /// included.
    pub hits: u64,
    /// First references to blocks that were prefetched, by lookahead or an access list.
    pub ahead_used: u64,
    /// References that brought a block in.
    pub misses: u64,
    /// Bytes that the body [read](crate::Steward::brought) because of the owner.
    pub read_bytes: u64,
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
    /// Hits per reference; 0 when nothing was referenced.
    ///
    /// ```
    /// use pantler_steward::Counters;
    /// let counters =
    ///     Counters { references: 4, hits: 2, ahead_used: 1, misses: 1, ..Counters::default() };
    /// assert_eq!(counters.hit_ratio(), 0.5);
    /// ```
    pub fn hit_ratio(&self) -> f64 {
        if self.references == 0 { 0.0 } else { self.hits as f64 / self.references as f64 }
    }
}

/// What happened to the blocks of one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// References that met a block which an earlier reference brought in or used.
    pub hits: u64,
    /// First references to blocks that were prefetched.
    pub ahead_used: u64,
    /// References that brought a block in.
    pub misses: u64,
    /// Bytes of it that the body [read](crate::Steward::brought).
    pub read_bytes: u64,
}
