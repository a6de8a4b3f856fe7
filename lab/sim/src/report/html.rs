//! Charts and tables as one page that needs nothing else: no network, and no script for what is in
//! the tables.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::json;

use super::chart::{COLOURS, Chart, Ink, SIZE, chart_of_owners, charts};
use super::numbers::{grouped, percent};
use super::rooms::{RoomChart, chart_of};
use super::svg::{dashes, escaped, write_shape};
use super::table::sharers;
use crate::record::{Record, SharingRecord};

/// The whole page.
pub fn html(records: &[Record]) -> String {
    let charts = charts(records);
    let names: Vec<&str> = charts.iter().map(|chart| chart.trace.as_str()).collect();
    let title = escaped(&format!("Hit ratios of {}", names.join(", ")));
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>\n{}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n",
        include_str!("page.css")
    );
    for chart in &charts {
        let of_trace: Vec<&Record> = records.iter().filter(|record| record.trace() == chart.trace).collect();
        section(&mut text, chart, &of_trace);
        if let Some(owners) = chart_of_owners(&chart.trace, records) {
            by_owner(&mut text, &owners, &of_trace);
        }
        if let Some(rooms) = chart_of(&chart.trace, records) {
            room_drawing(&mut text, &rooms);
        }
        text += "</section>\n";
    }
    let _ = write!(text, "</main>\n<script>\n{}</script>\n</body>\n</html>\n", include_str!("page.js"));
    text
}

fn section(text: &mut String, chart: &Chart, records: &[&Record]) {
    let about = records[0].about();
    let trace = escaped(&chart.trace);
    let _ = writeln!(
        text,
        "<section>\n<h2>{trace}</h2>\n<p>{} references to {} different {}.</p>",
        grouped(records[0].counts().0),
        grouped(about.footprint.into()),
        if about.unit == "object" {
            "objects".to_owned()
        } else {
            format!("blocks ({})", escaped(&about.unit))
        },
    );
    figure(text, chart);
    table(text, chart, "Hit ratios by size");
}

/// Figures by owner: lines where there are several sizes, and numbers in any case.
fn by_owner(text: &mut String, chart: &Chart, records: &[&Record]) {
    *text += "<h3>By owner</h3>\n";
    if records.iter().any(|record| record.size() != records[0].size()) {
        figure(text, chart);
    }
    table(text, chart, "Hit ratios of owners by size");
    let sharings = records.iter().filter_map(|record| match record {
        Record::Sharing(record) => Some(record),
        Record::Policy(_) => None,
    });
    let sharings: Vec<&SharingRecord> = sharings.collect();
    if !sharings.is_empty() {
        rows(text, &sharers(&sharings));
    }
}

fn figure(text: &mut String, chart: &Chart) {
    *text += "<figure>\n";
    drawing(text, chart);
    // A slash after < would end the script.
    let data = data(chart).to_string().replace('<', "\\u003c");
    let _ = writeln!(text, "<output aria-live=\"polite\"></output>");
    let _ = writeln!(text, "<script type=\"application/json\">{data}</script>\n</figure>");
}

/// What owners did to each other: the cells of the table for terminals.
fn rows(text: &mut String, lines: &[Vec<String>]) {
    *text += "<div class=\"scroll\" tabindex=\"0\">\n<table>\n<caption>Owners</caption>\n<thead>";
    for (number, line) in lines.iter().enumerate() {
        *text += "<tr>";
        for (column, cell) in line.iter().enumerate() {
            let cell = escaped(cell);
            let _ = match (number, column) {
                (0, _) => write!(text, "<th scope=\"col\">{cell}</th>"),
                (_, 0) => write!(text, "<th scope=\"row\">{cell}</th>"),
                _ => write!(text, "<td>{cell}</td>"),
            };
        }
        *text += if number == 0 { "</tr></thead>\n<tbody>\n" } else { "</tr>\n" };
    }
    *text += "</tbody>\n</table>\n</div>\n";
}

/// The same numbers are in the records that `--json` prints.
fn room_drawing(text: &mut String, rooms: &RoomChart) {
    let (width, height) = (SIZE.0, rooms.height());
    let _ = writeln!(
        text,
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"Size of the waiting room over time\">"
    );
    rooms.shapes().iter().for_each(|shape| write_shape(text, shape, &class));
    *text += "</svg>\n";
}

fn drawing(text: &mut String, chart: &Chart) {
    let (width, height) = (SIZE.0, chart.height());
    let label =
        escaped(&format!("Hit ratio by size for {}; the table below has the same numbers", chart.trace));
    let _ = writeln!(text, "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">");
    chart.frame().iter().for_each(|shape| write_shape(text, shape, &class));
    for number in 0..chart.series.len() {
        let _ = writeln!(text, "<g data-series=\"{number}\">");
        chart.line(number).iter().for_each(|shape| write_shape(text, shape, &class));
        *text += "</g>\n";
    }
    let _ = writeln!(text, "<line class=\"ruler axis off\" y1=\"44\" y2=\"424\"/>\n</svg>");
}

/// Colours come from the style sheet, which knows light and dark.
fn class(ink: Ink) -> String {
    match ink {
        Ink::Text => "class=\"axis\"".to_owned(),
        Ink::Grid => "class=\"grid\"".to_owned(),
        Ink::Series(number) => format!("class=\"s{}\"{}", number % COLOURS, dashes(number)),
    }
}

/// What the script reads.
fn data(chart: &Chart) -> serde_json::Value {
    let scale = chart.scale();
    let points = chart.series.iter().flat_map(|series| &series.points);
    let sizes: BTreeMap<u32, f64> =
        points.map(|point| (point.size, scale.place(point.size, 0.0).0)).collect();
    let sizes: Vec<_> =
        sizes.iter().map(|(size, x)| json!({"size": size, "x": (x * 10.0).round() / 10.0})).collect();
    let series = chart.series.iter().map(|series| {
        let points = series.points.iter().map(|point| json!([point.size, point.hit_ratio, point.error]));
        json!({"name": series.name, "points": points.collect::<Vec<_>>()})
    });
    json!({"sizes": sizes, "series": series.collect::<Vec<_>>()})
}

fn table(text: &mut String, chart: &Chart, caption: &str) {
    let mut rows: BTreeMap<u32, Vec<Option<String>>> = BTreeMap::new();
    for (number, series) in chart.series.iter().enumerate() {
        for point in &series.points {
            let row = rows.entry(point.size).or_insert_with(|| vec![None; chart.series.len()]);
            let error =
                if point.error > 0.0 { format!(" ± {:.2}", 100.0 * point.error) } else { String::new() };
            row[number] = Some(percent(point.hit_ratio) + &error);
        }
    }
    let _ = write!(
        text,
        "<div class=\"scroll\" tabindex=\"0\">\n<table>\n<caption>{caption}</caption>\n\
         <thead><tr><th scope=\"col\">size</th>"
    );
    for series in &chart.series {
        let _ = write!(text, "<th scope=\"col\">{}</th>", escaped(&series.name));
    }
    *text += "</tr></thead>\n<tbody>\n";
    for (size, cells) in rows {
        let _ = write!(text, "<tr><th scope=\"row\">{}</th>", grouped(size.into()));
        for cell in cells {
            let _ = write!(text, "<td>{}</td>", cell.unwrap_or_default());
        }
        *text += "</tr>\n";
    }
    *text += "</tbody>\n</table>\n</div>\n";
}
