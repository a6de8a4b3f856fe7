//! From errors to exit statuses: 0 done, 1 failed, 2 usage, 3 a privilege or kernel feature is missing.

use pantler_control::{ControlError, ProfileError};
use std::process::ExitCode;

/// Something failed.
pub const FAILED: u8 = 1;
/// The words make no sense.
pub const USAGE: u8 = 2;

/// The words make no sense: what is wrong, and what is expected.
#[derive(Debug)]
pub struct Usage(pub String);

impl Usage {
    /// What another error says.
    pub fn new(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// The end came by a signal of this number.
#[derive(Debug)]
pub struct Stopped(pub usize);

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stopped by signal {}", self.0)
    }
}

impl std::error::Error for Stopped {}

/// The exit status an error stands for. Bodies' errors reach the command as [`ControlError`].
pub fn exit_status(error: &anyhow::Error) -> u8 {
    let mut causes = error.chain();
    causes
        .find_map(|cause| {
            let control = cause.downcast_ref::<ControlError>().map(ControlError::exit_status);
            let usage = cause.is::<ProfileError>() || cause.is::<Usage>();
            // As shells say it.
            let stopped = cause.downcast_ref::<Stopped>().map(|stopped| 128 + stopped.0 as u8);
            control.or(usage.then_some(USAGE)).or(stopped)
        })
        .unwrap_or(FAILED)
}

/// Prints an error as one line, and says with which status to end.
pub fn report(error: &anyhow::Error) -> ExitCode {
    eprintln!("pantler: {}", one_line(&format!("{error:#}")));
    ExitCode::from(exit_status(error))
}

/// Prints what the parser of the command line refused as one line; help and version go out as they are.
pub fn report_parse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Nobody is left to tell when standard output is closed.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.to_string();
    let text = text.trim_start_matches("error: ");
    use clap::error::ErrorKind::{DisplayHelpOnMissingArgumentOrSubcommand, MissingSubcommand};
    if matches!(error.kind(), DisplayHelpOnMissingArgumentOrSubcommand | MissingSubcommand) {
        let hint = if text.contains("Usage: pantler hint") { " hint" } else { "" };
        eprintln!("pantler: expected a command, see pantler{hint} --help");
        return ExitCode::from(USAGE);
    }
    // The message ends where usage and tips begin.
    let message = text.split("\n\n").next().unwrap_or(text);
    eprintln!("pantler: {}", one_line(message));
    ExitCode::from(USAGE)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn the_status_survives_context() {
        let error = Err::<(), _>(ControlError::invalid("x")).context("while trying").unwrap_err();
        assert_eq!(exit_status(&error), USAGE);
        assert_eq!(exit_status(&anyhow::anyhow!("other")), FAILED);
    }
}
