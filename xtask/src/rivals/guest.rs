//! Reads in a guest, by classic lists and by MGLRU: the kernel of this machine has one of them.
//!
//! The guest's processors are translated, so times there mean nothing, and programs read less than
//! on the machine: the same kinds of reads of smaller files.

use anyhow::{Context, Result, bail};
use std::fmt::Write;
use std::path::Path;

use super::FOLDER;
use super::kept::Kept;
use super::rows::Row;
use crate::demo;
use crate::kernels::{Guests, Results};
use crate::shell;

/// As it is asked for.
pub const NAME: &str = "guest";
/// Debian 13's own, which has both.
const KERNEL: &str = "6.12";
const JOB: &str = include_str!("guest.sh");
const ROWS: [&str; 4] = ["cscope", "ripgrep", "epochs", "weights-read"];
/// How blocks are kept there, as the job names it and as the table does.
const ARMS: [(&str, &str); 4] = [
    ("classic", "kernel, classic lists"),
    ("mglru", "kernel, MGLRU"),
    ("run-classic", "run, classic lists"),
    ("run-mglru", "run, MGLRU"),
];
/// What lies beside the job: folders of the demo's source, packed.
const TREE: &str = "tree.tar";
const FOLDERS: [&str; 2] = ["fs", "mm"];

/// Measures once, and gives the table in Markdown.
pub fn table(kept: &Kept, pantler: &Path) -> Result<String> {
    if let Some(table) = kept.get(NAME) {
        return Ok(table);
    }
    let folder = Path::new(FOLDER);
    let (tree, tar) = (Path::new(demo::FOLDER).join("tree"), folder.join(TREE));
    let pack =
        ["tar", "--create", "--file", &tar.display().to_string(), "--directory", &tree.display().to_string()];
    shell::output(&[&pack[..], &FOLDERS].concat())?;
    let reader = folder.join("reader.py");
    std::fs::write(&reader, Row::READER)?;
    let files = [pantler.to_owned(), tar, reader];
    let table = text(&Guests::prepare(&[KERNEL])?.boot_files(JOB, &files)?)?;
    kept.keep(NAME, &table)?;
    Ok(table)
}

fn text(results: &Results) -> Result<String> {
    let mut text =
        format!("\n### Reads in a guest, MB\n\nLinux {}, one run of each.\n\n", results.get("kernel"));
    let names = ARMS.map(|(_, name)| name);
    let _ = writeln!(text, "| row | data, MB | budget, MB | {} |", names.join(" | "));
    let _ = writeln!(text, "| --- | ---: | ---: |{}", " ---: |".repeat(names.len()));
    for row in ROWS {
        let megabytes = |what: &str| -> Result<f64> {
            let told = results.get(&format!("{row}.{what}"));
            let bytes: f64 = told.parse().with_context(|| format!("{row}.{what} in the guest: {told:?}"))?;
            Ok(bytes / 1e6)
        };
        let (data, budget) = (megabytes("data")?, megabytes("budget")?);
        let mut cells = Vec::new();
        for (arm, _) in ARMS {
            let (status, read) =
                (results.get(&format!("{row}.{arm}.status")), megabytes(&format!("{arm}.bytes"))?);
            if status != "0" || read < data * 0.95 {
                bail!("{row} by {arm} in the guest ended with {status} and read {read:.1} MB of {data:.1}");
            }
            cells.push(format!("{read:.0}"));
        }
        let _ = writeln!(text, "| {row} | {data:.1} | {budget:.1} | {} |", cells.join(" | "));
    }
    Ok(text)
}
