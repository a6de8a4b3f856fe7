//! The programs of the paper, as far as they are to be had.

use anyhow::{Context, Result};
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::demo::source::SYMBOLS;
use crate::shell::{run_command, say};

/// What text searches look for: four texts, as in the paper.
const TEXTS: [&str; 4] = ["copy_from_user", "spin_lock_irqsave", "list_for_each_entry", "module_init"];
/// din's trace: a little less than the 8 MB of the paper, which fit in a cache of that size.
const TRACE_BLOCKS: u64 = 14_500;
/// The file of ReadN: 1,310 blocks of 8 KB in the paper.
const READ_BLOCKS: u64 = 20_960;

/// A program, its files, and its hints.
#[derive(Debug, Clone)]
pub struct Program {
    /// As in the paper.
    pub name: String,
    /// A script for `sh`.
    pub script: String,
    /// Where it runs.
    pub folder: PathBuf,
    /// Words for `pantler run` that tell its strategy; none of an oblivious program.
    pub hints: Vec<String>,
    /// What it reads.
    pub files: Vec<PathBuf>,
}

impl Program {
    /// All of them, with their files on the disk.
    pub fn prepare(tree: &Path, folder: &Path) -> Result<Vec<Program>> {
        let mut all = searches(tree, folder)?;
        all.push(din(folder)?);
        all.extend(readers(folder)?);
        Ok(all)
    }

    /// The same without hints.
    pub fn oblivious(&self) -> Program {
        Program { hints: profile("none"), ..self.clone() }
    }

    /// Takes its files out of memory.
    pub fn forget(&self) -> Result<()> {
        for path in &self.files {
            let file = fs::File::open(path).with_context(|| path.display().to_string())?;
            let blocks = file.metadata()?.size().div_ceil(4096);
            pantler_kernel::pages::drop_blocks(std::os::fd::AsFd::as_fd(&file), 0, blocks)?;
        }
        Ok(())
    }
}

fn profile(name: &str) -> Vec<String> {
    ["--profile", name].map(str::to_owned).into()
}

/// Hints of a program that reads in cycles, or believes so.
fn mru() -> Vec<String> {
    ["--profile", "none", "--policy", "mru"].map(str::to_owned).into()
}

/// cs1, cs2 and gli: searches for symbols, for text, and by glimpse, in the kernel's sources.
fn searches(tree: &Path, folder: &Path) -> Result<Vec<Program>> {
    let index = folder.join("index");
    if !index.join(".glimpse_index").exists() {
        say("building glimpse's index");
        fs::create_dir_all(&index)?;
        let mut build = Command::new("glimpseindex");
        // The smallest index: queries read the texts that it names.
        build.arg("-H").arg(&index).args(["fs", "mm", "include"]).current_dir(tree);
        run_command_quietly(build)?;
    }
    let listed = fs::read_to_string(tree.join("cscope.files"))?;
    let texts: Vec<PathBuf> = listed.lines().map(|line| tree.join(line)).collect();
    let database = vec![tree.join("cscope.out")];
    let index_files = fs::read_dir(&index)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    let each = |words: &[&str], query: String| -> String {
        words.iter().map(|word| format!("{query} {word} > /dev/null\n")).collect()
    };
    let search = |name: &str, script, hints: &str, files| Program {
        name: name.to_owned(),
        script,
        folder: tree.to_owned(),
        hints: profile(hints),
        files,
    };
    let glimpse = format!("glimpse -y -H {}", index.display());
    Ok(vec![
        search("cs1", each(&SYMBOLS, "cscope -d -c -k -L0".to_owned()), "cscope", database.clone()),
        search(
            "cs2",
            each(&TEXTS, "cscope -d -c -k -L4".to_owned()),
            "cscope-text",
            [&database[..], &texts].concat(),
        ),
        search("gli", each(&TEXTS, glimpse), "glimpse", [&index_files[..], &texts].concat()),
    ])
}

/// din: a simulator that reads its trace nine times.
fn din(folder: &Path) -> Result<Program> {
    let trace = made(folder, "trace", TRACE_BLOCKS)?;
    let script = format!("for pass in 1 2 3 4 5 6 7 8 9; do cat {} > /dev/null; done", trace.display());
    Ok(Program {
        name: "din".to_owned(),
        script,
        folder: folder.to_owned(),
        hints: mru(),
        files: vec![trace],
    })
}

/// ReadN, which is oblivious, and FoolRead300, each with a file of its own.
fn readers(folder: &Path) -> Result<Vec<Program>> {
    let own = own()?;
    let reader = |name: &str, group: u64, hints: Vec<String>| {
        let file = made(folder, if group == 300 { "read-300" } else { "read-n" }, READ_BLOCKS)?;
        // Blocks of 8 KB there, and FACTOR times as many here.
        let group = group * 2 * super::FACTOR as u64;
        let script = format!("{} machine-read {} {group}", own.display(), file.display());
        Ok(Program { name: name.to_owned(), script, folder: folder.to_owned(), hints, files: vec![file] })
    };
    let oblivious =
        [300, 390, 400, 490, 500].map(|group| reader(&format!("Read{group}"), group, profile("none")));
    oblivious.into_iter().chain([reader("FoolRead300", 300, mru())]).collect()
}

/// `machine-read FILE N`: ReadN of the paper. Reads N blocks five times, then the next N, to the
/// end of the file.
pub fn read(arguments: &[&str]) -> Result<()> {
    let [path, group] = arguments else { anyhow::bail!("machine-read FILE N") };
    let group: u64 = group.parse()?;
    let file = fs::File::open(path)?;
    let blocks = file.metadata()?.size() / 4096;
    let mut block = [0; 4096];
    let groups = (0..blocks).step_by(group as usize);
    for start in groups {
        for _ in 0..5 {
            for index in start..(start + group).min(blocks) {
                std::os::unix::fs::FileExt::read_exact_at(&file, &mut block, index * 4096)?;
            }
        }
    }
    Ok(())
}

pub fn own() -> Result<PathBuf> {
    std::env::current_exe().context("cannot find the own program")
}

fn run_command_quietly(mut command: Command) -> Result<()> {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    run_command(command)
}

/// A file with this number of blocks, on the disk.
fn made(folder: &Path, name: &str, blocks: u64) -> Result<PathBuf> {
    let path = folder.join(name);
    if fs::metadata(&path).is_ok_and(|meta| meta.len() == blocks * 4096) {
        return Ok(path);
    }
    let mut file = std::io::BufWriter::new(fs::File::create(&path)?);
    for block in 0..blocks {
        file.write_all(&block.to_le_bytes().repeat(512))?;
    }
    file.into_inner()?.sync_all()?;
    Ok(path)
}
