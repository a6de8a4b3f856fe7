//! The Python package: a virtual environment below `target/python`, built into, and tested against
//! the command.
//!
//! `cargo xtask test` runs it, too, where a package index for Python can be reached.

use anyhow::{Context, Result, bail};

use crate::packages;
use crate::shell::{command, run, run_command, say};

/// What builds and tests need besides the tests of the workspace.
const PACKAGES: &[&str] = &["python3", "python3-venv"];
const FOLDER: &str = "bindings/python";
/// Programs that tests of the workspace talk to.
const PROGRAMS: &str = "xtask/requirements-programs.txt";
const ENVIRONMENT: &str = "target/python/environment";
const WHEELS: &str = "target/python/wheels";
const COMMAND: &str = "target/debug/pantler";

/// The environment, where it can be made: tests of the workspace use programs of it, and the
/// package is built into it. Says whether it is there; without a package index it is not, unless
/// nothing may be skipped.
pub fn prepare_if_possible() -> Result<bool> {
    match environment() {
        Err(error) if std::env::var_os("PANTLER_NO_SKIP").is_none() => {
            say(format_args!("skipped: without programs in Python, and the package untested: {error:#}"));
            Ok(false)
        }
        Err(error) => Err(error.context("no environment of Python can be made, and PANTLER_NO_SKIP is set")),
        Ok(()) => Ok(true),
    }
}

/// A virtual environment with everything that builds and tests need.
pub fn environment() -> Result<()> {
    packages::ensure(PACKAGES)?;
    run(&["/usr/bin/python3", "-m", "venv", ENVIRONMENT])?;
    let requirements = format!("{FOLDER}/requirements-test.txt");
    let pip = format!("{ENVIRONMENT}/bin/pip");
    let install =
        |list: &str| run(&[&pip, "install", "--quiet", "--disable-pip-version-check", "--requirement", list]);
    install(&requirements)?;
    install(PROGRAMS)
}

/// Builds the command; builds, installs and tests the package.
pub fn test() -> Result<()> {
    environment()?;
    run(&["cargo", "build", "--package", "pantler-cli"])?;
    build(&[])?;
    test_built()
}

/// Builds and installs the package, below `prefix`.
pub fn build(prefix: &[&str]) -> Result<()> {
    let program = |name: &str| format!("{ENVIRONMENT}/bin/{name}");
    let (python, pip, maturin) = (program("python"), program("pip"), program("maturin"));
    // The newest wheel alone shall be there.
    let _ = std::fs::remove_dir_all(WHEELS);
    let manifest = format!("{FOLDER}/Cargo.toml");
    let build = [&maturin, "build", "--quiet", "--profile", "dev", "--manifest-path", &manifest];
    let how = ["--out", WHEELS, "--interpreter", &python];
    run(&[prefix, &build, &how].concat())?;
    let wheel = std::fs::read_dir(WHEELS)?.next().context("no wheel was built")??.path();
    let Some(wheel) = wheel.to_str() else { bail!("{}: no UTF-8", wheel.display()) };
    run(&[&pip, "install", "--quiet", "--no-deps", "--force-reinstall", wheel])
}

/// Tests the package that was built, with the command that was.
pub fn test_built() -> Result<()> {
    let python = format!("{ENVIRONMENT}/bin/python");
    let mut test = command(&[&python, "-m", "pytest", "--durations=3", FOLDER, "-p", "no:cacheprovider"]);
    test.env("PANTLER_COMMAND", std::env::current_dir()?.join(COMMAND));
    test.env("PYTHONDONTWRITEBYTECODE", "1");
    run_command(test)
}
