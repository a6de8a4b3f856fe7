//! A chart of the waiting room's size over time, as in figure 5 of the SA-W2R paper. The weighing
//! room has the rest.
//!
//! ```text
//!   waiting room of OLTP.lis, frames
//!   1,000 |          ___---_   lru+sa-w2r 3,000
//!         |     __---
//!     0   +------------------
//!         0        500,000   references
//! ```

use super::chart::{Anchor, Ink, LEGEND_STEP, PLOT, SIZE, Shape, shortened, step, text};
use super::numbers::grouped;
use crate::record::Record;

/// Letters of a line of the legend.
const NAME_CHARS_MAX: usize = 21;

/// One run of a lookahead that has a room.
#[derive(Clone, Debug, PartialEq)]
struct Series {
    name: String,
    /// Frames, at equal distances of time.
    sizes: Vec<u32>,
}

/// All runs over one trace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RoomChart {
    trace: String,
    /// References of the trace, the warm-up included.
    references: u64,
    series: Vec<Series>,
}

/// The chart of one trace, if any of its runs had a room.
pub(crate) fn chart_of(trace: &str, records: &[Record]) -> Option<RoomChart> {
    let mut chart = RoomChart { trace: trace.to_owned(), references: 0, series: Vec::new() };
    for record in records.iter().filter(|record| record.trace() == trace) {
        let Record::Policy(policy) = record else { continue };
        let Some(ahead) = policy.ahead.as_ref().filter(|ahead| !ahead.room_over_time.is_empty()) else {
            continue;
        };
        chart.references = policy.requests + policy.about.warm_up;
        let name = format!("{} {}", record.name(), grouped(record.size().into()));
        chart.series.push(Series { name, sizes: ahead.room_over_time.clone() });
    }
    (!chart.series.is_empty()).then_some(chart)
}

impl RoomChart {
    /// The highest value of the axis, and the distance of its ticks.
    fn top(&self) -> (f64, f64) {
        let highest = self.series.iter().flat_map(|series| &series.sizes).copied().max().unwrap_or(1);
        let step = step(f64::from(highest.max(1))).max(1.0);
        (((f64::from(highest) / step).ceil() * step).max(step), step)
    }

    fn frame(&self) -> Vec<Shape> {
        let (left, top, right, bottom) = PLOT;
        let (highest, distance) = self.top();
        let mut shapes = Vec::new();
        for index in 0..=(highest / distance).round() as u32 {
            let y = bottom - f64::from(index) * distance / highest * (bottom - top);
            shapes.push(Shape::Line { points: vec![(left, y), (right, y)], ink: Ink::Grid });
            let frames = (f64::from(index) * distance) as u64;
            shapes.push(text((left - 8.0, y + 4.0), grouped(frames), Anchor::End));
        }
        let references = self.references.max(1) as f64;
        let across = step(references);
        for index in 0..=(references / across).floor() as u32 {
            let x = left + f64::from(index) * across / references * (right - left);
            shapes.push(Shape::Line { points: vec![(x, top), (x, bottom)], ink: Ink::Grid });
            let count = (f64::from(index) * across) as u64;
            shapes.push(text((x, bottom + 20.0), grouped(count), Anchor::Middle));
        }
        let axes = vec![(left, top), (left, bottom), (right, bottom)];
        shapes.push(Shape::Line { points: axes, ink: Ink::Text });
        shapes.push(text(((left + right) / 2.0, bottom + 44.0), "references".to_owned(), Anchor::Middle));
        let title = format!("frames of the waiting room over {}", shortened(&self.trace, 60));
        shapes.push(text((left, top - 22.0), title, Anchor::Start));
        shapes
    }

    fn line(&self, number: usize) -> Vec<Shape> {
        let (left, top, right, bottom) = PLOT;
        let (highest, _) = self.top();
        let Series { name, sizes } = &self.series[number];
        let ink = Ink::Series(number);
        // Each is the size at the end of its piece of the trace.
        let place = |(piece, size): (usize, &u32)| {
            let across = (piece + 1) as f64 / sizes.len() as f64;
            (left + across * (right - left), bottom - f64::from(*size) / highest * (bottom - top))
        };
        let (x, y) = (right + 16.0, top + 8.0 + LEGEND_STEP * number as f64);
        vec![
            Shape::Line { points: sizes.iter().enumerate().map(place).collect(), ink },
            Shape::Line { points: vec![(x, y), (x + 20.0, y)], ink },
            text((x + 26.0, y + 4.0), shortened(name, NAME_CHARS_MAX), Anchor::Start),
        ]
    }

    /// Height in points; the width is that of [`SIZE`].
    pub(crate) fn height(&self) -> f64 {
        SIZE.1.max(PLOT.1 + 24.0 + LEGEND_STEP * self.series.len() as f64)
    }

    /// What it consists of.
    pub(crate) fn shapes(&self) -> Vec<Shape> {
        let lines = (0..self.series.len()).flat_map(|number| self.line(number));
        self.frame().into_iter().chain(lines).collect()
    }
}
