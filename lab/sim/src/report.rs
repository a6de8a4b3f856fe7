//! Results for people and for other programs: tables and CSV.

mod csv;
mod numbers;
mod table;

pub use csv::csv;
pub(crate) use numbers::{grouped, percent};
pub use table::table;
pub(crate) use table::{aligned, heading};
