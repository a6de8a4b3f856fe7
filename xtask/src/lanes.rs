//! Running the test programs of the workspace in two lanes.
//!
//! ```text
//!   cargo test --no-run  --->  calm  --->  machine: tests of host, body and the command, one after the other
//!                                    \-->  processor: tests of core and lab, then the work that is left
//! ```
//!
//! Tests that find out a policy by timing alone run first, while nothing else does. Tests of the
//! machine mostly wait: for a disk, a server, a limit. They may also disturb each other, so one
//! program runs at a time. Tests of the other lane need a processor and little else; they run
//! beside the first lane with a lower priority. Cargo is not in between, because it would
//! hold the lock of the folder `target`.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::shell::{command, describe, say};

/// Folders whose tests need a processor and little else.
const PROCESSOR: [&str; 3] = ["core/", "lab/", "xtask"];
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

    fn needs_processor(&self) -> bool {
        PROCESSOR.iter().any(|folder| self.folder.starts_with(folder))
    }

    fn needs_calm(&self) -> bool {
        CALM.contains(&self.name.as_str())
    }

    /// Runs the program. `is_beside` lowers its priority, and shows its output at its end.
    fn passes(&self, is_beside: bool) -> Result<bool> {
        let mut test = if is_beside { command(&["nice", "-n", "10"]) } else { Command::new(&self.path) };
        if is_beside {
            test.arg(&self.path);
        }
        let folder = std::env::current_dir()?.join(&self.folder);
        test.current_dir(&folder)
            .env("CARGO_MANIFEST_DIR", &folder)
            .env("PANTLER_FUZZ_SECONDS", FUZZ_SECONDS);
        let start = Instant::now();
        let passes = if is_beside {
            let output = test.stderr(Stdio::piped()).output()?;
            print!("{}", String::from_utf8_lossy(&output.stdout));
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
            output.status.success()
        } else {
            say(format_args!("{}: {}", self.folder, self.name));
            test.status()?.success()
        };
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

/// Builds all tests, then `prepared` must be there, then runs them. `rest` is run after the tests
/// of the processor's lane. A failure ends neither lane.
///
/// # Errors
///
/// The names of the programs that failed, and what `rest` said.
pub fn run(prepared: impl FnOnce() -> Result<()>, rest: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    let (calm, others): (Vec<_>, Vec<_>) = build()?.into_iter().partition(Program::needs_calm);
    let (beside, first): (Vec<_>, Vec<_>) = others.into_iter().partition(Program::needs_processor);
    prepared()?;
    let mut failed = failures(&calm, false);
    let (others, rest) = std::thread::scope(|scope| {
        let lane = scope.spawn(|| (failures(&beside, true), rest()));
        failed.extend(failures(&first, false));
        lane.join().expect("a lane reports its errors")
    });
    failed.extend(others);
    rest?;
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Runs programs one after the other, and names those that fail.
fn failures(programs: &[Program], are_beside: bool) -> Vec<String> {
    let name = |program: &Program| match program.passes(are_beside) {
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
    fn each_test_has_its_place() {
        for (folder, name, is_calm, is_beside) in [
            ("lab/dust", "page_cache", true, true),
            ("cli", "dust_mount", true, false),
            ("cli", "mount", false, false),
            ("body/steer", "pantler_steer", false, false),
            ("lab/dust", "all", false, true),
            ("core/policy", "properties", false, true),
        ] {
            let program = program(folder, name, true).unwrap();
            assert_eq!((program.needs_calm(), program.needs_processor()), (is_calm, is_beside), "{name}");
        }
    }
}
