//! Runs over tiers as bars: what each tier served, and what went down.
//!
//! ```text
//!   100 % |   __                       left bar of a run: hits of tier 1, 2, ... from below
//!         |  |3 |  _                   right bar: demotions 1>2, 2>3, ...
//!         |  |2 | | |
//!     0 % +--|1_|-|_|------
//!            uni-lru
//!            5.028 ms
//! ```

use super::record::TiersRecord;
use crate::report::{Anchor, Drawing, Ink, Shape, draw_png, draw_svg, percent};

/// Where bars may be: left, top, right, bottom.
const PLOT: (f64, f64, f64, f64) = (70.0, 44.0, 740.0, 400.0);
const HEIGHT: f64 = 460.0;
/// Distance of the strokes that fill a bar, which are twice as wide as a hair.
const FILL: f64 = 1.8;
/// Runs that fit side by side.
const RUNS_MAX: usize = 12;

/// Runs over one trace.
struct Bars<'a>(&'a [TiersRecord]);

/// Pictures of all runs as SVG, twelve side by side at most, one trace below the other.
pub fn tiers_svg(records: &[TiersRecord]) -> String {
    draw_svg(&pictures(records))
}

/// The same as PNG. `None` when there are none, or too many for a picture.
pub fn tiers_png(records: &[TiersRecord]) -> Option<Vec<u8>> {
    draw_png(&pictures(records))
}

fn pictures(records: &[TiersRecord]) -> Vec<Bars<'_>> {
    let traces = records.chunk_by(|one, other| one.trace == other.trace);
    traces.flat_map(|records| records.chunks(RUNS_MAX)).map(Bars).collect()
}

impl Drawing for Bars<'_> {
    fn height(&self) -> f64 {
        HEIGHT
    }

    fn shapes(&self) -> Vec<Shape> {
        let (left, top, right, bottom) = PLOT;
        let sum = |ratios: &[f64]| ratios.iter().sum::<f64>();
        let highest = self.0.iter().map(|run| sum(&run.demotion_rates)).fold(1.0, f64::max);
        let height = |ratio: f64| bottom - ratio / highest * (bottom - top);
        let mut shapes = vec![text((left, top - 18.0), self.0[0].trace.clone(), Anchor::Start)];
        for tenth in 0..=(highest * 5.0) as u32 {
            let ratio = f64::from(tenth) / 5.0;
            let y = height(ratio);
            shapes.push(Shape::Line { points: vec![(left, y), (right, y)], ink: Ink::Grid });
            shapes.push(text((left - 8.0, y + 4.0), percent(ratio), Anchor::End));
        }
        let slot = (right - left) / self.0.len() as f64;
        let tiers = self.0.iter().map(|run| run.sizes.len()).max().unwrap_or(0);
        for (number, run) in self.0.iter().enumerate() {
            let middle = left + (number as f64 + 0.5) * slot;
            let width = (slot * 0.32).min(60.0);
            let stacks =
                [(middle - width - 1.0, &run.hit_ratios, 0), (middle + 1.0, &run.demotion_rates, tiers)];
            for (x, ratios, first) in stacks {
                let mut below = 0.0;
                for (part, ratio) in ratios.iter().enumerate().filter(|(_, ratio)| **ratio > 0.0) {
                    let (low, high) = (height(below), height(below + ratio));
                    shapes.push(bar((x, high), (x + width, low), Ink::Series(first + part)));
                    below += ratio;
                }
            }
            let words = [run.protocol.clone(), sizes(run), format!("{:.3} ms", run.average_time_ms)];
            for (line, word) in (1..).zip(words) {
                shapes.push(text((middle, bottom + 17.0 * f64::from(line)), word, Anchor::Middle));
            }
        }
        let names = (1..=tiers).map(|tier| format!("tier {tier}"));
        let names = names.chain((1..tiers).map(|tier| format!("{tier} > {}", tier + 1)));
        for (number, name) in names.enumerate() {
            let y = top + 19.0 * number as f64;
            let ink = Ink::Series(number);
            shapes.push(bar((right + 16.0, y), (right + 36.0, y + 10.0), ink));
            shapes.push(text((right + 44.0, y + 10.0), name, Anchor::Start));
        }
        shapes
    }
}

/// Equal tiers are written once.
fn sizes(run: &TiersRecord) -> String {
    match run.sizes.iter().all(|size| *size == run.sizes[0]) {
        true => format!("{} x {}", run.sizes.len(), run.sizes[0]),
        false => run.sizes.iter().map(u32::to_string).collect::<Vec<_>>().join(" "),
    }
}

fn text(at: (f64, f64), text: String, anchor: Anchor) -> Shape {
    Shape::Text { at, text, anchor }
}

/// A rectangle filled by one line that goes to and fro, so that it needs no shape of its own.
fn bar((left, top): (f64, f64), (right, bottom): (f64, f64), ink: Ink) -> Shape {
    let rows = ((bottom - top) / FILL).ceil().max(1.0) as usize;
    let mut points = Vec::new();
    for row in 0..=rows {
        let y = bottom - (bottom - top) * row as f64 / rows as f64;
        let (from, to) = if row % 2 == 0 { (left, right) } else { (right, left) };
        points.extend([(from, y), (to, y)]);
    }
    Shape::Line { points, ink }
}
