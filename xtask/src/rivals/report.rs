//! What was measured, and the tables.

use std::fmt::{self, Write};

use super::arms::Rival;
use super::paired::{Ratio, Verdict};
use super::rows::Row;
use crate::demo::groups::Memory;
use crate::median::median;

/// What one run took.
#[derive(Debug, Clone, Copy)]
pub struct Took {
    /// Read from the device.
    pub read_bytes: f64,
    pub seconds: f64,
    /// What the group held, in the middle of the looks after its first third.
    pub held: Memory,
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
#[derive(Debug, Clone, Copy, PartialEq)]
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
#[derive(Debug)]
enum Cell {
    Runs(Vec<Took>),
    /// It was not measured, or refused; and why.
    Not(String),
}

/// A row of the tables.
#[derive(Debug)]
pub struct Section {
    name: &'static str,
    bytes: u64,
    budget: u64,
    cells: Vec<(Rival, Cell)>,
}

impl Section {
    pub fn new(row: &Row, rivals: &[Rival]) -> Section {
        let cells = rivals.iter().map(|rival| (*rival, Cell::Runs(Vec::new()))).collect();
        Section { name: row.name, bytes: row.bytes, budget: row.budget, cells }
    }

    fn cell(&mut self, rival: Rival) -> Option<&mut Cell> {
        self.cells.iter_mut().find_map(|(of, cell)| (*of == rival).then_some(cell))
    }

    pub fn add(&mut self, rival: Rival, took: Took) {
        if let Some(Cell::Runs(runs)) = self.cell(rival) {
            runs.push(took);
        }
    }

    pub fn give_up(&mut self, rival: Rival, why: String) {
        if let Some(cell) = self.cell(rival) {
            *cell = Cell::Not(why);
        }
    }

    pub fn is_given_up(&self, rival: Rival) -> bool {
        self.cells.iter().any(|(of, cell)| *of == rival && matches!(cell, Cell::Not(_)))
    }

    /// A value of all runs of a rival, in their order.
    fn values(&self, rival: Rival, value: impl Fn(&Took) -> Option<f64>) -> Vec<f64> {
        let runs = self.cells.iter().find_map(|(of, cell)| match cell {
            Cell::Runs(runs) if *of == rival => Some(runs.as_slice()),
            _ => None,
        });
        runs.unwrap_or_default().iter().filter_map(value).collect()
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
        title: "Slow answers of the service and of pgbench",
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
    repeats: usize,
    sections: Vec<Section>,
}

impl Report {
    pub fn new(environment: Vec<String>, repeats: usize) -> Report {
        Report { environment, repeats, sections: Vec::new() }
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
        let _ = writeln!(text, "Medians of {}, with the least and the most.", self.repeats);
        for value in VALUES {
            text += &self.table(value);
        }
        text += &self.beside_best();
        text += &self.reasons();
        text
    }

    /// The rivals of all rows.
    fn rivals(&self) -> Vec<Rival> {
        let has =
            |rival| self.sections.iter().any(|section| section.cells.iter().any(|(of, _)| *of == rival));
        Rival::ALL.into_iter().filter(|rival| has(*rival)).collect()
    }

    fn table(&self, value: Value) -> String {
        let rivals = self.rivals();
        let has = |section: &&Section| rivals.iter().any(|rival| section.figures(*rival, value.of).is_some());
        let sections: Vec<&Section> = self.sections.iter().filter(has).collect();
        if sections.is_empty() {
            return String::new();
        }
        let names: Vec<&str> = rivals.iter().map(|rival| rival.name()).collect();
        let mut text =
            format!("\n### {}\n\n| row | data, MB | budget, MB | {} |\n", value.title, names.join(" | "));
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

    /// Pantler beside the best of the others, in reads and in time.
    fn beside_best(&self) -> String {
        let ours: Vec<Rival> = self.rivals().into_iter().filter(|rival| rival.is_ours()).collect();
        let names: Vec<&str> = ours.iter().map(|rival| rival.name()).collect();
        let mut text = String::new();
        for value in [VALUES[0], VALUES[1]] {
            let mut lines = String::new();
            let mut verdicts: Vec<Vec<Verdict>> = vec![Vec::new(); ours.len()];
            for section in &self.sections {
                let Some((best, _)) = section.best(|rival| !rival.is_ours(), value) else { continue };
                let others = section.values(best, value.of);
                let ratios: Vec<Option<Ratio>> =
                    ours.iter().map(|rival| Ratio::of(&section.values(*rival, value.of), &others)).collect();
                for (verdicts, ratio) in verdicts.iter_mut().zip(&ratios) {
                    verdicts.extend(ratio.map(Ratio::verdict));
                }
                let cells: Vec<String> = ratios.into_iter().map(cell_of_ratio).collect();
                let _ = writeln!(lines, "| {} | {} | {} |", section.name, best.name(), cells.join(" | "));
            }
            if !lines.is_empty() && !ours.is_empty() {
                let _ = writeln!(
                    text,
                    "\n### {}, of the best other rival\n\n| row | best other | {} |",
                    value.title,
                    names.join(" | ")
                );
                let _ = writeln!(text, "| --- | --- |{}\n{}", " ---: |".repeat(ours.len()), lines.trim_end());
                let best = |verdicts: &[Verdict]| {
                    let count = |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count();
                    let [best, unclear] = [Verdict::Best, Verdict::NotToldApart].map(count);
                    format!("{best} and {unclear} of {}", verdicts.len())
                };
                let cells: Vec<String> = verdicts.iter().map(|verdicts| best(verdicts)).collect();
                let _ = writeln!(text, "| * and ? | | {} |", cells.join(" | "));
                let _ = writeln!(text, "\nBest or within 3 % of it (*), or not told apart from it (?).");
            }
        }
        text
    }

    /// What was not measured, and why.
    fn reasons(&self) -> String {
        let mut text = String::new();
        for section in &self.sections {
            for (rival, cell) in &section.cells {
                if let Cell::Not(why) = cell {
                    let _ = writeln!(text, "* {}, {}: {why}", section.name, rival.name());
                }
            }
        }
        if text.is_empty() { text } else { format!("\nNot measured:\n\n{text}") }
    }
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
        Took { read_bytes, seconds, held: Memory::default(), said: None }
    }

    fn report() -> Report {
        let rivals = [Rival::Kernel, Rival::Bindfs, Rival::Run];
        let cells = rivals.into_iter().map(|rival| (rival, Cell::Runs(Vec::new()))).collect();
        let mut section = Section { name: "scan", bytes: 9_000_000, budget: 6_000_000, cells };
        for (read, seconds) in [(20e6, 3.0), (10e6, 1.0), (40e6, 2.0)] {
            section.add(Rival::Kernel, took(read, seconds));
            section.add(Rival::Run, took(read / 2.0, seconds * 2.0));
        }
        section.give_up(Rival::Bindfs, "no FUSE".to_owned());
        section.add(Rival::Bindfs, took(1.0, 1.0));
        let mut report = Report::new(vec!["here".to_owned()], 3);
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
        assert!(!text.contains("service"), "{text}");
    }

    #[test]
    fn pantler_stands_beside_the_best_of_the_others() {
        let text = report().beside_best();
        let has = |line: &str| assert!(text.contains(line), "{line}\n{text}");
        has("| row | best other | run |\n| --- | --- | ---: |\n| scan | kernel | 0.50 (0.50-0.50)* |\n");
        has("| * and ? | | 1 and 0 of 1 |\n");
        has("| scan | kernel | 2.00 (2.00-2.00) |\n");
        has("| * and ? | | 0 and 0 of 1 |\n");
    }

    #[test]
    fn figures_of_the_service_are_two_numbers() {
        assert_eq!(Said::of("12 85\n"), Some(Said { slow: 12.0, microseconds: 85.0 }));
        assert_eq!((Said::of("12"), Said::of("a b")), (None, None));
    }
}
