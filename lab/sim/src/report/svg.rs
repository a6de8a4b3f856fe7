//! Charts as SVG text.

use std::fmt::Write;

use super::chart::{Anchor, COLOURS, Ink, Shape};

/// Lengths of line and gap, after each round of colours.
pub(crate) const DASHES: [&[f32]; 4] = [&[], &[8.0, 4.0], &[2.0, 3.0], &[10.0, 3.0, 2.0, 3.0]];

/// The attribute of a series' dashes, with a space before it.
pub(crate) fn dashes(number: usize) -> String {
    let lengths: Vec<String> = DASHES[number / COLOURS % DASHES.len()].iter().map(f32::to_string).collect();
    if lengths.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{}\"", lengths.join(" ")) }
}

/// Writes a shape; `stroke` gives the attributes of an ink.
pub(crate) fn write_shape(text: &mut String, shape: &Shape, stroke: &dyn Fn(Ink) -> String) {
    // Writing to a string cannot fail.
    let _ = match shape {
        Shape::Line { points, ink } => {
            let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let width = if matches!(ink, Ink::Series(_)) { 2 } else { 1 };
            let (points, stroke) = (points.join(" "), stroke(*ink));
            writeln!(text, "<polyline points=\"{points}\" fill=\"none\" stroke-width=\"{width}\" {stroke}/>")
        }
        Shape::Dot { at: (x, y), ink } => {
            writeln!(
                text,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2\" stroke-width=\"2\" {}/>",
                stroke(*ink)
            )
        }
        Shape::Text { at: (x, y), text: words, anchor } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            writeln!(
                text,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
                escaped(words)
            )
        }
    };
}

/// Text inside of XML or HTML, attributes included.
pub(crate) fn escaped(text: &str) -> String {
    // XML knows no other control characters, however they are written.
    html_escape::encode_quoted_attribute(&text.replace(char::is_control, "\u{fffd}")).into_owned()
}
