//! Results for people and for other programs: tables, CSV, charts, pages.

mod chart;
mod csv;
mod html;
mod numbers;
mod png;
mod svg;
mod table;

use crate::record::Record;

pub(crate) use chart::{Anchor, Drawing, Ink, Shape};
pub use csv::csv;
pub use html::html;
pub(crate) use numbers::{grouped, percent};
pub(crate) use png::png as draw_png;
pub(crate) use svg::svg as draw_svg;
pub(crate) use table::aligned;
pub use table::table;

/// Charts of all results as SVG, one for each trace.
pub fn svg(records: &[Record]) -> String {
    svg::svg(&chart::charts(records))
}

/// Charts of all results as PNG, one for each trace. `None` when there are none, or too many for a picture.
pub fn png(records: &[Record]) -> Option<Vec<u8>> {
    png::png(&chart::charts(records))
}
