//! The five papers' tables and figures, made anew beside what the papers print.
//!
//! ```text
//!   Paper --- Part --- figure 7 --- Experiment --- run ---> Outcome ---> tables, claims, notes
//!          |       |                                           |
//!          |       '- figure 12 --- not made, and why          v
//!          '- its document <---------- report <-------- Ran, kept as JSON
//! ```
//!
//! Everything here is counted or runs in virtual time: the same sources give the same digits on
//! any machine. What real programs do is measured by other commands, which a [`Part`] names.

#![forbid(unsafe_code)]

mod dust;
mod osdi94;
mod outcome;
mod paper;
mod ran;
mod report;
mod sa_w2r;
mod tocs96;
mod traces;
mod ulc;
mod virtual_time;

pub use outcome::{Claim, Outcome, Row, Table};
pub use paper::{Experiment, Made, Number, Paper, Part};
pub use ran::{Ran, Source};
pub use report::{html, markdown, section};

/// The papers, in the order in which they appeared.
pub static PAPERS: [Paper; 5] = [osdi94::PAPER, tocs96::PAPER, sa_w2r::PAPER, dust::PAPER, ulc::PAPER];

/// Of all draws. The same seed gives the same digits.
pub const SEED: u64 = 1;
