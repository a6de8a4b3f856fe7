//! What runs, on which files.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::postgresql;
use crate::demo::source::SYMBOLS;

/// What searches look for.
const TEXTS: [&str; 4] = ["copy_from_user", "spin_lock_irqsave", "list_for_each_entry", "module_init"];
/// The text that is sorted.
const SORTED_BYTES: usize = 48 << 20;

/// A program in two variants.
pub struct Example {
    pub name: &'static str,
    /// For `sh`, in the folder of the files; `$1` is the program.
    pub script: String,
    /// What is on the mount, or read by the steered program.
    pub data: PathBuf,
    /// Holds `plain` and `patched`.
    pub programs: PathBuf,
    pub budget: u64,
    /// The user and group that it runs as, if not root.
    pub user: Option<(u32, u32)>,
    /// Folders of it that each run finds empty.
    pub emptied: Option<PathBuf>,
}

impl Example {
    pub fn program(&self, is_patched: bool) -> PathBuf {
        let variant = if is_patched { "patched" } else { "plain" };
        self.programs.join(variant).join(self.name)
    }

    /// Leaves nothing of the run before.
    pub fn reset(&self) -> Result<()> {
        let Some(folder) = &self.emptied else { return Ok(()) };
        let _ = fs::remove_dir_all(folder);
        Ok(fs::create_dir_all(folder)?)
    }
}

/// Writes what they read.
pub fn write(folder: &Path, point: &Path, tree: &Path) -> Result<()> {
    let [database, texts, sorted] = ["cscope", "search", "sort"].map(|name| point.join(name));
    fs::create_dir_all(&database)?;
    fs::copy(tree.join("cscope.out"), database.join("cscope.out"))?;
    fs::create_dir_all(&sorted)?;
    let mut text = fs::read(tree.join("cscope.out"))?;
    text.retain(|&byte| byte != 0);
    text.truncate(SORTED_BYTES);
    fs::write(sorted.join("input"), text)?;
    let listed = fs::read_to_string(tree.join("cscope.files"))?;
    let names: Vec<&str> = listed.lines().filter(|name| name.starts_with("fs/")).collect();
    for name in &names {
        let to = texts.join(name);
        fs::create_dir_all(to.parent().context("a file in a folder")?)?;
        fs::copy(tree.join(name), to)?;
    }
    let mut index = Command::new(folder.join("search/plain/search"));
    let mut index = index.args(["index", "index"]).current_dir(&texts).stdin(Stdio::piped()).spawn()?;
    let mut to_index = index.stdin.take().context("a pipe was asked for")?;
    to_index.write_all((names.join("\n") + "\n").as_bytes())?;
    drop(to_index);
    ensure!(index.wait()?.success(), "the index was not made");
    postgresql::write(folder, &point.join("postgresql"))
}

/// One of them, by its name.
pub fn example(name: &'static str, folder: &Path, point: &Path) -> Result<Example> {
    let (programs, data) = (folder.join(name), point.join(name));
    let (script, budget, emptied) = match name {
        // cs1 of the paper: eight symbols in the database of the kernel's sources.
        "cscope" => {
            let bytes = fs::metadata(data.join("cscope.out"))?.len();
            let script = format!("for symbol in {}; do \"$1\" -d -c -k -L0 $symbol; done", SYMBOLS.join(" "));
            (script, bytes * 2 / 3 / 4096 * 4096, None)
        }
        // gli: words in texts, by a small index.
        "search" => {
            (format!("for word in {}; do \"$1\" ./index $word; done", TEXTS.join(" ")), 24 << 20, None)
        }
        // sort: a text, by runs of 2 MiB that are merged by eight.
        "sort" => ("\"$1\" input runs".to_owned(), 24 << 20, Some(data.join("runs"))),
        _ => return postgresql::example(programs, data),
    };
    Ok(Example { name, script, data, programs, budget, user: None, emptied })
}
