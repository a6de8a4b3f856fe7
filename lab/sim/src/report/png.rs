//! Charts as pixels. Letters come from a bitmap font that is part of the program: a server has
//! none.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use tiny_skia::{Color, Paint, PathBuilder, Pixmap, PremultipliedColorU8, Stroke, StrokeDash, Transform};

use super::chart::{Anchor, COLOURS, Drawing, Ink, SIZE, Shape};
use super::svg::{DASHES, PALETTE};

/// Pixels per point, so that lines stay sharp on dense screens.
const SCALE: f32 = 2.0;
const FONT: (FontWeight, RasterHeight) = (FontWeight::Regular, RasterHeight::Size24);
/// From the top of a letter's raster to its base line.
const BASE: f32 = 18.0;

/// All charts, one below the other, as a file. `None` when that would be larger than any picture.
pub(crate) fn png(charts: &[impl Drawing]) -> Option<Vec<u8>> {
    let height: f64 = charts.iter().map(Drawing::height).sum();
    let mut map = Pixmap::new((SIZE.0 as f32 * SCALE) as u32, (height as f32 * SCALE) as u32)?;
    map.fill(Color::WHITE);
    let mut top = 0.0;
    for chart in charts {
        chart.shapes().iter().for_each(|shape| draw(&mut map, shape, top));
        top += chart.height() as f32;
    }
    map.encode_png().ok()
}

fn draw(map: &mut Pixmap, shape: &Shape, top: f32) {
    let at = |&(x, y): &(f64, f64)| (x as f32 * SCALE, (y as f32 + top) * SCALE);
    match shape {
        Shape::Line { points, ink } => line(map, &points.iter().map(at).collect::<Vec<_>>(), *ink),
        Shape::Dot { at: place, ink } => {
            let (x, y) = at(place);
            if let Some(path) = PathBuilder::from_circle(x, y, 3.0 * SCALE) {
                map.fill_path(&path, &paint(*ink), tiny_skia::FillRule::Winding, Transform::identity(), None);
            }
        }
        Shape::Text { at: place, text, anchor } => write(map, at(place), text, *anchor),
    }
}

fn line(map: &mut Pixmap, points: &[(f32, f32)], ink: Ink) {
    let mut path = PathBuilder::new();
    for (index, &(x, y)) in points.iter().enumerate() {
        if index == 0 { path.move_to(x, y) } else { path.line_to(x, y) }
    }
    let Some(path) = path.finish() else { return };
    let (width, dashes) = match ink {
        Ink::Series(number) => (2.0, DASHES[number / COLOURS % DASHES.len()]),
        _ => (1.0, DASHES[0]),
    };
    let scaled = dashes.iter().map(|length| length * SCALE).collect();
    let dash = if dashes.is_empty() { None } else { StrokeDash::new(scaled, 0.0) };
    let stroke = Stroke { width: width * SCALE, dash, ..Stroke::default() };
    map.stroke_path(&path, &paint(ink), &stroke, Transform::identity(), None);
}

fn paint(ink: Ink) -> Paint<'static> {
    let colour = match ink {
        Ink::Text => "#333333",
        Ink::Grid => "#dddddd",
        Ink::Series(number) => PALETTE[number % COLOURS],
    };
    let part = |from: usize| u8::from_str_radix(&colour[from..from + 2], 16).unwrap_or(0);
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    paint.set_color_rgba8(part(1), part(3), part(5), 255);
    paint
}

fn write(map: &mut Pixmap, (x, y): (f32, f32), text: &str, anchor: Anchor) {
    let advance = get_raster_width(FONT.0, FONT.1) as f32;
    let width = advance * text.chars().count() as f32;
    let start = match anchor {
        Anchor::Start => x,
        Anchor::Middle => x - width / 2.0,
        Anchor::End => x - width,
    };
    for (index, letter) in text.chars().enumerate() {
        let raster = get_raster(letter, FONT.0, FONT.1).or_else(|| get_raster('?', FONT.0, FONT.1));
        let Some(raster) = raster else { continue };
        let left = (start + advance * index as f32) as i32;
        let top = (y - BASE) as i32;
        for (row, line) in (0..).zip(raster.rows()) {
            for (column, &darkness) in (0..).zip(line.iter()) {
                darken(map, left + column, top + row, darkness);
            }
        }
    }
}

fn darken(map: &mut Pixmap, x: i32, y: i32, darkness: u8) {
    let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y)) else { return };
    if darkness == 0 || x >= map.width() || y >= map.height() {
        return;
    }
    let at = (y * map.width() + x) as usize;
    let light = 255 - darkness;
    let pixel = &mut map.pixels_mut()[at];
    let mixed = |part: u8| part.min(light);
    let dark =
        PremultipliedColorU8::from_rgba(mixed(pixel.red()), mixed(pixel.green()), mixed(pixel.blue()), 255);
    *pixel = dark.unwrap_or(*pixel);
}
