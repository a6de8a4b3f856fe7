//! Running the test programs of the workspace, one after the other.
//!
//! ```text
//!   cargo test --no-run  --->  tests that measure time  --->  all others  --->  the work that is left
//! ```
//!
//! Tests that find out a policy by timing alone run first, right after the build. No two programs
//! run at once: many of them wait for a disk, a server or a limit, and would disturb each other.
//! Cargo is not in between, so that nothing is looked at again for each program.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::shell::{command, describe, say};

/// How long the readers of traces are fed with mutated samples, all together.
const FUZZ_SECONDS: &str = "180";
/// Tests that measure time: they need a calm machine.
const CALM: [&str; 2] = ["page_cache", "dust_mount"];

/// A test program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Program {
    /// What Cargo built it from, such as `cli` or `lab/dust`.
    folder: String,
    /// Its name there.
    name: String,
    path: PathBuf,
}

impl Program {
    /// The program that a message of Cargo is about, if it is one.
    fn from_message(message: &Value, root: &Path) -> Option<Program> {
        if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
            return None;
        }
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?.strip_prefix(root).ok()?;
        Some(Program {
            folder: folder.to_str()?.to_owned(),
            name: message["target"]["name"].as_str()?.to_owned(),
            path: message["executable"].as_str()?.into(),
        })
    }

    fn needs_calm(&self) -> bool {
        CALM.contains(&self.name.as_str())
    }

    /// Runs the program.
    fn passes(&self) -> Result<bool> {
        let folder = std::env::current_dir()?.join(&self.folder);
        let mut test = Command::new(&self.path);
        test.current_dir(&folder)
            .env("CARGO_MANIFEST_DIR", &folder)
            .env("PANTLER_FUZZ_SECONDS", FUZZ_SECONDS);
        say(format_args!("{}: {}", self.folder, self.name));
        let start = Instant::now();
        let passes = test.status()?.success();
        let word = if passes { "done" } else { "FAILED" };
        say(format_args!("{}: {}: {word} in {:.1} s", self.folder, self.name, start.elapsed().as_secs_f64()));
        Ok(passes)
    }
}

/// Builds the tests.
fn build() -> Result<Vec<Program>> {
    let words = ["cargo", "test", "--workspace", "--all-features", "--no-run"];
    let mut build = command(&words);
    build.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let text = describe(&build);
    say(&text);
    let start = Instant::now();
    let output = build.output().with_context(|| format!("cannot start {text}"))?;
    if !output.status.success() {
        bail!("{text}: {}", output.status);
    }
    say(format_args!("done in {:.1} s", start.elapsed().as_secs_f64()));
    let root = std::env::current_dir()?;
    let messages = output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let programs: Result<Vec<_>, _> = messages
        .map(|line| {
            serde_json::from_slice::<Value>(line).map(|message| Program::from_message(&message, &root))
        })
        .collect();
    let programs: Vec<Program> = programs.context("Cargo says no JSON")?.into_iter().flatten().collect();
    if programs.is_empty() {
        bail!("Cargo built no tests");
    }
    Ok(programs)
}

/// Builds all tests, then `prepared` must be there, then runs them, and `rest` after them. A failure
/// of a test ends nothing.
///
/// # Errors
///
/// The names of the programs that failed, and what `rest` said.
pub fn run(prepared: impl FnOnce() -> Result<()>, rest: impl FnOnce() -> Result<()>) -> Result<()> {
    let (mut programs, others): (Vec<_>, Vec<_>) = build()?.into_iter().partition(Program::needs_calm);
    programs.extend(others);
    prepared()?;
    let failed = failures(&programs);
    rest()?;
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Runs programs one after the other, and names those that fail.
fn failures(programs: &[Program]) -> Vec<String> {
    let name = |program: &Program| match program.passes() {
        Ok(true) => None,
        Ok(false) => Some(format!("{} of {}", program.name, program.folder)),
        Err(error) => Some(format!("{} of {}: {error:#}", program.name, program.folder)),
    };
    programs.iter().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn program(folder: &str, name: &str, is_test: bool) -> Option<Program> {
        let message = json!({
            "reason": "compiler-artifact",
            "manifest_path": format!("/w/{folder}/Cargo.toml"),
            "target": {"name": name},
            "profile": {"test": is_test},
            "executable": "/w/target/debug/deps/x",
        });
        Program::from_message(&message, Path::new("/w"))
    }

    #[test]
    fn only_test_programs_are_run() {
        assert!(program("cli", "mount", true).is_some());
        assert_eq!(program("cli", "pantler", false), None);
        assert_eq!(Program::from_message(&json!({"reason": "build-finished"}), Path::new("/w")), None);
    }

    #[test]
    fn tests_that_measure_time_are_known() {
        for (folder, name, is_calm) in
            [("lab/dust", "page_cache", true), ("cli", "dust_mount", true), ("cli", "mount", false)]
        {
            assert_eq!(program(folder, name, true).unwrap().needs_calm(), is_calm, "{name}");
        }
    }
}
