//! The `pantler` command: words in, exit status out. The work is done by the crates below.
#![forbid(unsafe_code)]
// They panic when the reader of the output has gone.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use clap::Parser;
use std::process::ExitCode;

#[macro_use]
mod output;

mod access_list;
#[cfg(feature = "network")]
mod admin;
mod advise;
mod args;
mod attach;
mod bodies;
mod children;
mod daemon;
mod detach;
mod doctor;
#[cfg(feature = "dust")]
mod dust;
mod explain;
mod failure;
mod files;
mod hint;
mod identity;
mod log;
#[cfg(feature = "network")]
mod metrics;
mod mount;
mod mounting;
mod named;
mod passwords;
mod prefetch;
mod profiles;
mod program;
mod promise;
mod restore;
mod run;
mod sim;
mod snapshot;
mod stage;
mod stat;
mod steering;
mod summary;
#[cfg(feature = "network")]
mod tier;
#[cfg(feature = "top")]
mod top;
mod trace;
mod trials;
mod values;
#[cfg(feature = "network")]
mod web;

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
    let is_kept = matches!(&arguments.command, Command::Mount(mount) if mount.detached);
    match log::to_stderr(arguments.verbose, is_kept).and_then(|()| dispatch(arguments.command)) {
        Ok(status) => ExitCode::from(status),
        Err(error) => failure::report(&error),
    }
}

/// Carries out a command. Most end with 0; `run` ends with the program's status, `mount` with its
/// host's, `doctor` with 3 when something is missing.
fn dispatch(command: Command) -> anyhow::Result<u8> {
    match command {
        Command::Run(run) => return run::run(&run),
        Command::Doctor(doctor) => return doctor::doctor(&doctor),
        Command::Mount(mount) => return mount::mount(*mount),
        Command::Sim(words) => return sim::sim(&words),
        Command::Advise(words) => return advise::advise(&words),
        Command::Attach(attach) => attach::attach(&attach)?,
        Command::Detach(detach) => detach::detach(&detach)?,
        Command::Umount(umount) => mount::umount(&umount)?,
        Command::Hint(hint) => hint::hint(&hint)?,
        Command::Prefetch(words) => prefetch::prefetch(&words)?,
        Command::Stat(stat) => stat::stat(&stat)?,
        #[cfg(feature = "top")]
        Command::Top(words) => top::top(&words)?,
        Command::Explain(explain) => explain::explain(&explain)?,
        Command::Files(words) => files::files(&words)?,
        Command::Snapshot(words) => snapshot::snapshot(&words)?,
        Command::Restore(words) => restore::restore(&words)?,
        Command::Trace(words) => trace::trace(&words)?,
        #[cfg(feature = "dust")]
        Command::Dust(words) => dust::dust(&words)?,
        #[cfg(feature = "network")]
        Command::Metrics(words) => metrics::metrics(&words)?,
        #[cfg(feature = "network")]
        Command::Web(words) => web::web(&words)?,
        #[cfg(feature = "network")]
        Command::Tier(words) => tier::tier(&words)?,
        Command::Daemon(words) => daemon::daemon(&words)?,
        Command::Profiles(profiles) => profiles::show(&profiles)?,
        Command::Completions(completions) => args::completions(&completions)?,
        Command::Manual(words) => args::manual(&words)?,
        Command::Stage(stage) => stage::stage(&stage)?,
    }
    Ok(0)
}
