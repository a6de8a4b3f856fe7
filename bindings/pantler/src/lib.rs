//! What a program says about the blocks of its files: the calls of the papers, for Rust and C.
//!
//! ```text
//!   program --Hints--> control sockets --> runs that hold this process, mounts of its files
//! ```
//!
//! ```no_run
//! use pantler::{Hints, PolicyName};
//!
//! let hints = Hints::default();
//! hints.set_policy(0, PolicyName::Mru)?; // what is read in cycles
//! hints.set_priority(&std::fs::File::open("index")?, 1)?; // stays before the rest
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Offsets are in bytes. Without a run or mount each call succeeds and has no effect:
//! [`Hints::connections`] counts them. The same calls in C: `include/pantler.h`.

mod c;
mod connections;
mod explanation;
mod hints;
mod ring;

pub use explanation::Explanation;
pub use hints::{FileHints, Hints};
pub use pantler_control::{ControlError, ListAnswer, PolicyName};

/// The README's examples, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
