//! Results for people and for other programs: tables, CSV, charts, pages.

mod csv;
mod numbers;
mod table;

pub use csv::csv;
pub use table::table;
