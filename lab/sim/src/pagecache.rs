//! The kernel's page cache as a model, and whole runs of steering over it.
//!
//! ```text
//!   trace or test --reads--> Kernel --Event--> Engine (pantler_pagecache, the one that runs use)
//!                              ^                  |
//!                              +---- Hands <--Decision
//! ```
//!
//! [`Kernel`] has files, folios, the kernel's readahead and an order of eviction: the kernel's two
//! lists with refault distances, its generations, or any policy. [`Machine`] puts the engine over
//! it, in virtual time: events arrive late, as they do from a trace buffer, and may be lost.
//! [`steer`] runs a trace with the engine and by the kernel alone: `pantler sim --body steer`.
//!
//! The model leaves out: anonymous memory, page tables' young bits, writeback that takes time, and
//! that the kernel reclaims tens of pages at once. One batch of newcomers stands for those of all
//! processors.

mod kernel;
mod machine;
mod readahead;
mod record;
mod run;

pub use kernel::{Folio, Kernel, KernelEvent, Program};
pub use machine::{FaithfulHands, Faults, Hands, Machine};
pub use record::{SteerRecord, SteerSettings, steer_table};
pub use run::{SteerError, alone, steer, steer_beside};
