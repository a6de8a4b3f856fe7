//! A chart of hit ratios by size, as SVG.
//!
//! ```text
//!   hit ratio   OLTP.lis
//!   60 % |            ___---   opt
//!        |      __---/         lru
//!    0 % +-------------------
//!         1,000  10,000   size in objects (a step to the right is the same factor everywhere)
//! ```

use std::fmt::Write;

use super::numbers::grouped;
use crate::record::Record;

/// Width and height of the whole, in points.
const SIZE: (f64, f64) = (880.0, 480.0);
/// Where lines may be: left, top, right, bottom.
const PLOT: (f64, f64, f64, f64) = (70.0, 44.0, 700.0, 424.0);
/// Lines of the grid, about.
const TICKS: f64 = 6.0;
/// Height of a legend's line.
const LEGEND_STEP: f64 = 19.0;
/// Names longer than this are cut in the legend.
const NAME_CHARS_MAX: usize = 17;
/// Distinct colours, which the style sheet knows in light and dark; after these, dashes differ.
const COLOURS: usize = 8;
/// Lengths of line and gap, after each round of colours.
const DASHES: [&str; 4] = ["", "8 4", "2 3", "10 3 2 3"];

/// One line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    /// The policy or allocation.
    pub(crate) name: String,
    /// By ascending size.
    pub(crate) points: Vec<Point>,
}

/// A size and what it gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) size: u32,
    pub(crate) hit_ratio: f64,
    /// Half the width of a confidence interval; 0 when exact.
    pub(crate) error: f64,
}

/// All lines of one trace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chart {
    pub(crate) trace: String,
    pub(crate) unit: String,
    pub(crate) series: Vec<Series>,
}

/// One chart for each trace, in order.
pub(crate) fn charts(records: &[Record]) -> Vec<Chart> {
    let mut charts: Vec<Chart> = Vec::new();
    for record in records {
        let at = charts.iter().position(|chart| chart.trace == record.trace()).unwrap_or_else(|| {
            let (trace, unit) = (record.trace().to_owned(), record.about().unit.clone());
            charts.push(Chart { trace, unit, series: Vec::new() });
            charts.len() - 1
        });
        let series = &mut charts[at].series;
        let at = series.iter().position(|one| one.name == record.name()).unwrap_or_else(|| {
            series.push(Series { name: record.name().to_owned(), points: Vec::new() });
            series.len() - 1
        });
        let error = record.error().unwrap_or(0.0);
        series[at].points.push(Point { size: record.size(), hit_ratio: record.hit_ratio(), error });
    }
    for series in charts.iter_mut().flat_map(|chart| &mut chart.series) {
        series.points.sort_by_key(|point| point.size);
    }
    charts
}

/// One line for each owner of a trace under each policy or allocation. `None` where no trace of
/// that name has several owners.
pub(crate) fn chart_of_owners(trace: &str, records: &[Record]) -> Option<Chart> {
    let of_trace: Vec<&Record> = records.iter().filter(|record| record.trace() == trace).collect();
    let unit = of_trace.iter().find(|record| record.owners().len() > 1)?.about().unit.clone();
    let is_one = of_trace.iter().all(|record| record.name() == of_trace[0].name());
    let mut series: Vec<Series> = Vec::new();
    for record in of_trace {
        for (owner, counts) in record.owners() {
            let name = if is_one { owner.to_owned() } else { format!("{owner}, {}", record.name()) };
            let at = series.iter().position(|one| one.name == name).unwrap_or_else(|| {
                series.push(Series { name, points: Vec::new() });
                series.len() - 1
            });
            series[at].points.push(Point { size: record.size(), hit_ratio: counts.hit_ratio(), error: 0.0 });
        }
    }
    series.iter_mut().for_each(|series| series.points.sort_by_key(|point| point.size));
    Some(Chart { trace: format!("{trace} by owner"), unit, series })
}

/// From sizes and ratios to places.
#[derive(Clone, Copy, Debug)]
struct Scale {
    sizes: (f64, f64),
    top: f64,
}

impl Scale {
    /// The place of a size and a hit ratio.
    fn place(&self, size: u32, hit_ratio: f64) -> (f64, f64) {
        let (left, top, right, bottom) = PLOT;
        let (from, to) = (self.sizes.0.ln(), self.sizes.1.ln());
        let across = if to > from { (f64::from(size).ln() - from) / (to - from) } else { 0.5 };
        (left + across * (right - left), bottom - hit_ratio / self.top * (bottom - top))
    }
}

impl Chart {
    /// How sizes and ratios are placed.
    fn scale(&self) -> Scale {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let sizes = || points().map(|point| f64::from(point.size));
        let highest = points().map(|point| point.hit_ratio + point.error).fold(0.0, f64::max);
        let step = step(highest.max(0.01));
        Scale {
            sizes: (sizes().fold(f64::MAX, f64::min), sizes().fold(1.0, f64::max)),
            top: ((highest / step).ceil() * step).max(step),
        }
    }

    /// The whole drawing.
    pub(crate) fn svg(&self) -> String {
        // A long legend makes it higher.
        let height = SIZE.1.max(PLOT.1 + 24.0 + LEGEND_STEP * self.series.len() as f64);
        let label =
            escaped(&format!("Hit ratio by size for {}; the table below has the same numbers", self.trace));
        let mut svg =
            Svg(format!("<svg viewBox=\"0 0 {} {height}\" role=\"img\" aria-label=\"{label}\">\n", SIZE.0));
        self.frame(&mut svg);
        for (number, series) in self.series.iter().enumerate() {
            let _ = writeln!(svg.0, "<g data-series=\"{number}\">");
            self.line(&mut svg, number, series);
            svg.0 += "</g>\n";
        }
        svg.0 + "</svg>\n"
    }

    /// Everything but the lines of the series: grid, axes, words.
    fn frame(&self, svg: &mut Svg) {
        let scale = self.scale();
        let (left, top, right, bottom) = PLOT;
        let step = step(scale.top);
        for index in 0..=(scale.top / step).round() as u32 {
            let ratio = f64::from(index) * step;
            let (_, y) = scale.place(1, ratio);
            svg.line(&[(left, y), (right, y)], GRID);
            let decimals = usize::from(step < 0.01);
            svg.text((left - 8.0, y + 4.0), "end", &format!("{:.decimals$} %", 100.0 * ratio));
        }
        for size in size_ticks(scale.sizes) {
            let (x, _) = scale.place(size, 0.0);
            svg.line(&[(x, top), (x, bottom)], GRID);
            svg.text((x, bottom + 20.0), "middle", &grouped(size.into()));
        }
        svg.line(&[(left, top), (left, bottom), (right, bottom)], "class=\"axis\" stroke-width=\"1\"");
        let unit =
            if self.unit == "object" { "objects".to_owned() } else { format!("blocks ({})", self.unit) };
        let middle = (left + right) / 2.0;
        svg.text((middle, bottom + 44.0), "middle", &format!("size of the cache in {unit}"));
        svg.text((left, top - 22.0), "start", &format!("hit ratio of {}", shortened(&self.trace, 70)));
    }

    /// The line of one series, with its place in the legend.
    fn line(&self, svg: &mut Svg, number: usize, series: &Series) {
        let scale = self.scale();
        let dashes = DASHES[number / COLOURS % DASHES.len()];
        let ink = format!("class=\"s{}\" stroke-dasharray=\"{dashes}\" stroke-width=\"2\"", number % COLOURS);
        let place = |point: &Point| scale.place(point.size, point.hit_ratio);
        svg.line(&series.points.iter().map(place).collect::<Vec<_>>(), &ink);
        for point in &series.points {
            let (x, y) = place(point);
            let _ = writeln!(svg.0, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\" {ink}/>");
            if point.error > 0.0 {
                let end = |ratio: f64| scale.place(point.size, ratio.max(0.0));
                svg.line(&[end(point.hit_ratio - point.error), end(point.hit_ratio + point.error)], &ink);
            }
        }
        let (x, y) = (PLOT.2 + 16.0, PLOT.1 + 8.0 + LEGEND_STEP * number as f64);
        svg.line(&[(x, y), (x + 26.0, y)], &ink);
        svg.text((x + 32.0, y + 4.0), "start", &shortened(&series.name, NAME_CHARS_MAX));
    }
}

/// What lines of the grid are drawn with.
const GRID: &str = "class=\"grid\" stroke-width=\"1\"";

/// A drawing as text. Writing to it cannot fail.
struct Svg(String);

impl Svg {
    fn line(&mut self, points: &[(f64, f64)], ink: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(self.0, "<polyline points=\"{}\" fill=\"none\" {ink}/>", points.join(" "));
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: &str, text: &str) {
        let text = escaped(text);
        let _ = writeln!(self.0, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
    }
}

/// Text inside of XML or HTML, attributes included.
pub(super) fn escaped(text: &str) -> String {
    // XML knows no other control characters, however they are written.
    html_escape::encode_quoted_attribute(&text.replace(char::is_control, "\u{fffd}")).into_owned()
}

fn shortened(text: &str, chars: usize) -> String {
    let count = text.chars().count();
    if count <= chars {
        return text.to_owned();
    }
    // The end of a path says more than its beginning.
    let end: String = text.chars().skip(count - chars + 3).collect();
    format!("...{end}")
}

/// One, two or five times a power of ten, about [`TICKS`] of which reach `top`.
fn step(top: f64) -> f64 {
    let rough = top / TICKS;
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|times| times * power).find(|step| *step >= rough).unwrap_or(power)
}

/// One, two and five times powers of ten inside the range, thinned until they can be read; else its
/// ends.
fn size_ticks((from, to): (f64, f64)) -> Vec<u32> {
    for times in [&[1.0, 2.0, 5.0][..], &[1.0]] {
        let powers = (0..10).map(|power| 10_f64.powi(power));
        let ticks = powers.flat_map(|power| times.iter().map(move |times| times * power));
        let ticks: Vec<u32> =
            ticks.filter(|tick| (from..=to).contains(tick)).map(|tick| tick as u32).collect();
        if (2..=7).contains(&ticks.len()) {
            return ticks;
        }
    }
    if from == to { vec![from as u32] } else { vec![from as u32, to as u32] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_ticks_are_round() {
        assert_eq!([0.05, 0.37, 0.6, 1.0].map(step), [0.01, 0.1, 0.1, 0.2]);
        assert_eq!(size_ticks((30.0, 700.0)), [50, 100, 200, 500]);
        assert_eq!(size_ticks((1.0, 1e6)), [1, 10, 100, 1000, 10_000, 100_000, 1_000_000]);
        assert_eq!(size_ticks((60.0, 90.0)), [60, 90]);
        assert_eq!(size_ticks((7.0, 7.0)), [7]);
    }

    #[test]
    fn long_names_keep_their_end() {
        assert_eq!(shortened("abc", 5), "abc");
        assert_eq!(shortened("a/long/path.lis", 10), ".../ath.lis".replace("/a", "a"));
    }
}
