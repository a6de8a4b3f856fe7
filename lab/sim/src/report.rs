//! Results for people: tables. Programs take JSON:
//! docs/decisions/0103-what-json-and-names-say-already.md.

mod numbers;
mod table;

pub(crate) use numbers::{grouped, percent};
pub use table::table;
pub(crate) use table::{aligned, heading};
