//! What was measured, and the tables.

use serde::{Deserialize, Serialize};
use std::fmt::{self, Write};

use super::arms::{Family, Rival};
use super::paired::{Ratio, Verdict};
use super::rows::Row;
use crate::demo::groups::Memory;
use crate::median::median;

/// What one run took.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Took {
    /// Read from the device.
    pub read_bytes: f64,
    pub seconds: f64,
    /// What the group held, in the middle of the looks after its first third.
    pub held: Memory,
    /// The most of each kind in any look.
    pub most: Memory,
    /// What a service said.
    pub said: Option<Said>,
}

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} MB read in {:.2} s; held: {}", self.read_bytes / 1e6, self.seconds, self.held)?;
        self.said.map_or(Ok(()), |said| write!(f, "; {} slow, {} us", said.slow, said.microseconds))
    }
}

/// What a service measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Said {
    /// Answers that took long.
    pub slow: f64,
    /// What 99 of 100 answers take at most.
    pub microseconds: f64,
}

impl Said {
    pub fn of(text: &str) -> Option<Said> {
        let (slow, microseconds) = text.trim().split_once(' ')?;
        Some(Said { slow: slow.parse().ok()?, microseconds: microseconds.parse().ok()? })
    }
}

/// All runs of one rival.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Cell {
    Runs(Vec<Took>),
    /// It cannot be measured, or passed its budget; and why.
    Not(String),
    /// A run failed, as it may not do the next time; and why.
    Failed(String),
}

/// What is kept of a row.
#[derive(Debug, Serialize, Deserialize)]
pub struct Cells {
    bytes: u64,
    budget: u64,
    cells: Vec<(Rival, Cell)>,
}

/// A row of the tables.
#[derive(Debug)]
pub struct Section {
    name: &'static str,
    family: Family,
    bytes: u64,
    budget: u64,
    cells: Vec<(Rival, Cell)>,
}

impl Section {
    /// With this in each cell.
    pub fn new(row: &Row, rivals: &[Rival], cell: &Cell) -> Section {
        let cells = rivals.iter().map(|rival| (*rival, cell.clone())).collect();
        Section { name: row.name, family: row.family(), bytes: row.bytes, budget: row.budget, cells }
    }

    /// As it was kept, if that is this row, with `runs` runs of all rivals at least.
    pub fn kept(row: &Row, kept: Cells, rivals: &[Rival], runs: usize) -> Option<Section> {
        let is_same = (kept.bytes, kept.budget) == (row.bytes, row.budget);
        let section = Section { cells: kept.cells, ..Section::new(row, &[], &Cell::Runs(Vec::new())) };
        (is_same && rivals.iter().all(|rival| section.has(*rival, runs))).then_some(section)
    }

    /// With the cells of these rivals alone.
    pub fn with(mut self, rivals: &[Rival]) -> Section {
        self.cells.retain(|(rival, _)| rivals.contains(rival));
        self
    }

    /// What can be kept of it: nothing when a run failed.
    pub fn whole(&self) -> Option<Cells> {
        let is_failed = self.cells.iter().any(|(_, cell)| matches!(cell, Cell::Failed(_)));
        let (bytes, budget, cells) = (self.bytes, self.budget, self.cells.clone());
        (!is_failed).then_some(Cells { bytes, budget, cells })
    }

    /// Whether a rival was measured so often, or cannot be.
    pub fn has(&self, rival: Rival, runs: usize) -> bool {
        self.of(rival).is_some_and(|cell| match cell {
            Cell::Runs(all) => all.len() >= runs,
            Cell::Not(_) | Cell::Failed(_) => true,
        })
    }

    pub fn of(&self, rival: Rival) -> Option<&Cell> {
        self.cells.iter().find_map(|(of, cell)| (*of == rival).then_some(cell))
    }

    fn cell(&mut self, rival: Rival) -> Option<&mut Cell> {
        self.cells.iter_mut().find_map(|(of, cell)| (*of == rival).then_some(cell))
    }

    pub fn add(&mut self, rival: Rival, took: Took) {
        if let Some(Cell::Runs(runs)) = self.cell(rival) {
            runs.push(took);
        }
    }

    pub fn give_up(&mut self, rival: Rival, why: Cell) {
        if let Some(cell) = self.cell(rival) {
            *cell = why;
        }
    }

    /// A value of all runs of a rival, in their order.
    fn values(&self, rival: Rival, value: impl Fn(&Took) -> Option<f64>) -> Vec<f64> {
        let runs = match self.of(rival) {
            Some(Cell::Runs(runs)) => runs.as_slice(),
            _ => &[],
        };
        runs.iter().filter_map(value).collect()
    }

    /// Of a value of all runs of a rival the middle, the least and the most.
    fn figures(&self, rival: Rival, value: impl Fn(&Took) -> Option<f64>) -> Option<[f64; 3]> {
        let values = self.values(rival, value);
        let (least, most) =
            (values.iter().copied().reduce(f64::min)?, values.iter().copied().reduce(f64::max)?);
        Some([median(values)?, least, most])
    }

    /// The rival of some that has the least of a value, and the middle of it.
    fn best(&self, of: impl Fn(Rival) -> bool, value: Value) -> Option<(Rival, f64)> {
        let cells = self.cells.iter().filter(|(rival, _)| of(*rival));
        let values = cells.filter_map(|(rival, _)| Some((*rival, self.figures(*rival, value.of)?[0])));
        values.min_by(|one, other| one.1.total_cmp(&other.1))
    }
}

/// What a table is about.
#[derive(Clone, Copy)]
struct Value {
    title: &'static str,
    of: fn(&Took) -> Option<f64>,
    digits: usize,
}

const VALUES: [Value; 5] = [
    Value {
        title: "Reads of the device or the store, MB",
        of: |took| Some(took.read_bytes / 1e6),
        digits: 0,
    },
    Value { title: "Elapsed, seconds", of: |took| Some(took.seconds), digits: 2 },
    Value {
        title: "Memory held, files and all else, MB",
        of: |took| Some(held_bytes(took) / 1e6),
        digits: 0,
    },
    Value {
        title: "Slow answers of the service, of pgbench and of web servers",
        of: |took| Some(took.said?.slow),
        digits: 0,
    },
    Value {
        title: "What 99 of 100 answers take at most, us",
        of: |took| Some(took.said?.microseconds),
        digits: 0,
    },
];

fn held_bytes(took: &Took) -> f64 {
    (took.held.file + took.held.anonymous + took.held.kernel) as f64
}

/// All rows.
pub struct Report {
    environment: Vec<String>,
    sections: Vec<Section>,
}

impl Report {
    pub fn new(environment: Vec<String>) -> Report {
        Report { environment, sections: Vec::new() }
    }

    pub fn add(&mut self, section: Section) {
        self.sections.push(section);
    }

    /// The tables, in Markdown.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.environment {
            let _ = writeln!(text, "{line}");
        }
        let _ = writeln!(text, "Medians of {}, with the least and the most.", self.counts());
        for value in VALUES {
            text += &titled(value.title, self.families().map(|family| self.table(family, value)));
        }
        for value in [VALUES[0], VALUES[1]] {
            let tables = titled(
                &format!("{}, of the best other rival", value.title),
                self.families().map(|family| self.beside_best(family, value)),
            );
            text += &tables;
            if !tables.is_empty() {
                text += "\nBest or within 3 % of it (*), or not told apart from it (?).\n";
            }
        }
        text += &self.reasons();
        text
    }

    /// How many runs cells have.
    fn counts(&self) -> String {
        let cells = self.sections.iter().flat_map(|section| &section.cells);
        let counts = cells.filter_map(|(_, cell)| match cell {
            Cell::Runs(runs) => Some(runs.len()),
            Cell::Not(_) | Cell::Failed(_) => None,
        });
        let counts: std::collections::BTreeSet<usize> = counts.collect();
        counts.iter().map(usize::to_string).collect::<Vec<String>>().join(" or ")
    }

    /// Those that have rows.
    fn families(&self) -> impl Iterator<Item = Family> {
        Family::ALL.into_iter().filter(|family| self.sections_of(*family).next().is_some())
    }

    fn sections_of(&self, family: Family) -> impl Iterator<Item = &Section> {
        self.sections.iter().filter(move |section| section.family == family)
    }

    /// The rivals of its rows.
    fn rivals(&self, family: Family) -> Vec<Rival> {
        let has = |rival| self.sections_of(family).any(|section| section.of(rival).is_some());
        Rival::ALL.into_iter().filter(|rival| has(*rival)).collect()
    }

    fn table(&self, family: Family, value: Value) -> String {
        let rivals = self.rivals(family);
        let has = |section: &&Section| rivals.iter().any(|rival| section.figures(*rival, value.of).is_some());
        let sections: Vec<&Section> = self.sections_of(family).filter(has).collect();
        if sections.is_empty() {
            return String::new();
        }
        let names: Vec<&str> = rivals.iter().map(|rival| rival.name()).collect();
        let mut text = format!("| row | data, MB | budget, MB | {} |\n", names.join(" | "));
        let _ = writeln!(text, "| --- | ---: | ---: |{}", " ---: |".repeat(names.len()));
        for section in sections {
            let cell = |rival: &Rival| match section.figures(*rival, value.of) {
                Some([middle, least, most]) => {
                    let digits = value.digits;
                    format!("{middle:.digits$} ({least:.digits$}-{most:.digits$})")
                }
                None => "-".to_owned(),
            };
            let cells: Vec<String> = rivals.iter().map(cell).collect();
            let (data, budget) = (section.bytes as f64 / 1e6, section.budget as f64 / 1e6);
            let _ = writeln!(text, "| {} | {data:.1} | {budget:.1} | {} |", section.name, cells.join(" | "));
        }
        text
    }

    /// Pantler beside the best of the others.
    fn beside_best(&self, family: Family, value: Value) -> String {
        let ours: Vec<Rival> = self.rivals(family).into_iter().filter(|rival| rival.is_ours()).collect();
        let names: Vec<&str> = ours.iter().map(|rival| rival.name()).collect();
        let mut lines = String::new();
        let mut verdicts: Vec<Vec<Verdict>> = vec![Vec::new(); ours.len()];
        for section in self.sections_of(family) {
            let Some((best, _)) = section.best(|rival| !rival.is_ours(), value) else { continue };
            let others = section.values(best, value.of);
            let ratios: Vec<Option<Ratio>> =
                ours.iter().map(|rival| Ratio::of(&section.values(*rival, value.of), &others)).collect();
            for (verdicts, ratio) in verdicts.iter_mut().zip(&ratios) {
                // Without a figure, as when it passed its budget, it is no better than any.
                verdicts.push(ratio.map_or(Verdict::Behind, Ratio::verdict));
            }
            let cells: Vec<String> = ratios.into_iter().map(cell_of_ratio).collect();
            let _ = writeln!(lines, "| {} | {} | {} |", section.name, best.name(), cells.join(" | "));
        }
        if lines.is_empty() || ours.is_empty() {
            return String::new();
        }
        let best = |verdicts: &[Verdict]| {
            let count = |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count();
            let [best, unclear] = [Verdict::Best, Verdict::NotToldApart].map(count);
            format!("{best} and {unclear} of {}", verdicts.len())
        };
        let cells: Vec<String> = verdicts.iter().map(|verdicts| best(verdicts)).collect();
        let (names, rule) = (names.join(" | "), " ---: |".repeat(ours.len()));
        format!(
            "| row | best other | {names} |\n| --- | --- |{rule}\n{lines}| * and ? | | {} |\n",
            cells.join(" | ")
        )
    }

    /// What was not measured, and why.
    fn reasons(&self) -> String {
        let mut text = String::new();
        for section in &self.sections {
            for (rival, cell) in &section.cells {
                if let Cell::Not(why) | Cell::Failed(why) = cell {
                    let _ = writeln!(text, "* {}, {}: {why}", section.name, rival.name());
                }
            }
        }
        if text.is_empty() { text } else { format!("\nNot measured:\n\n{text}") }
    }
}

/// Tables under a title; nothing without one.
fn titled(title: &str, tables: impl Iterator<Item = String>) -> String {
    let tables: Vec<String> = tables.filter(|table| !table.is_empty()).collect();
    if tables.is_empty() { String::new() } else { format!("\n### {title}\n\n{}", tables.join("\n")) }
}

/// With the interval of 95 %, and the mark of the verdict.
fn cell_of_ratio(ratio: Option<Ratio>) -> String {
    let Some(ratio) = ratio else { return "-".to_owned() };
    let mark = ratio.verdict().mark();
    if ratio.most.is_finite() {
        format!("{:.2} ({:.2}-{:.2}){mark}", ratio.mean, ratio.least, ratio.most)
    } else {
        format!("{:.2}{mark}", ratio.mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(read_bytes: f64, seconds: f64) -> Took {
        Took { read_bytes, seconds, held: Memory::default(), most: Memory::default(), said: None }
    }

    fn report() -> Report {
        let rivals = [Rival::Kernel, Rival::Bindfs, Rival::Run];
        let cells = rivals.into_iter().map(|rival| (rival, Cell::Runs(Vec::new()))).collect();
        let mut section =
            Section { name: "scan", family: Family::Files, bytes: 9_000_000, budget: 6_000_000, cells };
        for (read, seconds) in [(20e6, 3.0), (10e6, 1.0), (40e6, 2.0)] {
            section.add(Rival::Kernel, took(read, seconds));
            section.add(Rival::Run, took(read / 2.0, seconds * 2.0));
        }
        section.give_up(Rival::Bindfs, Cell::Not("no FUSE".to_owned()));
        section.add(Rival::Bindfs, took(1.0, 1.0));
        let mut report = Report::new(vec!["here".to_owned()]);
        report.add(section);
        report
    }

    #[test]
    fn tables_have_medians_spread_and_reasons() {
        let text = report().text();
        let has = |line: &str| assert!(text.contains(line), "{line}\n{text}");
        has("| scan | 9.0 | 6.0 | 20 (10-40) | - | 10 (5-20) |");
        has("| scan | 9.0 | 6.0 | 2.00 (1.00-3.00) | - | 4.00 (2.00-6.00) |");
        has("* scan, bindfs: no FUSE");
        has("Medians of 3, with");
        assert!(!text.contains("service"), "{text}");
    }

    #[test]
    fn pantler_stands_beside_the_best_of_the_others() {
        let text = report().text();
        let has = |line: &str| assert!(text.contains(line), "{line}\n{text}");
        has("| row | best other | run |\n| --- | --- | ---: |\n| scan | kernel | 0.50 (0.50-0.50)* |\n");
        has("| * and ? | | 1 and 0 of 1 |\n");
        has("| scan | kernel | 2.00 (2.00-2.00) |\n");
        has("| * and ? | | 0 and 0 of 1 |\n");
    }

    #[test]
    fn a_row_that_pantler_was_refused_in_counts_as_behind() {
        let mut report = report();
        report.sections[0].give_up(Rival::Run, Cell::Not("it passed its budget".to_owned()));
        let text = report.text();
        assert_eq!(
            text.matches("| scan | kernel | - |\n| * and ? | | 0 and 0 of 1 |\n").count(),
            2,
            "{text}"
        );
    }

    #[test]
    fn each_family_has_a_table_of_its_own_under_one_title() {
        let mut report = report();
        let cells =
            vec![(Rival::Nginx, Cell::Runs(vec![took(7e6, 1.0)])), (Rival::Web, Cell::Runs(Vec::new()))];
        report.add(Section { name: "web", family: Family::Web, bytes: 1, budget: 1, cells });
        let text = report.text();
        assert_eq!(text.matches("### Elapsed, seconds\n").count(), 1, "{text}");
        assert!(text.contains("| nginx | pantler-web |\n"), "{text}");
        assert!(text.contains("| web | 0.0 | 0.0 | 7 (7-7) | - |"), "{text}");
        assert!(text.contains("| kernel | bindfs | run |\n"), "{text}");
    }

    #[test]
    fn a_cell_is_whole_with_all_runs_or_with_a_reason() {
        let section = report().sections.remove(0);
        let has = |rival, runs| section.has(rival, runs);
        assert!(has(Rival::Kernel, 3) && !has(Rival::Kernel, 4));
        assert!(has(Rival::Bindfs, 9) && !has(Rival::Mount, 0));
    }

    #[test]
    fn a_row_is_kept_unless_a_run_failed() {
        let mut section = report().sections.remove(0);
        assert_eq!(section.whole().map(|kept| kept.cells.len()), Some(3), "a reason is kept");
        section.give_up(Rival::Run, Cell::Failed("no port".to_owned()));
        assert!(section.whole().is_none());
    }

    #[test]
    fn figures_of_the_service_are_two_numbers() {
        assert_eq!(Said::of("12 85\n"), Some(Said { slow: 12.0, microseconds: 85.0 }));
        assert_eq!((Said::of("12"), Said::of("a b")), (None, None));
    }
}
