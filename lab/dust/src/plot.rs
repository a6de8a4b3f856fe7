//! Plots as SVG: the time of an access over a position, on a logarithmic scale, as the paper draws
//! fingerprints.
//!
//! ```text
//!   7 ms  |....      ....
//!         |
//!   2 us  |    ......    .....
//!         +---------------------
//!          0     offset     900
//! ```

use html_escape::encode_quoted_attribute as escaped;
use std::fmt::Write;

/// Pixels of a plot, and of the margins at the left and below.
const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 48.0;
const BELOW: f64 = 34.0;
const ABOVE: f64 = 24.0;
const RIGHT: f64 = 10.0;
/// Points that are drawn at most, evenly chosen.
const POINTS_MAX: usize = 2500;

/// One plot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// What is along the bottom.
    pub below: String,
    /// Greatest position.
    pub position_max: u32,
    /// Position and time in nanoseconds.
    pub points: Vec<(u32, f64)>,
}

impl Plot {
    /// The picture, to stand alone or inside a page.
    pub fn svg(&self) -> String {
        let (low, high) = self.range();
        let right = WIDTH - RIGHT;
        let bottom = HEIGHT - BELOW;
        let x =
            |position: u32| LEFT + (right - LEFT) * f64::from(position) / f64::from(self.position_max.max(1));
        let y = |ns: f64| {
            let share = (ns.max(1.0).ln() - low.ln()) / (high.ln() - low.ln());
            bottom - (bottom - ABOVE) * share.clamp(0.0, 1.0)
        };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
             height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"10\" role=\"img\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n\
             <text x=\"{LEFT}\" y=\"14\" font-size=\"11\" font-weight=\"bold\">{}</text>\n",
            escaped(&self.title)
        );
        for decade in decades(low, high) {
            let at = y(decade);
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text>",
                LEFT - 4.0,
                at + 3.0,
                time(decade)
            );
        }
        let _ = writeln!(svg, "<path d=\"M{LEFT} {ABOVE}V{bottom}H{right}\" stroke=\"#555\" fill=\"none\"/>");
        for (position, anchor) in [(0, "start"), (self.position_max, "end")] {
            let (at, line) = (x(position), bottom + 12.0);
            let _ =
                writeln!(svg, "<text x=\"{at:.1}\" y=\"{line}\" text-anchor=\"{anchor}\">{position}</text>");
        }
        let (middle, line) = ((LEFT + right) / 2.0, HEIGHT - 8.0);
        let _ = writeln!(
            svg,
            "<text x=\"{middle}\" y=\"{line}\" text-anchor=\"middle\">{}</text>",
            escaped(&self.below)
        );
        // One path for all points: far smaller than a circle for each.
        svg.push_str("<path stroke=\"#1b5fab\" stroke-width=\"2.4\" stroke-linecap=\"round\" d=\"");
        let stride = self.points.len().div_ceil(POINTS_MAX).max(1);
        for &(position, ns) in self.points.iter().step_by(stride) {
            let _ = write!(svg, "M{:.1} {:.1}h0", x(position), y(ns));
        }
        svg + "\"/>\n</svg>\n"
    }

    /// Whole decades around all times.
    fn range(&self) -> (f64, f64) {
        let times = || self.points.iter().map(|&(_, ns)| ns.max(1.0));
        let low = times().fold(f64::INFINITY, f64::min).min(1e9);
        let high = times().fold(1.0, f64::max);
        let low = 10f64.powf(low.log10().floor());
        (low, 10f64.powf(high.log10().ceil()).max(low * 10.0))
    }
}

fn decades(low: f64, high: f64) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(low), move |&at| (at * 10.0 <= high * 1.001).then_some(at * 10.0))
}

/// A time for people: 500 ns, 2 us, 7 ms.
pub fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.0} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.0} ms", ns / 1e6),
        _ => format!("{:.0} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_land_inside_and_names_are_escaped() {
        let plot = Plot {
            title: "a <b>".into(),
            below: "offset".into(),
            position_max: 10,
            points: vec![(0, 2e3), (10, 7e6)],
        };
        let svg = plot.svg();
        assert!(svg.contains("a &lt;b&gt;") && svg.contains(">10 ms<") && svg.contains(">1 us<"), "{svg}");
        assert!(svg.contains("M48.0 ") && svg.contains("M310.0 "), "{svg}");
        assert!(Plot::default().svg().ends_with("</svg>\n"));
    }

    #[test]
    fn many_points_are_thinned() {
        let points = (0..100_000).map(|at| (at, 2e3)).collect();
        let plot = Plot { position_max: 100_000, points, ..Plot::default() };
        assert!(plot.svg().len() < 60_000);
    }
}
