//! Results for people and for other programs: tables, CSV, charts, pages.

mod chart;
mod csv;
mod html;
mod numbers;
mod png;
mod rooms;
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

/// Charts of all results as SVG: for each trace hit ratios, and below them the room over time where
/// lookahead had one.
pub fn svg(records: &[Record]) -> String {
    svg::svg(&figures(records))
}

/// The same charts as PNG. `None` when there are none, or too many for a picture.
pub fn png(records: &[Record]) -> Option<Vec<u8>> {
    png::png(&figures(records))
}

/// A chart of either kind.
enum Figure {
    Ratios(chart::Chart),
    Rooms(rooms::RoomChart),
}

fn figures(records: &[Record]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for chart in chart::charts(records) {
        let rooms = rooms::chart_of(&chart.trace, records);
        figures.push(Figure::Ratios(chart));
        figures.extend(rooms.map(Figure::Rooms));
    }
    figures
}

impl Drawing for Figure {
    fn height(&self) -> f64 {
        match self {
            Self::Ratios(chart) => chart.height(),
            Self::Rooms(chart) => chart.height(),
        }
    }

    fn shapes(&self) -> Vec<Shape> {
        match self {
            Self::Ratios(chart) => chart.shapes(),
            Self::Rooms(chart) => chart.shapes(),
        }
    }
}
