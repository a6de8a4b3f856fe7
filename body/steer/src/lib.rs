//! The kernel page cache as a body: watches reads, keeps the resident set, drops by decision.
//!
//! ```text
//!   program --reads--> kernel --tracepoints--> trace::feed --> engine --> steward
//!                        ^                                       |          |
//!                        +---- fadvise, readahead, cachestat ----+<--drops--+
//! ```
//!
//! [`Steer`] is a run: a control group, two trace instances, a reading thread. [`trace`] turns the
//! kernel's binary buffers into events; the [`engine`] tells the steward and carries out what it
//! decides; the [`ledger`] knows which blocks the run brought in; `foretold` reads what access
//! lists want; [`files`] opens what events name by inode. [`group`] speaks both versions of control
//! groups. [`doctor()`] says what a machine lacks.
//!
//! What it never does: decide what leaves, but for the few blocks that hold a folio back (K4 in
//! [`ledger`]), drop what the run did not bring in or what somebody else used since, change a
//! setting of the whole machine, or hold a program back.
//!
//! See the crate's `README.md` for what was measured on which kernel.

mod body;
mod bounds;
pub mod counters;
mod doctor;
pub mod engine;
pub mod error;
pub mod files;
pub mod group;
pub mod kernel;
pub mod ledger;
pub mod names;
pub mod options;
pub mod owners;
mod pid_namespace;
pub mod read_blocks;
mod reader;
mod steer;
pub mod streams;
pub mod sys;
pub mod takeover;
pub mod trace;
mod unsteered;
mod watch;
pub mod window;

pub use counters::SteerCounters;
pub use doctor::{Check, doctor};
pub use error::SteerError;
pub use kernel::{Kernel, Version};
pub use names::clean_leftovers;
pub use options::{HitWatch, SteerOptions};
pub use steer::Steer;

/// The README's example, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
