//! Results for people and for other programs: tables, CSV, and pages with charts.

mod chart;
mod csv;
mod html;
mod numbers;
mod table;

pub use csv::csv;
pub use html::html;
pub(crate) use numbers::{grouped, percent};
pub(crate) use table::aligned;
pub use table::table;
