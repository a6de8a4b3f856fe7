//! What an experiment comes to: tables, claims of the paper, notes.

use serde::{Deserialize, Serialize};

/// All of it, in the order in which it is told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Tables.
    pub tables: Vec<Table>,
    /// Claims of the paper, tried on these tables.
    pub claims: Vec<Claim>,
    /// What else is to be known, a paragraph each: why rows lose, what stands for what.
    pub notes: Vec<String>,
}

/// One table: cells by row and column, each as it is printed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// What it shows; empty where the part's own title says it.
    pub title: String,
    /// Heads of the columns. The first ones name a row, the others are numbers.
    pub columns: Vec<String>,
    /// How many columns name a row.
    pub names: usize,
    /// From top to bottom.
    pub rows: Vec<Row>,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// By column.
    pub cells: Vec<String>,
    /// Whether the technique of the paper is behind here.
    pub loses: bool,
}

/// What a paper says, and whether it holds here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The paper's claim.
    pub says: String,
    /// Whether it holds.
    pub holds: bool,
    /// What was found.
    pub found: String,
}

impl Outcome {
    /// Tables alone.
    pub fn of(tables: impl Into<Vec<Table>>) -> Self {
        Self { tables: tables.into(), ..Self::default() }
    }

    /// Adds a claim.
    pub fn claim(mut self, says: &str, holds: bool, found: impl Into<String>) -> Self {
        self.claims.push(Claim { says: says.to_owned(), holds, found: found.into() });
        self
    }

    /// Adds a claim that is about `all` cases, of which it holds in `right`.
    pub fn claim_of(self, says: &str, right: usize, all: usize) -> Self {
        self.claim(says, right == all, format!("in {right} of {all}"))
    }

    /// Adds a note.
    pub fn note(mut self, note: &str) -> Self {
        self.notes.push(note.to_owned());
        self
    }
}

impl Table {
    /// Without rows yet; the first `names` columns name a row.
    pub fn new(title: &str, names: usize, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        Self { title: title.to_owned(), columns, names, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, loses: bool, cells: impl Into<Vec<String>>) {
        let cells = cells.into();
        assert_eq!(cells.len(), self.columns.len(), "a cell for each column of {:?}", self.columns);
        self.rows.push(Row { cells, loses });
    }

    /// How many rows do not lose.
    pub fn won(&self) -> usize {
        self.rows.iter().filter(|row| !row.loses).count()
    }
}

/// A share as percent with `digits` behind the point.
pub(crate) fn percent(share: f64, digits: usize) -> String {
    format!("{:.digits$}", 100.0 * share)
}

/// Ours, and the paper's in brackets where it prints one.
pub(crate) fn beside(ours: String, paper: Option<&str>) -> String {
    match paper {
        Some(paper) => format!("{ours} ({paper})"),
        None => ours,
    }
}

/// By how much `new` differs from `old`, in percent.
pub(crate) fn change(old: f64, new: f64) -> String {
    let percent = format!("{:+.1} %", 100.0 * (new / old - 1.0));
    // Nothing has no sign.
    if percent == "-0.0 %" { "+0.0 %".to_owned() } else { percent }
}
