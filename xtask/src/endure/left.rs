//! What Pantler may leave behind on a machine.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use pantler_kernel::process::processes;

/// The kernel takes its time to remove an instance.
const PATIENCE: Duration = Duration::from_secs(10);

/// All that is left, in words: sockets in this folder, and what names Pantler elsewhere.
pub fn all(sockets: &Path) -> Result<Vec<String>> {
    let begun = Instant::now();
    loop {
        let left = look(sockets)?;
        if left.is_empty() || begun.elapsed() > PATIENCE {
            return Ok(left);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn look(sockets: &Path) -> Result<Vec<String>> {
    let mut left = Vec::new();
    let mut named = |folder: &Path, what: &str| {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if what == "socket" || name.starts_with("pantler-") {
                left.push(format!("E6: a {what} is left: {name}"));
            }
        }
    };
    named(sockets, "socket");
    for tracefs in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
        named(&Path::new(tracefs).join("instances"), "trace instance");
    }
    for groups in ["/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified"] {
        named(Path::new(groups), "control group");
    }
    let probes = fs::read_to_string("/sys/kernel/tracing/kprobe_events").unwrap_or_default();
    left.extend(probes.lines().filter(|line| line.contains("pantler")).map(|line| format!("E6: {line}")));
    let variable = format!("PANTLER_RUNTIME_DIR={}", sockets.display());
    for id in processes()? {
        // Those that start and end meanwhile have none.
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes()) {
            left.push(format!("E6: process {id} is left"));
        }
    }
    Ok(left)
}
