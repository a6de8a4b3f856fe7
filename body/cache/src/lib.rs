//! Frames in memory over an origin, driven by a steward.
//!
//! A [`Cache`] holds blocks of file versions in one slab of memory. The steward decides which; the
//! cache performs: it fetches what is missing from a [`Source`](pantler_origin::Source), hands out
//! what is there, keeps what was written in step, and drops what the steward gives up.
//!
//! ```
//! use pantler_cache::{Cache, Options, Request};
//! use pantler_origin::Source;
//! use pantler_steward::{FileId, OwnerId};
//! use std::io::{self, IoSliceMut, Read};
//! use std::sync::Arc;
//!
//! struct Text(&'static [u8]);
//! impl Source for Text {
//!     fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
//!         (&self.0[self.0.len().min(offset as usize)..]).read_vectored(buffers)
//!     }
//! }
//!
//! let options = Options { cache_bytes: 1 << 20, block_bytes: 4096, ..Options::default() };
//! let cache = Cache::new(options).unwrap();
//! let text: Arc<dyn Source> = Arc::new(Text(b"seen twice, fetched once"));
//! let (owner, file) = (OwnerId(1), FileId(1));
//! let request = Request { owner, file, offset: 5, length: 5, size: 24, source: &text,
//!     kernel: None };
//! for _ in 0..2 {
//!     assert_eq!(cache.read(&request, |bytes| bytes.to_vec()).unwrap(), b"twice");
//! }
//! assert_eq!(cache.traffic().fetches, 1);
//! ```
//!
//! Each request locks the bookkeeping for as long as bookkeeping takes; bytes are copied, and
//! origins asked, outside.

mod cache;
mod error;
mod frames;
mod lending;
mod lower;
mod memory;
mod notices;
mod options;
mod pages;
mod request;
mod scheduler;

pub use cache::{Activity, Cache, Traffic};
pub use error::CacheError;
pub use lower::tier_index_bytes_max;
pub use options::{BLOCK_BYTES_MAX, BLOCK_BYTES_MIN, FRAME_METADATA_BYTES, Options};
pub use request::Request;
pub use scheduler::{ListEntry, Listed};
