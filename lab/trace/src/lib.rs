//! Traces of references: formats in and out, generators, and *prepared* traces to simulate with.
//!
//! ```text
//!   file --- decompress --- format --- requests --- unit --- densify --- Prepared
//!            gzip zstd xz   lirs arc   one record   object   u32 ids     columns of
//!                           csv ...    at a time    or block             numbers
//!   zipf:alpha=1 ------------------------------------------ densify ---/
//! ```
//!
//! A [`Prepared`] trace names blocks by dense ids in order of first use, so that a simulation needs
//! no hashing: state of a block is an element of an array. Preparing reads a trace once, as a
//! stream.
//!
//! ```
//! use pantler_trace::Prepared;
//!
//! let trace = Prepared::from_ids([70, 30, 70]);
//! assert_eq!(trace.requests(), [0, 1, 0]);
//! assert_eq!(trace.next_uses(), [2, u32::MAX, u32::MAX]);
//! assert_eq!(trace.block_of(1).index, 30);
//! ```

#![deny(unsafe_code)]

mod builder;
mod densify;
mod error;
mod formats;
pub mod generate;
mod grouped;
mod guess;
mod input;
mod memory;
mod names;
mod nearest;
mod prepare;
mod prepared;
mod reader;
mod request;
#[doc(hidden)]
pub mod testing;
mod unit;
mod writer;

pub use builder::PreparedBuilder;
pub use error::{Bad, Position, TraceError};
pub use formats::Format;
pub use formats::csv::Columns;
pub use grouped::grouped;
pub use nearest::{nearest, perhaps, perhaps_of};
pub use prepare::{Options, Report, prepare, prepare_reader};
pub use prepared::{Block, NEVER, Prepared};
pub use reader::{ReadOptions, Reader};
pub use request::Request;
pub use unit::Unit;
pub use writer::{Content, Writer};
