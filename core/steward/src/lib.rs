//! The steward decides what stays in memory, and does nothing else.
//!
//! It performs no I/O, reads no clock, and draws only from the seed that it was given.
//! Everything it knows arrives as a value, everything it wants leaves as a value; a *body* performs
//! the I/O: one for the kernel's page cache, one for a mount. The simulator drives the same
//! steward, so what it shows is what the bodies do.
//!
//! # Example: a cyclic scan
//!
//! A program scans four blocks again and again with three frames. LRU misses every time; told to
//! use MRU, the owner keeps two blocks for good.
//!
//! ```
//! use pantler_steward::{Access, Action, Block, FileId, Options, OwnerId, PolicyName, Steward};
//!
//! let mut steward = Steward::new(Options::new(3))?;
//! let owner = OwnerId(1);
//! steward.set_policy(owner, 0, PolicyName::Mru)?;
//! let mut misses = 0;
//! for round in 0..10 {
//!     for index in 0..4 {
//!         let block = Block::new(FileId(7), index);
//!         if let Access::Miss(_) = steward.access(owner, block) {
//!             misses += 1;
//!             // The body reads the block into the frame, then says so.
//!             steward.fetched(block);
//!         }
//!         while let Some(action) = steward.poll() {
//!             assert!(matches!(action, Action::Fetch { .. } | Action::Drop { .. }));
//!         }
//!     }
//! }
//! assert_eq!(misses, 16);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Which file obeys which rule: docs/RULES.md.
//!
//! Papers: P. Cao, E. W. Felten, K. Li, *Implementation and performance of application-controlled
//! file caching*, OSDI 1994; P. Cao, E. W. Felten, A. R. Karlin, K. Li, *Implementation and
//! performance of integrated application-controlled file caching, prefetching, and disk
//! scheduling*, ACM TOCS 14(4), 1996.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod action;
mod counters;
mod decision;
mod entry;
mod files;
mod hint_error;
mod ids;
mod index;
pub mod lists;
mod lookahead;
mod manager;
mod marks;
mod options;
mod owners;
mod placeholders;
pub mod placement;
mod remembering;
pub mod rooms;
mod sampled_lru;
mod scan;
pub mod scheduling;
mod shadow;
mod stat;
pub mod steward;
pub mod tiers;
mod unknown_name;

pub use action::{Access, Action, Kept, Notice, Why};
pub use counters::{Counters, Traffic};
pub use decision::{Decision, Rule};
pub use entry::Room;
pub use hint_error::HintError;
pub use ids::{Block, FileId, Frame, Label, OwnerId, Version};
pub use lookahead::Lookahead;
pub use options::{
    Allocation, FRAMES_MAX, Limits, Names, Options, OptionsError, PAGES_MAX, PolicyName, Revocation, Spec,
};
pub use sampled_lru::SampledLru;
pub use stat::{Explanation, FileStat, OwnerStat, PriorityStat};
pub use steward::Steward;
pub use unknown_name::UnknownName;
