//! The kernel's page cache as one run sees it, and what shall happen to it. Pure.
//!
//! ```text
//!   watcher --Event--> +----------+ --Decision--> hands
//!                      |  Engine  |
//!     clock --time---> +----------+ <--Answer---- hands
//!                           |
//!                        steward
//! ```
//!
//! An [`Event`] says what the kernel did to a range of pages. [`Engine::event`] changes beliefs and
//! queues work. [`Engine::begin_round`] opens a round of work, [`Engine::poll`] hands out one
//! [`Decision`] after the other, and [`Engine::answer`] takes what became of each. Everything is a
//! value: the crate performs no I/O, and knows neither clocks nor threads. A body translates, and
//! so does the simulator, where a model stands in place of the kernel.
//!
//! # Example: a file that is larger than the budget
//!
//! ```
//! use pantler_pagecache::{Answer, Decision, Engine, Event, FileKey, Kind, Options, Origin};
//! use pantler_steward::OwnerId;
//!
//! let mut engine = Engine::new(&Options::new(256), 1)?;
//! let origin = Origin::Run { thread: 7, owner: OwnerId(0) };
//! let file = FileKey { dev: 1, ino: 99 };
//! engine.watch_hits();
//! let mut dropped = 0;
//! for block in 0..1000 {
//!     for kind in [Kind::Added, Kind::Read] {
//!         let event = Event { time_ns: block, kind, origin, file, first: block, last: block };
//!         if !engine.event(&event) {
//!             engine.admit(&event);
//!         }
//!     }
//!     engine.begin_round(block);
//!     while let Some(decision) = engine.poll() {
//!         let answer = match decision {
//!             Decision::Drop { span, .. } => {
//!                 dropped += span.blocks;
//!                 Answer::Cached(0)
//!             }
//!             _ => Answer::Unreachable,
//!         };
//!         engine.answer(decision, answer);
//!     }
//! }
//! assert!(dropped > 1000 - 256);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to read
//!
//! | file | what |
//! | --- | --- |
//! | [`engine`] | events in, rounds of work, answers |
//! | `beliefs` | what is believed of each block, and the steward: both always agree (E1) |
//! | [`ledger`] | the states of a block: unknown, ahead, ours, shared, leaving |
//! | `allowance` | how much may be kept where a limit holds everything |
//! | `engine/drops` | evicted blocks leave, or come back when the kernel keeps them |
//! | `engine/ahead` | sequential streams: which files to find, what to read ahead |
//! | `engine/foretold` | blocks that access lists name |
//! | `engine/advised` | what programs say of their files already |
//! | `engine/audit` | beliefs that no event corrects |
//! | [`usage`] | no part of the engine: what each process and file makes of the page cache |
//!
//! Why the engine is pure: docs/decisions/0079-the-page-cache-engine-is-pure.md.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod advice;
mod allowance;
mod beliefs;
mod counters;
mod decision;
pub mod engine;
mod event;
mod files;
pub mod ledger;
mod options;
mod read_blocks;
mod read_through;
mod streams;
pub mod usage;
pub mod window;

pub use advice::{Advice, Bytes};
pub use allowance::Spare;
pub use counters::SteerCounters;
pub use decision::{Answer, Decision, Rule};
pub use engine::Engine;
pub use event::{Event, FileKey, Kind, Origin};
pub use files::{FILES_MAX, File, Files};
pub use ledger::{Belief, Span};
pub use options::{BLOCK_BYTES, Options, asks_for_an_order};
pub use read_through::ReadThrough;
pub use window::Bounds;
