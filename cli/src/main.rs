//! The `pantler` command: words in, exit status out. The work is done by the crates below.
#![forbid(unsafe_code)]

use clap::Parser;
use pantler_control::ControlError;
use std::fmt::Display;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

mod args;
mod ask;
mod children;
mod closing;
mod daemon;
mod doctor;
mod dust;
mod explain;
mod failure;
mod foretell;
mod hint;
mod identity;
mod log;
mod mount;
mod mounting;
mod named;
mod output;
mod passwords;
mod prefetch;
mod profiles;
mod program;
mod run;
mod sim;
mod stage;
mod stat;
mod steering;
mod tier;
mod trace;
mod values;
mod web;
mod written;

use args::{Arguments, Command};

fn main() -> ExitCode {
    // A host in the background was started by way of /proc/self/exe, and would be called `exe` in
    // lists of processes.
    let _ = rustix::thread::set_name(c"pantler");
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return failure::report_parse(&error),
    };
    // What stands in a file for long needs the time.
    let is_kept =
        matches!(&arguments.command, Command::Mount(mount) if mount.detached || mount.log.is_some());
    if let Err(error) = log_to_stderr(arguments.verbose, is_kept) {
        return failure::report(&error);
    }
    match dispatch(&arguments) {
        Ok(status) => ExitCode::from(status),
        Err(error) => failure::report(&error),
    }
}

/// Carries out a command. Most end with 0; `run` ends with the program's status, `mount` with its
/// host's, `doctor` with 3 when something is missing.
fn dispatch(arguments: &Arguments) -> anyhow::Result<u8> {
    match &arguments.command {
        Command::Run(run) => return run::run(run),
        Command::Doctor(doctor) => return doctor::doctor(doctor),
        Command::Mount(mount) => return mount::mount(mount),
        Command::Sim(words) => return sim::sim(words),
        Command::Umount(umount) => mount::umount(umount)?,
        Command::Hint(hint) => hint::hint(hint)?,
        Command::Prefetch(words) => prefetch::prefetch(words)?,
        Command::Stat(stat) => stat::stat(stat)?,
        Command::Explain(explain) => explain::explain(explain)?,
        Command::Trace(words) => trace::trace(words)?,
        Command::Dust(words) => dust::dust(words)?,
        Command::Web(words) => web::web(words)?,
        Command::Tier(words) => tier::tier(words)?,
        Command::Daemon => daemon::daemon()?,
        Command::Profiles(profiles) => profiles::show(profiles)?,
        Command::Completions(completions) => args::completions(completions)?,
        Command::Stage(stage) => stage::stage(stage)?,
    }
    Ok(0)
}

/// The variable that says what is logged.
const LOG: &str = "PANTLER_LOG";

/// Logs go to standard error. `PANTLER_LOG` takes the filter words of tracing.
fn log_to_stderr(verbose: u8, with_time: bool) -> anyhow::Result<()> {
    let level = ["warn", "info", "trace"][usize::from(verbose.min(2))];
    let words = std::env::var_os(LOG).unwrap_or_else(|| level.into());
    let refuse = |why: &dyn Display| {
        let text = format!("{LOG} {words:?}: expected a level, or TARGET=LEVEL,... ({why})");
        ControlError::invalid(text)
    };
    let text = words.to_str().ok_or_else(|| refuse(&"not UTF-8"))?;
    let filter = EnvFilter::builder().parse(text).map_err(|error| refuse(&error))?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(false);
    if with_time {
        lines.finish().with(log::WithoutLateReplies).init()
    } else {
        lines.without_time().finish().with(log::WithoutLateReplies).init()
    }
    Ok(())
}
