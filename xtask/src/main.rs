//! Automation of the workspace: `cargo xtask <command>`. The `Makefile` forwards to it.

use anyhow::{Result, bail};
use std::process::ExitCode;

use kernels::Extent;

mod bench_sim;
mod checks;
mod demo;
mod endure;
mod examples;
mod fuzz;
mod install;
mod kernels;
mod layout;
mod limits;
mod machine;
mod median;
mod node;
mod packages;
mod packaging;
mod profiles;
mod python;
mod rivals;
mod shell;
mod stores;
mod suites;
mod wanted;

const USAGE: &str = "\
usage: cargo xtask <command>

  demo             eight cscope queries by the kernel alone, steered, and through the mount
  setup            install the Debian packages that tests and demo need
  servers          install the servers in Python and JavaScript that tests talk to, below target; needs package indexes
  test             everything that CI runs
  ci               the same, with every missing kernel feature a failure
  bench            the benchmarks of the workspace
  kernels [--quick] [NAME ...]
                   the command on kernels of distributions (6.1, 6.12, newest; arm64 if named) under QEMU, and the suites that
                   meet the kernel; what CI tries of it with --quick; needs root and Debian's mirror
  machine          the first paper's experiments with real programs on the page cache (--repeats N, --only TABLE); needs root
  limits           programs in a group with a limit on everything, beside MIN (--repeats N, --only PROGRAM); needs root
  rivals           real programs, web servers and tiers by the kernel alone, vmtouch, nginx, Redis and others, beside Pantler
                   (--repeats N, --quick, --only ROW|RIVAL and again for others, --list, --resume after a run that ended
                   early); needs root
  profiles         what people run, by the kernel, LRU, auto and the profiles that come with Pantler (--repeats N, --quick, --json,
                   --only ROW and again for others, --pantler FILE for another build); needs root
  examples         programs with the papers' five lines and without them, with one budget (--repeats N, --only PROGRAM); needs
                   root and Debian's mirror
  endure           runs that join a daemon and leave it, with kills of all (--minutes N, --runs N, --seed N); needs root
  bench-stores     mounts of a server of S3 under load, beside that server alone; builds s3s-fs, which takes minutes
  papers           the five papers' tables and figures beside the papers' numbers, as docs/papers and one page of HTML
                   (--list, --only NAME, --quick, --again, --stale); what was made of this commit is not made again
  fuzz [SECONDS]   each fuzz target so long, default 60; needs a nightly compiler
  bench-sim        the simulator beside libCacheSim (--requests N, --pairs N, --trace NAME, --only POLICY,
                   --peer command|package, --large, --again, --dry); rows that are there are not measured again;
                   --prepare has the peer and the traces ready and measures nothing
  test-python      build the Python package and test it; needs a package index for Python
  install          build and install the command and libpantler (--prefix DIR, default /usr/local; --destination DIR, what
                   stands for the root of the system)
  package [KIND ...]
                   packages into target/packages: deb, rpm, wheel, or all of them; --try installs those for Debian in a
                   guest and follows GUIDE.md there, which needs root and Debian's mirror, and those of rpm below a folder
";

/// Run where the program they start, or are, shall run.
const HELPERS: [&str; 4] = ["demo-enter", "demo-clock", "machine-daemon", "machine-read"];

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
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if !words.first().is_some_and(|word| HELPERS.contains(word)) {
        std::env::set_current_dir(shell::workspace_root()?)?;
    }
    match words.as_slice() {
        ["setup"] => packages::ensure(packages::TEST),
        ["servers"] => python::environment().and_then(|()| node::prepare()),
        ["test"] => checks::test(),
        ["ci"] => checks::ci(),
        ["demo"] => demo::demo(),
        ["demo-as-root"] => demo::as_root(),
        ["demo-enter", rest @ ..] => demo::inside::enter(rest),
        ["demo-clock", rest @ ..] => demo::inside::clock(rest),
        ["bench-sim", rest @ ..] => bench_sim::bench(rest),
        ["test-python"] => python::test(),
        ["bench"] => checks::bench(),
        ["machine", rest @ ..] => machine::machine(rest),
        ["machine-daemon", rest @ ..] => machine::daemon(rest),
        ["machine-read", rest @ ..] => machine::read(rest),
        ["limits", rest @ ..] => limits::limits(rest),
        ["rivals", rest @ ..] => rivals::rivals(rest),
        ["profiles", rest @ ..] => profiles::profiles(rest),
        ["examples", rest @ ..] => examples::examples(rest),
        ["endure", rest @ ..] => endure::endure(rest),
        ["papers", rest @ ..] => {
            let build = shell::words("cargo run --release --quiet --package pantler-papers --");
            shell::run(&[&build[..], rest].concat())
        }
        ["bench-stores"] => stores::bench(),
        ["kernels", "--quick", names @ ..] => kernels::kernels(names, Extent::Quick),
        ["kernels", names @ ..] => kernels::kernels(names, Extent::Everything),
        ["fuzz"] => fuzz::fuzz("60"),
        ["fuzz", seconds] => fuzz::fuzz(seconds),
        ["install", rest @ ..] => install::install(rest),
        ["package", rest @ ..] => packaging::package(rest),
        [] | ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(())
        }
        _ => bail!("unknown command {:?}\n\n{USAGE}", words.join(" ")),
    }
}
