//! The packages for Debian in a guest: Debian 13 as it is after its installation.

use anyhow::{Result, bail};
use std::path::PathBuf;

use crate::kernels::{Guests, Results};
use crate::shell::say;

/// Debian 13's own.
const KERNEL: &str = "6.12";
const JOB: &str = include_str!("trial.sh");

/// What must come of it.
const PROMISES: [(&str, &str); 22] = [
    ("install.status", "0"),
    ("doctor.status", "0"),
    ("guide.commands", "2"),
    ("guide.status", "0"),
    ("page.status", "0"),
    ("completion.status", "0"),
    ("library", "1"),
    ("development.status", "0"),
    ("verified.status", "0"),
    ("fresh", "inactive disabled"),
    ("unit.status", "0"),
    ("shipped.status", "0"),
    ("service.wrong", "nothing"),
    ("found.status", "0"),
    ("joined.status", "0"),
    ("stop.status", "0"),
    ("stopped", "inactive"),
    ("stopped.left", "0"),
    ("enabled", "enabled"),
    ("purge.status", "0"),
    ("purged.left", "0"),
    ("end", "0"),
];
/// Without these something of the trial fails; docs/decisions/0146-packages.md names the others.
const NEEDED: [&str; 10] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "MKNOD",
    "SETFCAP",
    "SETGID",
    "SETUID",
    "SYS_ADMIN",
    "SYS_NICE",
    "SYS_PTRACE",
];
/// A newcomer sees the first saving within this many seconds of the guest's clock, which is slow.
const SECONDS_MAX: u32 = 300;
/// The part of what LRU would have read that a run of the guide reads at most.
const READS_MAX: f64 = 0.65;

/// Installs packages in a guest, follows the guide there, uses the service, and purges them.
///
/// # Errors
/// The guest did not boot; all promises that were not kept.
pub fn in_guest(packages: &[PathBuf]) -> Result<()> {
    let results = Guests::prepare(&[KERNEL])?.boot_files(JOB, packages)?;
    let broken = broken(&results);
    if !broken.is_empty() {
        bail!("promises that were not kept:\n  {}", broken.join("\n  "));
    }
    let saved = results.get("guide.saved");
    say(format_args!("installed, and the guide's runs read of what LRU would have read, in MiB: {saved}"));
    say(format_args!("{} s after the package came; nothing stayed of it", results.get("guide.seconds")));
    Ok(())
}

fn broken(results: &Results) -> Vec<String> {
    let mut broken = Vec::new();
    for (name, expected) in PROMISES {
        let got = results.get(name);
        if got != expected {
            broken.push(format!("{name}: {got:?} instead of {expected:?}"));
        }
    }
    for (name, runs) in [("guide.saved", 2), ("joined.saved", 1)] {
        let parts = parts(results.get(name));
        // Without a number nothing is kept.
        if parts.len() != runs || !parts.iter().all(|&part| part <= READS_MAX) {
            broken.push(format!(
                "{name}: {parts:.2?} of what LRU would have read, not {runs} times {READS_MAX}"
            ));
        }
    }
    for capability in NEEDED {
        let wrong = results.get(&format!("without.CAP_{capability}"));
        if ["", "nothing"].contains(&wrong) {
            broken.push(format!("the service does without CAP_{capability}"));
        }
    }
    let seconds = results.get("guide.seconds");
    if !seconds.parse().is_ok_and(|seconds: u32| seconds <= SECONDS_MAX) {
        broken.push(format!("guide.seconds: {seconds}, above {SECONDS_MAX}"));
    }
    broken
}

/// What runs read, as parts of what LRU would have read: pairs of numbers, by run.
fn parts(told: &str) -> Vec<f64> {
    let numbers: Vec<f64> = told.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    numbers.as_chunks().0.iter().map(|[read, lru]| read / lru).collect()
}
