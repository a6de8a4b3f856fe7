//! Running other programs, and saying so.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The folder that holds the workspace's `Cargo.toml`.
pub fn workspace_root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here.parent().context("xtask lies inside the workspace")?.to_owned())
}

/// Before a command that leaves processors to others which want them, but for a tenth: on a machine
/// that others keep busy it ends, too.
pub const BEHIND: [&str; 3] = ["nice", "-n", "10"];

/// Prints one line about what happens next.
pub fn say(line: impl std::fmt::Display) {
    eprintln!("== {line}");
}

/// The words of a line without quotes.
pub fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// A command from words: `command(&["cargo", "fmt"])`.
pub fn command(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    // Registries of packages fail at times.
    command.env("CARGO_NET_RETRY", "10");
    command
}

/// Has cargo compile the crates of the workspace with clippy's driver, which lints what it
/// compiles: docs/decisions/0129-lints-come-with-the-build.md. The Makefile sets the same for this
/// program, so that nothing is compiled twice.
pub fn linted(mut command: Command) -> Command {
    let arguments = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";
    command.env(WRAPPER, "clippy-driver").env("CLIPPY_ARGS", arguments);
    command
}

/// The program between cargo and the compiler, for crates of the workspace.
pub const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";

/// A command that is behind the tests.
pub fn behind(words: &[&str]) -> Command {
    let mut command = command(&[&BEHIND[..], words].concat());
    // Checks beside the tests have artifacts of their own.
    command.env_remove(WRAPPER);
    command
}

/// Runs a command with our own input and output, says so, and fails when it fails.
pub fn run(words: &[&str]) -> Result<()> {
    run_command(command(words))
}

/// As [`run`], for a command with an environment of its own.
pub fn run_command(mut command: Command) -> Result<()> {
    let text = describe(&command);
    say(&text);
    let start = Instant::now();
    let status = command.status().with_context(|| format!("cannot start {text}"))?;
    if !status.success() {
        bail!("{text}: {status}");
    }
    say(format_args!("done in {:.1} s", start.elapsed().as_secs_f64()));
    Ok(())
}

/// Whether this process may do what root may.
pub fn is_root() -> Result<bool> {
    Ok(output(&["id", "-u"])?.trim() == "0")
}

/// What a command prints, when it succeeds.
pub fn output(words: &[&str]) -> Result<String> {
    let result = command(words).stderr(Stdio::null()).output()?;
    if !result.status.success() {
        bail!("{}: {}", words.join(" "), result.status);
    }
    Ok(String::from_utf8_lossy(&result.stdout).into_owned())
}

/// The words of a command.
fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
