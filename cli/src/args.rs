//! The words of the command line.

use anyhow::{Context, Result};
use clap::{Args, CommandFactory, Parser, Subcommand};
use std::path::PathBuf;

use crate::output;

/// Applications decide what stays in memory: file caching under application control.
#[derive(Debug, Parser)]
#[command(name = "pantler", version, max_term_width = 100)]
pub struct Arguments {
    /// Say more on standard error; twice for everything
    #[arg(short, long, global = true, display_order = 900, action = clap::ArgAction::Count)]
    pub verbose: u8,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program and its children as one owner
    Run(crate::run::Run),
    /// Steer programs that run already
    Attach(crate::attach::Attach),
    /// Let go of programs that were attached to a daemon
    Detach(crate::detach::Detach),
    /// Mount a directory with a cache of its own
    Mount(Box<crate::mounting::Mount>),
    /// Unmount what `pantler mount` mounted
    Umount(crate::mount::Umount),
    /// Say which blocks matter
    Hint(crate::hint::Hint),
    /// Say what will be read, in order, so that it is there before
    Prefetch(crate::prefetch::Prefetch),
    /// Show counters by owner, priority and file
    Stat(crate::stat::Stat),
    #[cfg(feature = "top")]
    Top(crate::top::Top),
    /// Tell what is cached of a file, for which owner, and why
    Explain(crate::explain::Explain),
    Files(crate::files::Files),
    Snapshot(crate::snapshot::Snapshot),
    Restore(crate::restore::Restore),
    Advise(crate::advise::Advise),
    /// Simulate policies over traces
    Sim(Box<crate::sim::Sim>),
    /// Look at traces, convert and generate them
    Trace(crate::trace::Trace),
    /// Find out what a cache does, from outside
    #[cfg(feature = "dust")]
    Dust(crate::dust::Dust),
    #[cfg(feature = "network")]
    Metrics(crate::metrics::Metrics),
    /// Serve static files, what is cached first
    #[cfg(feature = "network")]
    Web(Box<crate::web::Web>),
    /// Keep blocks for several mounts
    #[cfg(feature = "network")]
    Tier(crate::tier::Tier),
    /// List what this machine offers and what is missing
    Doctor(crate::doctor::Doctor),
    Daemon(crate::daemon::Daemon),
    /// Show the profiles that come with pantler
    Profiles(crate::profiles::Profiles),
    /// Print completions for a shell
    Completions(Completions),
    /// Write the manual pages of all commands, for packages
    #[command(hide = true)]
    Manual(Manual),
    /// Take an identity, wait for the word, become the program
    #[command(name = crate::stage::WORD, hide = true)]
    Stage(crate::stage::Stage),
}

#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// Prints completions for a shell.
pub fn completions(arguments: &Completions) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "pantler", &mut script);
    output::text(&String::from_utf8(script)?)
}

#[derive(Debug, Args)]
pub struct Manual {
    /// A folder that is there
    pub folder: PathBuf,
}

/// Writes a page for each command that is not hidden: `pantler.1`, `pantler-run.1` and so on.
pub fn manual(arguments: &Manual) -> Result<()> {
    clap_mangen::generate_to(Arguments::command(), &arguments.folder)
        .with_context(|| format!("cannot write pages to {}", arguments.folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hint::HintWords;
    use pantler_control::OwnerSelector;

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_commands_of_readme_and_guide_are_understood() {
        let text = concat!(include_str!("../../README.md"), include_str!("../../docs/GUIDE.md"));
        let commands = text.lines().filter_map(|line| line.strip_prefix("$ "));
        let commands = commands.map(|line| line.strip_prefix("sudo ").unwrap_or(line));
        let mut count = 0;
        for line in commands.filter(|line| line.starts_with("pantler ")) {
            let words = line.split('#').next().unwrap().split_whitespace();
            Arguments::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
            count += 1;
        }
        assert!(count >= 18, "only {count} commands found");
    }

    #[test]
    fn negative_priorities_are_values() {
        let words = ["pantler", "hint", "set-priority", "f", "-1", "--owner", "7"];
        let Command::Hint(hint) = Arguments::try_parse_from(words).unwrap().command else { panic!() };
        assert!(matches!(hint.what, HintWords::SetPriority { priority: -1, .. }));
        assert_eq!(hint.owner, Some(OwnerSelector::Pid(7)));
    }

    #[test]
    fn what_follows_the_program_is_the_programs() {
        let words = ["pantler", "run", "--memory", "1M", "sh", "-c", "x", "--memory"];
        let Command::Run(run) = Arguments::try_parse_from(words).unwrap().command else { panic!() };
        assert_eq!(run.program, ["sh", "-c", "x", "--memory"]);
        let words = ["pantler", "run", "--", "--odd", "-x"];
        let Command::Run(run) = Arguments::try_parse_from(words).unwrap().command else { panic!() };
        assert_eq!(run.program, ["--odd", "-x"]);
    }
}
