//! Why a cache cannot be made. Failed reads report the origin's `io::Error`, unchanged.

use std::io;

/// Options that make no sense, or memory that is not there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The block size is not a power of two within the bounds.
    #[error("block size {bytes}: expected a power of two from 4096 to 1048576 bytes")]
    BlockBytes {
        /// What was asked for.
        bytes: usize,
    },
    /// The cache would hold too few blocks.
    #[error("cache size {bytes}: expected at least {}K for blocks of {}K", least.div_ceil(1024), block_bytes >> 10)]
    CacheBytes {
        /// What was asked for.
        bytes: u64,
        /// The least that makes sense.
        least: u64,
        /// The block size.
        block_bytes: usize,
    },
    /// The steward refused its options.
    #[error("{0}")]
    Steward(pantler_steward::OptionsError),
    /// The address space for the frames could not be had.
    #[error("memory for the frames: {0}")]
    Memory(io::Error),
}
