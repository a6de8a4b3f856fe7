//! Automation of the workspace: `cargo xtask <command>`. The `Makefile` forwards to it.

use anyhow::{Result, bail};
use std::process::ExitCode;

mod checks;
mod install;
mod packages;
mod shell;

const USAGE: &str = "\
usage: cargo xtask <command>

  setup            install the Debian packages that tests and demo need
  test             everything that CI runs
  ci               the same, with every missing kernel feature a failure
  bench            the benchmarks of the workspace
  install          build and copy the command (--prefix DIR, default /usr/local)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<()> {
    std::env::set_current_dir(shell::workspace_root()?)?;
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["setup"] => packages::ensure(packages::TEST),
        ["test"] => checks::test(),
        ["ci"] => checks::ci(),
        ["bench"] => checks::bench(),
        ["install"] => install::install("/usr/local"),
        ["install", "--prefix", prefix] => install::install(prefix),
        [] | ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(())
        }
        _ => bail!("unknown command {:?}\n\n{USAGE}", words.join(" ")),
    }
}
