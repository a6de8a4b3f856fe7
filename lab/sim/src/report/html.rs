//! Charts and tables as one page that needs nothing else: no network, and no script.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::chart::{Chart, chart_of_owners, charts, escaped};
use super::numbers::{grouped, percent};
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
        text += "</section>\n";
    }
    text + "</main>\n</body>\n</html>\n"
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
    let _ = writeln!(text, "<figure>\n{}</figure>", chart.svg());
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
