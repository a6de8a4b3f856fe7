//! Papers as documents: one in Markdown for each, and one page of HTML for all.
//!
//! Both walk over the same parts and tables; only the marks differ.

use html_escape::encode_text;

use crate::outcome::{Claim, Outcome, Table};
use crate::paper::{Made, Paper, Part};
use crate::ran::Ran;

/// Said of a row in which the paper's technique is behind.
const LOSES: &str = "loses";

/// The document of a paper: `rans` by name.
pub fn markdown(paper: &Paper, rans: &[Ran]) -> String {
    let mut text = format!("# {}\n\n{}\n\n{}\n", paper.source, paper.about, made(paper, rans));
    for part in paper.parts {
        text += "\n";
        text += &match part.made {
            Made::Here(_) => {
                let name = paper.name_of(part);
                rans.iter().find(|ran| ran.name == name).map_or_else(
                    || heading(part) + "\nNot made: its traces are not here.\n",
                    |ran| section(&name, part, &ran.outcome),
                )
            }
            Made::Elsewhere { command, document } => {
                format!("{}\nMade by `{command}`: [{document}](../{document}).\n", heading(part))
            }
            Made::Not { why, instead } => {
                format!("{}\nNot made: {why}.\nThe nearest to it: {instead}.\n", heading(part))
            }
        };
    }
    text
}

/// What made the document.
fn made(paper: &Paper, rans: &[Ran]) -> String {
    format!(
        "Made by `make papers` from {}; one part: `cargo xtask papers --only {}/PART`.\n\
         Everything is counted or runs in virtual time: there is no spread, and the same sources give the same digits.\n\
         What `make papers` cannot make is listed with the reason.",
        source(paper, rans),
        paper.name,
    )
}

/// What a paper's experiments came from, in words.
fn source(paper: &Paper, rans: &[Ran]) -> String {
    let is_own = |ran: &&Ran| ran.name.split('/').next() == Some(paper.name);
    rans.iter().find(is_own).map_or_else(|| "nothing".to_owned(), |ran| ran.source.describe())
}

fn heading(part: &Part) -> String {
    format!("## {}: {}\n", part.number.heading(), part.title)
}

/// A part that was made here, with its heading. What is compared with a committed document.
pub fn section(name: &str, part: &Part, outcome: &Outcome) -> String {
    let mut text = heading(part);
    text += &format!("\n`cargo xtask papers --only {name}`\n");
    for table in &outcome.tables {
        text += "\n";
        if !table.title.is_empty() {
            text += &format!("### {}\n\n", table.title);
        }
        let rule: Vec<&str> =
            (0..table.columns.len()).map(|at| if at < table.names { "---" } else { "---:" }).collect();
        text += &format!("| {} |\n| {} |\n", table.columns.join(" | "), rule.join(" | "));
        for cells in rows(table) {
            text += &format!("| {} |\n", cells.join(" | "));
        }
    }
    if !outcome.claims.is_empty() {
        text += "\n| the paper says | holds here | found |\n| --- | --- | --- |\n";
        for Claim { says, holds, found } in &outcome.claims {
            text += &format!("| {says} | {} | {found} |\n", holds_as_text(*holds));
        }
    }
    for note in &outcome.notes {
        text += &format!("\n{note}\n");
    }
    text
}

impl Ran {
    /// Lines in which a document has something else of this part, what it has first; none where it
    /// is the same.
    pub fn differences(&self, part: &Part, document: &str) -> Vec<String> {
        let made = section(&self.name, part, &self.outcome);
        let command = format!("`cargo xtask papers --only {}`", self.name);
        let Some(start) = document.find(&command) else {
            return vec![format!("{}: the document has no such part", self.name)];
        };
        let end = document[start..].find("\n## ").map_or(document.len(), |length| start + length);
        let kept: Vec<&str> = document[start..end].trim().lines().collect();
        let made: Vec<&str> = made.lines().skip_while(|line| *line != command).collect();
        let lines = (0..kept.len().max(made.len())).map(|at| (kept.get(at), made.get(at)));
        lines
            .filter(|(kept, made)| kept != made)
            .map(|(kept, made)| {
                let [kept, made] = [kept, made].map(|line| line.copied().unwrap_or("nothing"));
                format!("{}: {kept}\n    is now: {made}", self.name)
            })
            .collect()
    }
}

fn holds_as_text(holds: bool) -> &'static str {
    if holds { "yes" } else { "**no**" }
}

/// Cells by row; one that loses says so behind its last name.
fn rows(table: &Table) -> impl Iterator<Item = Vec<String>> + '_ {
    table.rows.iter().map(|row| {
        let mut cells = row.cells.clone();
        if row.loses {
            cells[table.names - 1] += &format!(" ({LOSES})");
        }
        cells
    })
}

/// All papers on one page. `links` leads from the page to the folder `docs`.
pub fn html(papers: &[Paper], rans: &[Ran], links: &str) -> String {
    const STYLE: &str = "body{font:15px/1.45 sans-serif;max-width:75em;margin:2em auto;padding:0 1em}\
        table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #ccc;padding:.2em .6em}\
        td.n{text-align:right;font-variant-numeric:tabular-nums}tr.loses,td.no{background:#fde8e8}\
        code{background:#f3f3f3}";
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Five papers, made anew</title>\n\
         <style>{STYLE}</style>\n<h1>Five papers, made anew</h1>\n<ul>\n"
    );
    for paper in papers {
        text += &format!("<li><a href=\"#{}\">{}</a></li>\n", paper.name, encode_text(paper.source));
    }
    text += "</ul>\n";
    for paper in papers {
        text += &format!(
            "<h2 id=\"{}\">{}</h2>\n<p>{}</p>\n<p>Made from {}.</p>\n",
            paper.name,
            encode_text(paper.source),
            encode_text(paper.about),
            encode_text(&source(paper, rans))
        );
        for part in paper.parts {
            text += &html_part(paper, part, rans, links);
        }
    }
    text + "</html>\n"
}

fn html_part(paper: &Paper, part: &Part, rans: &[Ran], links: &str) -> String {
    let name = paper.name_of(part);
    let mut text = format!(
        "<h3 id=\"{name}\">{}: {}</h3>\n",
        encode_text(&part.number.heading()),
        encode_text(part.title)
    );
    match part.made {
        Made::Here(_) => match rans.iter().find(|ran| ran.name == name) {
            Some(ran) => {
                text += &format!("<p><code>cargo xtask papers --only {name}</code></p>\n");
                ran.outcome.tables.iter().for_each(|table| text += &html_table(table));
                text += &html_claims(&ran.outcome.claims);
                for note in &ran.outcome.notes {
                    text += &format!("<p>{}</p>\n", encode_text(note));
                }
            }
            None => text += "<p>Not made: its traces are not here.</p>\n",
        },
        Made::Elsewhere { command, document } => {
            text += &format!(
                "<p>Made by <code>{}</code>: <a href=\"{links}/{document}\">{document}</a>.</p>\n",
                encode_text(command)
            );
        }
        Made::Not { why, instead } => {
            text += &format!(
                "<p>Not made: {}. The nearest to it: {}.</p>\n",
                encode_text(why),
                encode_text(instead)
            );
        }
    }
    text
}

fn html_table(table: &Table) -> String {
    let cell = |tag: &str, text: &str| format!("<{tag}>{}</{tag}>", encode_text(text));
    let mut text = format!("<h4>{}</h4>\n<table>\n<tr>", encode_text(&table.title));
    table.columns.iter().for_each(|column| text += &cell("th", column));
    text += "</tr>\n";
    for (row, cells) in table.rows.iter().zip(rows(table)) {
        text += if row.loses { "<tr class=\"loses\">" } else { "<tr>" };
        for (at, written) in cells.iter().enumerate() {
            text += &match at < table.names {
                true => cell("td", written),
                false => format!("<td class=\"n\">{}</td>", encode_text(written)),
            };
        }
        text += "</tr>\n";
    }
    text + "</table>\n"
}

fn html_claims(claims: &[Claim]) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let mut text = "<table>\n<tr><th>the paper says</th><th>holds here</th><th>found</th></tr>\n".to_owned();
    for Claim { says, holds, found } in claims {
        let (class, answer) = if *holds { ("yes", "yes") } else { ("no", "no") };
        text += &format!(
            "<tr><td>{}</td><td class=\"{class}\">{answer}</td><td>{}</td></tr>\n",
            encode_text(says),
            encode_text(found)
        );
    }
    text + "</table>\n"
}
