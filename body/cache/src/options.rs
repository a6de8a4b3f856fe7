//! What can be chosen about a cache.

use pantler_kernel::pages;
use pantler_steward::lists::Prefetching;
use pantler_steward::scheduling::Order;
use pantler_steward::{Allocation, Lookahead, PolicyName, Revocation, Spec};

use crate::CacheError;

/// Smallest block.
pub const BLOCK_BYTES_MIN: usize = 4 << 10;
/// Largest block.
pub const BLOCK_BYTES_MAX: usize = 1 << 20;
/// Memory beside its bytes that a block is charged with: the steward's entry, links, index and
/// placeholder, and the frame's record here. Measured at about 280 bytes with the smallest blocks,
/// and at 330 with the shadow of rule L7, in `tests/memory.rs`, which fails when this is not
/// enough.
pub const FRAME_METADATA_BYTES: u64 = 352;
/// What it is charged with in addition when the policy remembers blocks that left. Measured at up
/// to 1,130 bytes in all, with `mq`, in the same test.
pub const MEMORY_METADATA_BYTES: u64 = 1024;
/// It is charged with this in addition when the kernel keeps its bytes, for what is known of that.
pub(crate) const LENT_METADATA_BYTES: u64 = 48;
/// Read at the start of a file for the kernel at least: as much as that reads of a file by itself,
/// on disks with the usual readahead (V12 of the steward).
pub(crate) const LENT_START_BYTES: u64 = 16 << 10;
/// The kernel's readahead of one program has two requests in flight, of 128 KiB or of a block each.
/// They come in any order, and a service thread may be late with one: twice that (P9).
pub(crate) const LENT_DISORDER_BYTES: u64 = 512 << 10;
/// Blocks a cache must have room for: fewer, and one large request could pin them all.
const FRAMES_MIN: u64 = 4;

/// Options of a [`Cache`](crate::Cache).
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Memory for everything: blocks, spare buffers, metadata.
    pub cache_bytes: u64,
    /// Size of a block: a power of two from 4 KiB to 1 MiB. See docs/benchmarks/mount.md for the
    /// default.
    pub block_bytes: usize,
    /// Buffers beyond the frames, for readers that still copy from a block when it is replaced. One
    /// per thread.
    pub spare: u32,
    /// Which owner gives way to which.
    pub allocation: Allocation,
    /// How blocks of owners without control are replaced.
    pub policy: Spec,
    /// When owners lose control.
    pub revocation: Revocation,
    /// What is looked ahead. Nothing is before a thread [carries it
    /// out](crate::Cache::serve_prefetches).
    pub lookahead: Lookahead,
    /// Blocks looked ahead at a time.
    pub window: u32,
    /// In which order prefetches go to the origin.
    pub order: Order,
    /// Whether access lists are believed before anything of them came true, against rule P8.
    pub trusting: bool,
    /// Threads that will [serve prefetches](crate::Cache::serve_prefetches): more runs are never on
    /// their way.
    pub prefetchers: u32,
    /// Buffers for blocks on their way to lower tiers, shared evenly between those.
    pub demotions: u32,
    /// Frames for blocks that a lower tier keeps and that only pass here; `None` for a hundredth,
    /// and room for a request.
    pub passing: Option<u32>,
    /// Seed of hash tables.
    pub seed: u64,
    /// Decisions that are remembered; 0 = off.
    pub log: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: 256 << 20,
            block_bytes: 64 << 10,
            spare: 4,
            allocation: Allocation::default(),
            policy: PolicyName::Lru.spec(),
            revocation: Revocation::default(),
            lookahead: Lookahead::None,
            window: 1,
            order: Order::Position,
            trusting: false,
            prefetchers: 8,
            demotions: 0,
            passing: None,
            seed: 0,
            log: 0,
        }
    }
}

impl Options {
    /// Without scheduling there are no batches.
    pub(crate) fn prefetching(&self, lends: bool) -> Prefetching {
        let defaults = Prefetching::default();
        let batch = if self.order == Order::Arrival { 1 } else { defaults.batch };
        let match_steps = if lends { self.lent_match_steps() } else { defaults.match_steps };
        Prefetching { batch, match_steps, any_order: lends, trusting: self.trusting, ..defaults }
    }

    /// Blocks that the kernel asks for in an order of its own.
    fn lent_match_steps(&self) -> u32 {
        ((LENT_DISORDER_BYTES / self.block_bytes as u64) as u32).clamp(8, 64)
    }

    /// Pages of a block: as large as the kernel's, or as many as a steward knows. Memory goes back
    /// by them, and the kernel takes it back by whole pages of its own.
    pub(crate) fn block_pages(&self) -> u32 {
        let page_bytes = BLOCK_BYTES_MIN.max(pages::block_bytes() as usize);
        (self.block_bytes / page_bytes).clamp(1, pantler_steward::PAGES_MAX as usize) as u32
    }

    /// Memory beside its bytes that a block is charged with.
    fn metadata_bytes(&self) -> u64 {
        FRAME_METADATA_BYTES + if self.policy.remembers() { MEMORY_METADATA_BYTES } else { 0 }
    }

    /// Blocks that fit in, after spare buffers and metadata.
    ///
    /// # Errors
    /// [`CacheError`] naming the value that makes no sense.
    pub fn frames(&self) -> Result<u32, CacheError> {
        self.frames_with(0)
    }

    /// The same where each block is charged with `more` bytes.
    pub(crate) fn frames_with(&self, more: u64) -> Result<u32, CacheError> {
        if !self.block_bytes.is_power_of_two()
            || !(BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&self.block_bytes)
        {
            return Err(CacheError::BlockBytes { bytes: self.block_bytes });
        }
        let block = self.block_bytes as u64;
        let spare = (u64::from(self.spare) + u64::from(self.demotions)) * block;
        let charged = block + self.metadata_bytes() + more;
        let frames = self.cache_bytes.saturating_sub(spare) / charged;
        if frames < FRAMES_MIN {
            let least = spare + FRAMES_MIN * charged;
            let block_bytes = self.block_bytes;
            return Err(CacheError::CacheBytes { bytes: self.cache_bytes, least, block_bytes });
        }
        Ok(frames.min(u64::from(pantler_steward::FRAMES_MAX / self.block_pages())) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_fits_in_the_size_given() {
        for (cache_bytes, block_bytes) in [(1 << 20, 4096), (42_000_000, 65_536), (1 << 30, 1 << 20)] {
            let options = Options { cache_bytes, block_bytes, ..Options::default() };
            let frames = u64::from(options.frames().unwrap());
            let spare = u64::from(options.spare) * block_bytes as u64;
            assert!(frames * (block_bytes as u64 + FRAME_METADATA_BYTES) + spare <= cache_bytes);
        }
    }

    #[test]
    fn senseless_sizes_are_refused_by_name() {
        let refuse = |cache_bytes, block_bytes| {
            let options = Options { cache_bytes, block_bytes, ..Options::default() };
            options.frames().unwrap_err().to_string()
        };
        assert!(refuse(1 << 30, 5000).starts_with("block size 5000:"));
        assert!(refuse(1 << 30, 2048).starts_with("block size 2048:"));
        assert!(refuse(4096, 4096).starts_with("cache size 4096:"));
    }
}
