//! The table as text, and the words around it.

use pantler_steer::usage::UsageReport;
use std::fmt::Write;

use super::rows::{Rows, Sort};

/// What the table is about.
pub fn headline(rows: &Rows, report: &UsageReport) -> String {
    let by: &str = rows.by.into();
    format!("page cache by {by}, {:.1} s, {} events", report.elapsed.as_secs_f64(), report.events)
}

/// Why figures are too low, if they are.
pub fn notes(report: &UsageReport) -> Vec<String> {
    let notes = [
        (report.events_lost, "events lost: all figures are too low"),
        (report.forgotten_blocks, "blocks forgotten: as many misses may count as hits"),
        (report.endless_reads, "reads of files of unknown size: references may be missing"),
    ];
    let notes = notes.into_iter().filter(|(count, _)| *count > 0);
    notes.map(|(count, what)| format!("{count} {what}")).collect()
}

/// The whole table.
pub fn table(rows: &Rows, report: &UsageReport) -> String {
    let mut text = headline(rows, report);
    text.push('\n');
    for note in notes(report) {
        let _ = writeln!(text, "{note}");
    }
    line(&mut text, |sort| sort.head().to_owned(), rows.by.into());
    for row in &rows.rows {
        line(&mut text, |sort| sort.figure(&row.counts), &row.name());
    }
    if rows.other != Default::default() {
        let name =
            if rows.left_out > 0 { format!("({} more)", rows.left_out) } else { "(others)".to_owned() };
        line(&mut text, |sort| sort.figure(&rows.other), &name);
    }
    line(&mut text, |sort| sort.figure(&rows.total), "total");
    if rows.total.faults > 0 {
        text.push_str("uses of mapped pages after their fault are unknown\n");
    }
    text
}

fn line(text: &mut String, figure: impl Fn(Sort) -> String, name: &str) {
    for sort in Sort::ALL {
        let _ = write!(text, "{:>width$}", figure(sort), width = sort.columns());
    }
    let _ = writeln!(text, "  {name}");
}

#[cfg(test)]
mod tests {
    use super::super::By;
    use super::super::rows::tests::report;
    use super::*;

    #[test]
    fn the_table_says_what_is_known_and_what_is_not() {
        let mut lossy = report();
        lossy.events_lost = 3;
        let mut rows = Rows::of(&lossy, By::Process, Sort::References);
        let expected = "\
page cache by process, 2.0 s, 900 events
3 events lost: all figures are too low
references     hits  misses   hit % read MB  faults  process
       300      300       0   100.0     0.0       0  8 sh\\u{1b}[2J
       100        0     100     0.0     0.5       0  7 cat
         0        0       0 unknown     0.0      12  9 (ended)
       400      300     100    75.0     0.5      12  total
uses of mapped pages after their fault are unknown
";
        assert_eq!(table(&rows, &lossy), expected);
        rows.keep(1);
        let cut = table(&rows, &report());
        assert!(cut.contains("\n       100        0     100     0.0     0.5      12  (2 more)\n"), "{cut}");
    }
}
