//! From errors to exit statuses: 0 done, 1 failed, 2 usage, 3 a privilege or kernel feature is
//! missing, 4 advice that did not come true.

use clap::error::{ContextKind, ContextValue};
use pantler_control::{ControlError, ProfileError};
use pantler_trace::{perhaps, perhaps_of};
use std::process::ExitCode;

/// Something failed.
pub const FAILED: u8 = 1;
/// The words make no sense.
pub const USAGE: u8 = 2;
/// A privilege or a kernel feature is missing.
const MISSING: u8 = 3;
/// A promise was not kept.
const BROKEN: u8 = 4;

/// The words make no sense: what is wrong, and what is expected.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

impl Usage {
    /// What another error says.
    pub fn new(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// A run read other than was promised: both, in words.
#[derive(Debug, thiserror::Error)]
#[error("the promise does not hold: {0}")]
pub struct Broken(pub String);

/// A run did not begin, and said why.
#[derive(Debug, thiserror::Error)]
#[error("{name} was not steered: its run ended with status {status}")]
pub struct NotSteered {
    /// The program.
    pub name: String,
    /// That of the run.
    pub status: u8,
}

/// The end came by a signal of this number.
#[derive(Debug, thiserror::Error)]
#[error("stopped by signal {0}")]
pub struct Stopped(pub usize);

/// The exit status an error stands for. Bodies' errors reach the command as [`ControlError`].
pub fn exit_status(error: &anyhow::Error) -> u8 {
    let mut causes = error.chain();
    causes
        .find_map(|cause| {
            let control = cause.downcast_ref::<ControlError>().map(ControlError::exit_status);
            let usage = cause.is::<ProfileError>() || cause.is::<Usage>();
            // As shells say it.
            let stopped = cause.downcast_ref::<Stopped>().map(|stopped| 128 + stopped.0 as u8);
            let broken = cause.is::<Broken>().then_some(BROKEN);
            let refused = cause.downcast_ref::<NotSteered>().map(|refused| refused.status);
            let refused = refused.filter(|status| [USAGE, MISSING].contains(status));
            control.or(usage.then_some(USAGE)).or(stopped).or(broken).or(refused)
        })
        .unwrap_or(FAILED)
}

/// An error as one line; a mistyped name in it gets a suggestion.
pub fn told(error: &anyhow::Error) -> String {
    let text = one_line(&format!("{error:#}"));
    let near = if text.contains("did you mean") { String::new() } else { perhaps_of(&text) };
    text + &near
}

/// A part of pantler that this build does without.
pub fn absent(what: impl std::fmt::Display, feature: &str) -> ControlError {
    let why = format!("this build of pantler has no `{feature}` feature: build it with default features");
    ControlError::invalid(format!("{what}: {why}"))
}

/// Prints an error as one line, and says with which status to end.
pub fn report(error: &anyhow::Error) -> ExitCode {
    tell!("{}", told(error));
    ExitCode::from(exit_status(error))
}

/// Prints what the parser of the command line refused as one line; help and version go out as they
/// are.
pub fn report_parse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // There is no reader when standard output is closed.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.to_string();
    let text = text.trim_start_matches("error: ");
    use clap::error::ErrorKind::{DisplayHelpOnMissingArgumentOrSubcommand, MissingSubcommand};
    if matches!(error.kind(), DisplayHelpOnMissingArgumentOrSubcommand | MissingSubcommand) {
        tell!("expected a command, see {} --help", command(text));
        return ExitCode::from(USAGE);
    }
    let typed = error.get(ContextKind::InvalidSubcommand).map(ToString::to_string).unwrap_or_default();
    match typed.as_str() {
        "dust" if !cfg!(feature = "dust") => return report(&absent(typed, "dust").into()),
        "top" if !cfg!(feature = "top") => return report(&absent(typed, "top").into()),
        "tier" | "web" | "metrics" if !cfg!(feature = "network") => {
            return report(&absent(typed, "network").into());
        }
        _ => {}
    }
    // The message ends where usage and tips begin.
    let message = text.split("\n\n").next().unwrap_or(text);
    tell!("{}{}", one_line(message), suggestion(error));
    ExitCode::from(USAGE)
}

/// The command with the help that answers, from its usage: `pantler tier` of `Usage: pantler tier
/// [OPTIONS] <COMMAND>`.
fn command(text: &str) -> String {
    let usage = text.split("Usage: ").nth(1).unwrap_or("pantler");
    let words = usage.split_whitespace().take_while(|word| !word.starts_with(['[', '<', '-']));
    words.collect::<Vec<_>>().join(" ")
}

/// The option, command or value that looks like the unknown one, with a space before it.
fn suggestion(error: &clap::Error) -> String {
    use ContextKind::{
        InvalidArg, InvalidSubcommand, InvalidValue, SuggestedArg, SuggestedSubcommand, ValidValue,
    };
    let names = |kind| match error.get(kind) {
        Some(ContextValue::String(name)) => vec![name.as_str()],
        Some(ContextValue::Strings(names)) => names.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    [(InvalidArg, SuggestedArg), (InvalidSubcommand, SuggestedSubcommand), (InvalidValue, ValidValue)]
        .into_iter()
        .filter_map(|(typed, near)| names(typed).first().map(|typed| perhaps(typed, names(near))))
        .find(|suggestion| !suggestion.is_empty())
        .unwrap_or_default()
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
