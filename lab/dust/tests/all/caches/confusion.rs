//! The confusion matrix: what each truth was called.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

use super::alike;
use html_escape::encode_quoted_attribute as escaped;
use pantler_dust::{Known, Verdict};

/// Capacities may be off by this share.
const CAPACITY_OFF: f64 = 0.05;

/// Counts of verdicts by truth.
#[derive(Clone, Debug, Default)]
pub struct Confusion {
    counts: BTreeMap<String, BTreeMap<String, u32>>,
    /// Trials in all.
    pub trials: u32,
    /// Family right, by name or declared equivalence.
    pub right: u32,
    /// The answer was "unknown".
    pub unknown: u32,
    /// Trials with a capacity that was off by more than 5 %.
    pub capacity_off: u32,
    /// Most accesses per block of true capacity.
    pub accesses_per_block_max: f64,
}

impl Confusion {
    /// Enters a verdict.
    pub fn enter(&mut self, truth: &str, frames: u32, verdict: &Verdict) {
        let said = if verdict.verdict == Known::Known { verdict.family.as_str() } else { "unknown" };
        self.count(truth, said, (frames, verdict.capacity), verdict.accesses);
    }

    /// Enters what was said, with the true capacity and the one that was said.
    pub fn count(&mut self, truth: &str, said: &str, (frames, capacity): (u32, u32), accesses: usize) {
        self.trials += 1;
        self.right += u32::from(alike(said, truth));
        self.unknown += u32::from(said == "unknown");
        let off = (f64::from(capacity) / f64::from(frames) - 1.0).abs();
        self.capacity_off += u32::from(off > CAPACITY_OFF);
        self.accesses_per_block_max = self.accesses_per_block_max.max(accesses as f64 / f64::from(frames));
        *self.counts.entry(truth.into()).or_default().entry(said.into()).or_default() += 1;
    }

    /// Trials in which a wrong family was called known.
    pub fn wrong(&self) -> u32 {
        self.trials - self.right - self.unknown
    }

    /// The matrix as a table: a row for each truth, a column for each answer.
    pub fn html(&self) -> String {
        let said: BTreeSet<&str> =
            self.counts.values().flat_map(BTreeMap::keys).map(String::as_str).collect();
        let mut html = String::from("<table class=\"confusion\"><tr><th>truth</th>");
        for said in &said {
            let _ = write!(html, "<th class=\"said\"><span>{}</span></th>", escaped(said));
        }
        html.push_str("</tr>\n");
        for (truth, row) in &self.counts {
            let _ = write!(html, "<tr><th>{}</th>", escaped(truth));
            for said in &said {
                let class = match *said {
                    said if alike(said, truth) => "right",
                    "unknown" => "unknown",
                    _ => "wrong",
                };
                let _ = match row.get(*said) {
                    Some(count) => write!(html, "<td class=\"{class}\">{count}</td>"),
                    None => write!(html, "<td></td>"),
                };
            }
            html.push_str("</tr>\n");
        }
        html + "</table>\n"
    }
}

impl fmt::Display for Confusion {
    /// One row for each truth; what is right first, then everything else.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (truth, row) in &self.counts {
            let total: u32 = row.values().sum();
            let right: u32 = row.iter().filter(|(said, _)| alike(said, truth)).map(|(_, count)| count).sum();
            write!(f, "{truth:<20} {right:>4} of {total:<4}")?;
            for (said, count) in row.iter().filter(|(said, _)| *said != truth) {
                write!(f, " {said} {count}")?;
            }
            writeln!(f)?;
        }
        writeln!(
            f,
            "{} of {} right, {} unknown, {} wrong; capacity off by more than 5 % in {}; at most {:.1} accesses per block",
            self.right,
            self.trials,
            self.unknown,
            self.wrong(),
            self.capacity_off,
            self.accesses_per_block_max
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_shows_what_was_called_what() {
        let mut confusion = Confusion::default();
        confusion.count("lru", "lru", (100, 101), 2000);
        confusion.count("lru", "unknown", (100, 120), 2500);
        confusion.count("fifo", "<it>", (100, 100), 2000);
        let sums = (confusion.right, confusion.unknown, confusion.wrong(), confusion.capacity_off);
        assert_eq!(sums, (1, 1, 1, 1));
        let text = confusion.to_string();
        assert!(text.contains("fifo                    0 of 1    <it> 1"), "{text}");
        let html = confusion.html();
        assert_eq!(html.matches("<tr>").count(), 3, "{html}");
        assert!(html.contains("&lt;it&gt;") && html.contains("<td class=\"wrong\">1</td>"), "{html}");
    }
}
