//! `make machine`: the experiments of the first paper with real programs, on the page cache of this
//! machine. Programs join one daemon, and share its budget.
//!
//! Each row is the same work by the kernel alone (in a group with the budget as limit, and what the
//! programs hold themselves on top), by global LRU, and by LRU-SP with the programs' hints. Reads
//! are those of the disk; of each program those that it waited for or that were made for it.

use anyhow::{Result, bail};
use std::fs;
use std::path::Path;

use crate::demo::{self, source};
use crate::packages;
use crate::shell::{self, say};
use crate::wanted::Wanted;

mod arms;
mod overhead;
mod programs;
mod tables;

use arms::Bench;
use programs::Program;

/// As a user builds it.
const BUILD: &str = "cargo build --release --package pantler-cli";
/// Files of the programs. The tree and its database are the demo's.
const FOLDER: &str = "target/machine";
/// The paper's memory for the cache, in megabytes of 2^20 bytes, and by what ours is larger: the
/// kernel's source has grown.
const PAPER_MB: [f64; 4] = [6.4, 8.0, 12.0, 16.0];
const FACTOR: f64 = 8.0;

/// Sizes of the cache, in bytes.
fn sizes() -> [u64; 4] {
    PAPER_MB.map(|megabytes| (megabytes * FACTOR * f64::from(1 << 20)) as u64 / 4096 * 4096)
}

/// Measures, and prints the tables.
pub fn machine(arguments: &[&str]) -> Result<()> {
    let wanted = Wanted::of("machine", &tables::ALL, 5, arguments)?;
    if !shell::is_root()? {
        bail!("machine needs root, as the daemon does: sudo make machine");
    }
    packages::ensure(packages::MACHINE)?;
    shell::run(&shell::words(BUILD))?;
    fs::create_dir_all(demo::FOLDER)?;
    fs::create_dir_all(FOLDER)?;
    let interrupt = demo::Interrupt::catch()?;
    let source = source::prepare(&Path::new(demo::FOLDER).canonicalize()?, &interrupt)?;
    let programs = Program::prepare(&source.tree, &Path::new(FOLDER).canonicalize()?)?;
    rustix::fs::sync();
    let bench = Bench::new(&programs, interrupt, wanted.repeats)?;
    println!("{}", bench.environment()?);
    for table in tables::ALL.iter().filter(|table| wanted.has(table)) {
        say(format_args!("{table}: each row {} times", wanted.repeats));
        print!("{}", tables::table(table, &bench)?);
    }
    Ok(())
}

pub use arms::{daemon, environment};
pub use programs::read;
