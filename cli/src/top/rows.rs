//! The rows of one table: summed up, sorted, and named in characters that change no terminal.

use clap::ValueEnum;
use pantler_kernel::pages::block_bytes;
use pantler_steer::usage::{Counts, FileUsage, UsageReport};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashMap;

use super::By;
use crate::output;

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    References,
    Hits,
    Misses,
    Ratio,
    Disk,
    Faults,
}

impl Sort {
    /// All, from left to right.
    pub const ALL: [Sort; 6] =
        [Sort::References, Sort::Hits, Sort::Misses, Sort::Ratio, Sort::Disk, Sort::Faults];

    /// The column to the right, or the first again.
    pub fn next(self) -> Sort {
        let at = Sort::ALL.iter().position(|&sort| sort == self).unwrap_or_default();
        Sort::ALL[(at + 1) % Sort::ALL.len()]
    }

    /// What stands above the column.
    pub fn head(self) -> &'static str {
        match self {
            Sort::References => "references",
            Sort::Hits => "hits",
            Sort::Misses => "misses",
            Sort::Ratio => "hit %",
            Sort::Disk => "read MB",
            Sort::Faults => "faults",
        }
    }

    /// Columns of a terminal that it takes: a name has room beside them on 80.
    pub fn columns(self) -> usize {
        match self {
            Sort::References => 10,
            Sort::Hits => 9,
            Sort::Misses | Sort::Ratio | Sort::Disk | Sort::Faults => 8,
        }
    }

    /// The figure in this column; of a ratio, none is larger than all.
    fn rank(self, counts: &Counts) -> u64 {
        match self {
            Sort::References => counts.references,
            Sort::Hits => counts.hits(),
            Sort::Misses => counts.misses,
            Sort::Ratio => counts.hit_ratio().map_or(0, |ratio| 1 + ((1.0 - ratio) * 1e9) as u64),
            Sort::Disk => counts.brought_in,
            Sort::Faults => counts.faults,
        }
    }

    /// The figure as text.
    pub fn figure(self, counts: &Counts) -> String {
        match self {
            Sort::References => counts.references.to_string(),
            Sort::Hits => counts.hits().to_string(),
            Sort::Misses => counts.misses.to_string(),
            Sort::Ratio => match counts.hit_ratio() {
                Some(ratio) => format!("{:.1}", ratio * 100.0),
                None if counts.faults > 0 => "unknown".to_owned(),
                None => "-".to_owned(),
            },
            Sort::Disk => format!("{:.1}", read_bytes(counts) as f64 / 1e6),
            Sort::Faults => counts.faults.to_string(),
        }
    }
}

/// Bytes that were read from disk.
fn read_bytes(counts: &Counts) -> u64 {
    counts.brought_in * block_bytes()
}

/// What a row is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum Subject {
    Process {
        pid: u32,
        name: String,
        group: Option<String>,
    },
    /// The group of some processes was not found before they ended.
    Group {
        group: Option<String>,
    },
    File {
        /// Text, so that what is no UTF-8 shows as U+FFFD.
        path: Option<String>,
        device: String,
        inode: u64,
    },
}

/// One line.
#[derive(Debug, Clone)]
pub struct Row {
    subject: Subject,
    pub counts: Counts,
}

impl Row {
    /// What it is about, without characters that a terminal obeys.
    pub fn name(&self) -> String {
        match &self.subject {
            Subject::Process { pid, name, .. } if name.is_empty() => format!("{pid} (ended)"),
            Subject::Process { pid, name, .. } => format!("{pid} {}", output::plain(name)),
            Subject::Group { group } => group.as_deref().map_or("(ended)".to_owned(), output::plain),
            Subject::File { path: Some(path), .. } => output::plain(path),
            Subject::File { device, inode, .. } => format!("device {device}, inode {inode}"),
        }
    }
}

/// The rows of one table.
#[derive(Debug)]
pub struct Rows {
    pub by: By,
    pub sort: Sort,
    pub rows: Vec<Row>,
    /// What has no row of its own.
    pub other: Counts,
    /// Rows that were cut off.
    pub left_out: usize,
    pub total: Counts,
}

impl Rows {
    /// What a report says, by process, group or file.
    pub fn of(report: &UsageReport, by: By, sort: Sort) -> Rows {
        let (rows, other) = match by {
            By::Process => (processes(report), report.other_processes),
            By::Group => (groups(report), report.other_processes),
            By::File => (report.files.iter().map(file).collect(), report.other_files),
        };
        let mut total = other;
        rows.iter().for_each(|row: &Row| total += row.counts);
        let mut rows = Rows { by, sort, rows, other, left_out: 0, total };
        rows.sort_by(sort);
        rows
    }

    /// Sorts by another column.
    pub fn sort_by(&mut self, sort: Sort) {
        self.sort = sort;
        let key = |row: &Row| {
            let others = [row.counts.references, row.counts.brought_in, row.counts.faults];
            (Reverse((sort.rank(&row.counts), others)), row.name())
        };
        self.rows.sort_by_cached_key(key);
    }

    /// Keeps the first rows, and sums the others up.
    pub fn keep(&mut self, most: usize) {
        for row in self.rows.drain(self.rows.len().min(most)..) {
            self.left_out += 1;
            self.other += row.counts;
        }
    }

    pub fn to_json(&self, report: &UsageReport) -> impl Serialize + use<> {
        let rows = self.rows.iter();
        Json {
            by: self.by.into(),
            interval_ms: report.elapsed.as_millis() as u64,
            events: report.events,
            events_lost: report.events_lost,
            forgotten_blocks: report.forgotten_blocks,
            endless_reads: report.endless_reads,
            rows: rows
                .map(|row| JsonRow { subject: row.subject.clone(), counts: (&row.counts).into() })
                .collect(),
            rows_left_out: self.left_out,
            other: (&self.other).into(),
            total: (&self.total).into(),
        }
    }
}

fn processes(report: &UsageReport) -> Vec<Row> {
    let row = |process: &pantler_steer::usage::ProcessUsage| Row {
        subject: Subject::Process {
            pid: process.pid,
            name: process.name.clone(),
            group: process.group.clone(),
        },
        counts: process.counts,
    };
    report.processes.iter().map(row).collect()
}

fn groups(report: &UsageReport) -> Vec<Row> {
    let mut sums: HashMap<&Option<String>, Counts> = HashMap::new();
    for process in &report.processes {
        *sums.entry(&process.group).or_default() += process.counts;
    }
    sums.into_iter()
        .map(|(group, counts)| Row { subject: Subject::Group { group: group.clone() }, counts })
        .collect()
}

fn file(file: &FileUsage) -> Row {
    let (device, inode) = (file.file.dev, file.file.ino);
    // The kernel's own encoding.
    let device = format!("{}:{}", device >> 20, device & 0xf_ffff);
    let path = file.path.as_ref().map(|path| path.to_string_lossy().into_owned());
    Row { subject: Subject::File { path, device, inode }, counts: file.counts }
}

#[derive(Serialize)]
struct Json {
    by: &'static str,
    interval_ms: u64,
    events: u64,
    events_lost: u64,
    forgotten_blocks: u64,
    endless_reads: u64,
    rows: Vec<JsonRow>,
    rows_left_out: usize,
    other: JsonCounts,
    total: JsonCounts,
}

#[derive(Serialize)]
struct JsonRow {
    #[serde(flatten)]
    subject: Subject,
    #[serde(flatten)]
    counts: JsonCounts,
}

#[derive(Serialize)]
struct JsonCounts {
    references: u64,
    hits: u64,
    misses: u64,
    hit_ratio: Option<f64>,
    read_bytes: u64,
    faults: u64,
}

impl From<&Counts> for JsonCounts {
    fn from(counts: &Counts) -> JsonCounts {
        JsonCounts {
            references: counts.references,
            hits: counts.hits(),
            misses: counts.misses,
            hit_ratio: counts.hit_ratio(),
            read_bytes: read_bytes(counts),
            faults: counts.faults,
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use pantler_steer::usage::ProcessUsage;

    pub fn report() -> UsageReport {
        let counts =
            |references, misses, brought_in, faults| Counts { references, misses, brought_in, faults };
        let process = |pid, name: &str, group: Option<&str>, counts| ProcessUsage {
            pid,
            name: name.to_owned(),
            group: group.map(str::to_owned),
            counts,
        };
        let file = |ino, path: Option<&str>, counts| FileUsage {
            file: pantler_steer::usage::FileKey { dev: 254 << 20 | 3, ino },
            path: path.map(Into::into),
            counts,
        };
        UsageReport {
            elapsed: std::time::Duration::from_millis(2004),
            processes: vec![
                process(7, "cat", Some("/a"), counts(100, 100, 128, 0)),
                process(8, "sh\u{1b}[2J", Some("/a"), counts(300, 0, 0, 0)),
                process(9, "", None, counts(0, 0, 0, 12)),
            ],
            files: vec![
                file(5, Some("/x/\u{202e}y"), counts(400, 100, 128, 0)),
                file(6, None, counts(0, 0, 0, 12)),
            ],
            events: 900,
            ..UsageReport::default()
        }
    }

    fn names(rows: &Rows) -> Vec<String> {
        rows.rows.iter().map(Row::name).collect()
    }

    #[test]
    fn rows_are_summed_up_and_sorted_and_harm_no_terminal() {
        let mut rows = Rows::of(&report(), By::Process, Sort::References);
        assert_eq!(names(&rows), ["8 sh\\u{1b}[2J", "7 cat", "9 (ended)"]);
        rows.sort_by(Sort::Ratio);
        assert_eq!(names(&rows)[0], "7 cat", "what gets nothing of the cache first");
        rows.sort_by(Sort::Faults);
        assert_eq!(names(&rows)[0], "9 (ended)");
        assert_eq!(Sort::Ratio.figure(&rows.rows[0].counts), "unknown");
        rows.keep(1);
        assert_eq!((rows.left_out, rows.other.references, rows.total.references), (2, 400, 400));
        let rows = Rows::of(&report(), By::Group, Sort::References);
        assert_eq!((names(&rows), rows.rows[0].counts.misses), (vec!["/a".into(), "(ended)".into()], 100));
        let rows = Rows::of(&report(), By::File, Sort::References);
        assert_eq!(names(&rows), ["/x/\\u{202e}y", "device 254:3, inode 6"]);
        assert_eq!(Sort::Faults.next(), Sort::References);
    }
}
