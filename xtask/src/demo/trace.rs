//! Which blocks the queries read: a recording by the kernel's own tracepoint, and the optimum on
//! it.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

use super::runs::{Disk, Kind, Scene};

/// Where the trace file system is mounted, or can be.
const TRACEFS: &str = "/sys/kernel/tracing";
const EVENT: &str = "events/filemap/mm_filemap_get_pages";
/// Room per processor: a query is some ten thousand events of some forty bytes.
const BUFFER_KB: &str = "32768";

/// References to blocks of the database, in order.
pub struct Trace {
    references: Vec<u64>,
}

impl Trace {
    /// Bytes that were asked for, in whole blocks.
    pub fn referenced_bytes(&self) -> u64 {
        self.references.len() as u64 * 4096
    }

    /// As lines that the simulator reads.
    pub fn csv(&self) -> String {
        let lines = self.references.iter().map(|block| format!("database,{block}\n"));
        std::iter::once("file,block\n".to_owned()).chain(lines).collect()
    }

    /// Bytes that MIN, which knows the future, reads with this much memory.
    pub fn ideal_read_bytes(&self, budget_bytes: u64) -> u64 {
        let frames = usize::try_from(budget_bytes / 4096).unwrap_or(usize::MAX);
        pantler_policy::min::misses(&self.references, frames) * 4096
    }
}

/// Runs the queries by the kernel alone and records what they read.
pub fn record(scene: &Scene) -> Result<Trace> {
    let instance = Instance::new()?;
    let (device, inode) = scene.source.identity;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    instance.write("buffer_size_kb", BUFFER_KB)?;
    instance.write(
        &format!("{EVENT}/filter"),
        &format!("i_ino == {inode} && s_dev == {}", major << 20 | minor),
    )?;
    instance.write(&format!("{EVENT}/enable"), "1")?;
    scene.run(Kind::Kernel, Disk::Raw)?;
    instance.write(&format!("{EVENT}/enable"), "0")?;
    let text = fs::read_to_string(instance.0.join("trace")).context("cannot read the recording")?;
    let blocks = scene.source.database_bytes.div_ceil(4096);
    let references: Vec<u64> =
        text.lines().filter_map(parse).flatten().filter(|&block| block < blocks).collect();
    if (references.len() as u64) < blocks {
        bail!("the recording holds {} references to {blocks} blocks", references.len());
    }
    Ok(Trace { references })
}

/// The blocks of one line: `cscope-1 [000] ..... 1.5: mm_filemap_get_pages: dev=254:0 ino=5
/// ofs=8192-16383`.
fn parse(line: &str) -> Option<std::ops::RangeInclusive<u64>> {
    let (first, last) = line.split_once("mm_filemap_get_pages:")?.1.split_once("ofs=")?.1.split_once('-')?;
    Some(first.trim().parse::<u64>().ok()? / 4096..=last.trim().parse::<u64>().ok()? / 4096)
}

/// An own instance of the tracer, removed when it goes out of scope.
struct Instance(PathBuf);

impl Instance {
    fn new() -> Result<Instance> {
        if !Path::new(TRACEFS).join("instances").is_dir() {
            let mount = ["mount", "-t", "tracefs", "tracefs", TRACEFS];
            crate::shell::run(&mount).context("the trace file system cannot be mounted")?;
        }
        if !Path::new(TRACEFS).join(EVENT).is_dir() {
            let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
            bail!("Linux {} has no tracepoint filemap:mm_filemap_get_pages", kernel.trim());
        }
        let path = Path::new(TRACEFS).join("instances").join(pantler_kernel::names::run_name("demo"));
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Instance(path))
    }

    fn write(&self, file: &str, value: &str) -> Result<()> {
        let path = self.0.join(file);
        fs::write(&path, value).with_context(|| format!("cannot write {value} to {}", path.display()))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.write(&format!("{EVENT}/enable"), "0");
        if let Err(error) = fs::remove_dir(&self.0) {
            eprintln!("xtask: {} stays behind: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_blocks() {
        let line = " cscope-88 [001] ..... 12.5: mm_filemap_get_pages: dev=254:0 ino=1f ofs=8192-16383";
        assert_eq!(parse(line), Some(2..=3));
        assert_eq!(parse("# tracer: nop"), None);
        assert_eq!(parse("x: mm_filemap_fault: dev=254:0 ino=1f ofs=8192"), None);
    }

    #[test]
    fn the_ideal_of_a_cycle_saves_what_fits() {
        let trace = Trace { references: (0..8).flat_map(|_| 0..300).collect() };
        assert_eq!(trace.referenced_bytes(), 8 * 300 * 4096);
        // 300 at first, then 100 blocks and the one in hand per further pass.
        assert_eq!(trace.ideal_read_bytes(200 * 4096), (300 + 7 * 100) * 4096);
    }
}
