//! What a reader asks for.

use std::sync::Arc;

use pantler_origin::Source;
use pantler_steward::{FileId, OwnerId};

/// A request for bytes.
pub struct Request<'a> {
    /// The owner that is charged.
    pub owner: OwnerId,
    /// The version of the file.
    pub file: FileId,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: usize,
    /// Size of this version of the file: bytes beyond are not asked for.
    pub size: u64,
    /// Where missing blocks come from, and those looked ahead, perhaps after the answer.
    pub source: &'a Arc<dyn Source>,
    /// The number by which the kernel knows the file, if the bytes are for its page cache: a cache
    /// that [lends](crate::Cache::lending) does not keep them as well. `None` for a program.
    pub kernel: Option<u64>,
}
