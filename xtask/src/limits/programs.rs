//! Programs that read the same files several times.

use anyhow::Result;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::demo::source::{FOLDERS, SYMBOLS, Source};
use crate::shell::run_command;

/// What can be asked for alone.
pub const NAMES: [&str; 4] = ["cscope", "ripgrep", "loader", "tar"];
/// Files of loader and tar: 2,000 of 13 pages.
const FILES: usize = 2_000;
const FILE_BYTES: usize = 53_000;

/// A program, and what it reads.
#[derive(Debug)]
pub struct Program {
    pub name: &'static str,
    /// For `sh`.
    pub script: String,
    /// Where it runs, below the disk's folder.
    pub folder: &'static str,
    /// Pages that each pass reads, in bytes.
    pub bytes: u64,
    passes: u64,
}

impl Program {
    /// All of them, on a disk that is mounted at `point`.
    pub fn all(point: &Path) -> Result<Vec<Program>> {
        let queries: String =
            SYMBOLS.iter().map(|symbol| format!("cscope -d -c -k -L0 {symbol} > /dev/null\n")).collect();
        let program = |name, script, folder, read: &str, passes| -> Result<Program> {
            Ok(Program { name, script, folder, bytes: pages_below(&point.join(read))?, passes })
        };
        Ok(vec![
            program("cscope", queries, "database", "database/cscope.out", SYMBOLS.len() as u64)?,
            program("ripgrep", times(10, "rg --quiet -e no_such_text . || true"), "tree", "tree", 10)?,
            program("loader", loader(10), "files", "files", 10)?,
            program("tar", times(6, "tar --create --file - . | cat"), "files", "files", 6)?,
        ])
    }

    /// What MIN reads with this much memory for blocks, of a program that reads `whole` in each
    /// pass.
    pub fn least_bytes(&self, whole: f64, memory: f64) -> f64 {
        whole + (self.passes - 1) as f64 * (whole - memory).max(0.0)
    }
}

fn times(count: usize, command: &str) -> String {
    format!("{command}\n").repeat(count)
}

fn loader(passes: usize) -> String {
    format!(
        "exec python3 -c '\nfor _ in range({passes}):\n    for i in range({FILES}):\n        with open(str(i), \"rb\") as file: file.read()\n'"
    )
}

/// Fills the disk.
pub fn write(point: &Path, source: &Source) -> Result<()> {
    let files = point.join("files");
    fs::create_dir(&files)?;
    for number in 0..FILES {
        let word = (number as u64).to_le_bytes();
        fs::write(files.join(number.to_string()), word.repeat(FILE_BYTES / word.len()))?;
    }
    fs::create_dir(point.join("database"))?;
    fs::copy(&source.database, point.join("database/cscope.out"))?;
    fs::create_dir(point.join("tree"))?;
    for folder in FOLDERS {
        let mut copy = Command::new("cp");
        copy.arg("--recursive").arg(source.tree.join(folder)).arg(point.join("tree"));
        run_command(copy)?;
    }
    Ok(())
}

/// Pages of a file, or of all files below a folder, in bytes.
fn pages_below(path: &Path) -> Result<u64> {
    let kind = fs::symlink_metadata(path)?;
    if kind.is_dir() {
        return fs::read_dir(path)?.map(|entry| pages_below(&entry?.path())).sum();
    }
    Ok(if kind.is_file() { kind.len().div_ceil(4096) * 4096 } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn min_reads_all_once_and_then_what_does_not_fit() {
        let program = Program { name: "", script: String::new(), folder: "", bytes: 0, passes: 4 };
        let least = |memory| program.least_bytes(100.0, memory) as u64;
        assert_eq!((least(70.0), least(200.0)), (190, 100));
    }
}
