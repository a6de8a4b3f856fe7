//! What the demo works on: a real C source tree, its cscope database, and eight queries.

use anyhow::{Context, Result, bail};
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Interrupt;
use crate::shell::{run_command, say};

/// The archive that the Debian package `linux-source-6.1` ships.
const ARCHIVE: &str = "/usr/src/linux-source-6.1.tar.xz";
/// Folders of it that make a database larger than the last cache of a processor and small enough
/// for a demo.
pub const FOLDERS: [&str; 3] = ["fs", "mm", "include"];
/// What is asked, one process each: where is this symbol used?
pub const SYMBOLS: [&str; 8] =
    ["kmalloc", "mutex_lock", "d_path", "list_add_tail", "get_page", "vfs_fsync", "put_user", "alloc_pages"];

/// The tree, ready to be queried.
pub struct Source {
    /// Folder with the tree and the database.
    pub tree: PathBuf,
    /// The database.
    pub database: PathBuf,
    /// Its size.
    pub database_bytes: u64,
    /// Device and inode of the database, as tracepoints name them.
    pub identity: (u64, u64),
    /// The script that runs the queries; its first argument is where the answers go.
    pub script: PathBuf,
}

/// Unpacks the tree and builds the database, unless an earlier demo did.
pub fn prepare(folder: &Path, interrupt: &Interrupt) -> Result<Source> {
    let tree = folder.join("tree");
    let database = tree.join("cscope.out");
    if !database.exists() {
        unpack(folder, &tree)?;
        interrupt.check()?;
        index(&tree, &FOLDERS)?;
        interrupt.check()?;
    }
    // Dirty pages cannot be dropped.
    fs::File::open(&database)?.sync_all()?;
    let metadata = database.metadata()?;
    let script = folder.join("queries.sh");
    fs::write(&script, queries()).context("cannot write the queries")?;
    Ok(Source {
        tree,
        database,
        database_bytes: metadata.len(),
        identity: (metadata.dev(), metadata.ino()),
        script,
    })
}

fn unpack(folder: &Path, tree: &Path) -> Result<()> {
    if !Path::new(ARCHIVE).exists() {
        bail!("{ARCHIVE} is missing: install the package linux-source-6.1");
    }
    say("unpacking fs, mm and include of linux-source-6.1 (half a minute)");
    // Unpacked beside and renamed, so that an interrupted demo starts again.
    let fresh = folder.join("unpacking");
    let _ = fs::remove_dir_all(&fresh);
    fs::create_dir(&fresh)?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--strip-components=1", "--file", ARCHIVE, "--directory"]).arg(&fresh);
    tar.args(FOLDERS.map(|name| format!("linux-source-6.1/{name}")));
    run_command(tar)?;
    let _ = fs::remove_dir_all(tree);
    fs::rename(&fresh, tree).context("cannot move the tree to its place")
}

/// Builds the database `cscope.out` of the C sources in some folders of a tree, in the tree.
///
/// # Errors
/// What cannot be read or written.
pub fn index(tree: &Path, folders: &[&str]) -> Result<()> {
    let mut files = Vec::new();
    for name in folders {
        find_sources(tree, Path::new(name), &mut files)?;
    }
    files.sort();
    say(format_args!("building the cscope database of {} files", files.len()));
    fs::write(tree.join("cscope.files"), files.join("\n") + "\n")?;
    let mut cscope = Command::new("cscope");
    // Not -q: the inverted index would turn the scan into a lookup. -c keeps the database plain
    // text.
    cscope.args(["-b", "-c", "-k", "-f", "cscope.new"]).current_dir(tree).stderr(std::process::Stdio::null());
    run_command(cscope)?;
    fs::rename(tree.join("cscope.new"), tree.join("cscope.out")).context("cscope wrote no database")
}

fn find_sources(tree: &Path, folder: &Path, files: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(tree.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            find_sources(tree, &path, files)?;
        } else if kind.is_file() && path.extension().is_some_and(|e| e == "c" || e == "h") {
            files.extend(path.to_str().map(str::to_owned));
        }
    }
    Ok(())
}

/// One process per query, as at a prompt.
fn queries() -> String {
    let mut script =
        "#!/bin/sh\n# The working directory holds the database; the answers go to $1.\nset -e\n".to_owned();
    let _ = writeln!(script, ": > \"$1\"");
    for symbol in SYMBOLS {
        let _ = writeln!(script, "cscope -d -c -k -L0 {symbol} >> \"$1\"");
    }
    script
}
