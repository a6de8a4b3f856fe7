//! The fuzz targets, one after the other, with a nightly compiler and cargo-fuzz; both are
//! installed if missing.
//!
//! CI compiles them as programs that read one input, and runs those of readers on mutated samples,
//! without a fuzzer: `lab/trace/tests/fuzz_smoke.rs`.

use anyhow::{Context, Result, bail};
use std::fs;

use crate::shell::{output, run, say};

const FOLDER: &str = "fuzz";

/// Runs each target for `seconds` seconds; an input that crashes one stays in `fuzz/artifacts`.
pub fn fuzz(seconds: &str) -> Result<()> {
    let seconds: u32 = seconds.parse().with_context(|| format!("{seconds:?} is no number of seconds"))?;
    if output(&["rustup", "run", "nightly", "cargo", "--version"]).is_err() {
        run(&["rustup", "toolchain", "install", "nightly", "--profile", "minimal"])?;
    }
    if output(&["cargo", "fuzz", "--version"]).is_err() {
        run(&["cargo", "install", "--locked", "cargo-fuzz"])?;
    }
    let mut targets: Vec<String> = fs::read_dir(format!("{FOLDER}/fuzz_targets"))?
        .filter_map(|entry| entry.ok()?.path().file_stem()?.to_str().map(str::to_owned))
        .collect();
    targets.sort();
    let limit = format!("-max_total_time={seconds}");
    let mut crashed = Vec::new();
    for target in &targets {
        say(format_args!("fuzzing {target} for {seconds} s"));
        // Not `cargo +nightly`: rustup answers to that only where it stands in the way of cargo.
        let command =
            ["rustup", "run", "nightly", "cargo", "fuzz", "run", "--fuzz-dir", FOLDER, target, "--", &limit];
        if run(&command).is_err() {
            crashed.push(target.as_str());
        }
    }
    if !crashed.is_empty() {
        bail!("crashed: {}; the inputs are in {FOLDER}/artifacts", crashed.join(", "));
    }
    Ok(())
}
