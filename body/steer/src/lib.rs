//! The kernel page cache as a body: watches reads, keeps the resident set, drops by decision.
//!
//! ```text
//!   program --reads--> kernel --tracepoints--> watch::feed --> steering --Event--> engine
//!                        ^                                      |                    |
//!                        +---- fadvise, readahead, cachestat --hands <---Decision----+
//! ```
//!
//! [`Steer`] is a run: a control group, two trace instances, a reading thread. [`pantler_watch`]
//! turns the kernel's binary buffers into events. `steering` gives each event its owner and hands
//! it to the engine of `pantler_pagecache`, which decides; `hands` carries the decisions out.
//! [`files`] opens what the engine names by number. `pantler-kernel` speaks both versions of
//! control groups. [`doctor()`] says what a machine lacks.
//!
//! What it never does: decide what leaves, change a setting of the whole machine, or hold a program
//! back.
//!
//! [`UsageWatch`] steers nothing: it counts what all programs make of the page cache.
//!
//! The crate's `README.md` has the threads, the locks, and what was measured on which kernel.

mod advice;
mod body;
mod bounds;
mod doctor;
mod doors;
pub mod error;
pub mod files;
mod hands;
mod lister;
mod lists;
pub mod options;
pub mod owners;
mod reader;
mod recorder;
mod rings;
mod shared;
mod steer;
pub mod steering;
pub mod takeover;
mod thread;
mod unsteered;
pub mod usage;
mod watch;

pub use doctor::{Check, doctor};
pub use error::SteerError;
pub use options::{HitWatch, SteerOptions};
pub use pantler_pagecache::SteerCounters;
pub use pantler_watch::{Kernel, Version, clean_leftovers};
pub use steer::Steer;
pub use usage::UsageWatch;

/// The README's example, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
