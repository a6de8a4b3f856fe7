//! Results for people: tables. Programs take JSON:
//! docs/decisions/0103-what-json-and-names-say-already.md.

mod table;

pub(crate) use pantler_trace::grouped;
pub use table::table;
pub(crate) use table::{aligned, heading};

/// A share as a percentage with two digits.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.2}%", 100.0 * share)
}
