//! On what a benchmark ran: included by the benches of all crates, which print it with their
//! figures.

use std::fs;
use std::path::Path;

/// Kernel, processors, memory, file system of a folder if one matters, and load, in one line.
pub fn line(folder: Option<&Path>) -> String {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name))?.split_once(':')?.1.trim();
        Some(value.to_owned())
    };
    let unknown = || "unknown".to_owned();
    let model = field(&text("/proc/cpuinfo"), "model name").unwrap_or_else(unknown);
    let memory = field(&text("/proc/meminfo"), "MemTotal").unwrap_or_else(unknown);
    let file_system = folder.map(|folder| format!(", {}", file_system(folder).unwrap_or_else(unknown)));
    format!(
        "Linux {}, {} x {model}, {memory}{}, load {}",
        text("/proc/sys/kernel/osrelease").trim(),
        std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        file_system.unwrap_or_default(),
        text("/proc/loadavg").trim(),
    )
}

/// The kind of file system a folder lies on, and its device: the deepest mount point above it.
fn file_system(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (device, place, kind) = (words.next()?, words.next()?, words.next()?);
        folder.starts_with(place).then_some((place.len(), format!("{kind} on {device}")))
    });
    // Of two at one place the later one covers the earlier.
    mounts.max_by_key(|(length, _)| *length).map(|(_, text)| text)
}
