//! The Python package: a virtual environment below `target/python`, built into, and tested against
//! the command.
//!
//! `cargo xtask test` runs it, too, where a package index for Python can be reached.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::process::Command;

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
const LIBRARY: &str = "target/debug/lib_core.so";
/// The package without a wheel around it.
const UNPACKED: &str = "target/python/package";

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

/// Builds the command, and a wheel; installs and tests it.
pub fn test() -> Result<()> {
    environment()?;
    run(&["cargo", "build", "--package", "pantler-cli"])?;
    let program = |name: &str| format!("{ENVIRONMENT}/bin/{name}");
    let (python, pip, maturin) = (program("python"), program("pip"), program("maturin"));
    // The newest wheel alone shall be there.
    let _ = fs::remove_dir_all(WHEELS);
    let manifest = format!("{FOLDER}/Cargo.toml");
    let build = [&maturin, "build", "--quiet", "--profile", "dev", "--manifest-path", &manifest];
    run(&[&build[..], &["--out", WHEELS, "--interpreter", &python]].concat())?;
    let wheel = fs::read_dir(WHEELS)?.next().context("no wheel was built")??.path();
    let Some(wheel) = wheel.to_str() else { bail!("{}: no UTF-8", wheel.display()) };
    run(&[&pip, "install", "--quiet", "--no-deps", "--force-reinstall", wheel])?;
    run_command(tests()?)
}

/// Builds the wheel that users install, into `folder`.
pub fn wheel(folder: &Path) -> Result<()> {
    environment()?;
    let maturin = format!("{ENVIRONMENT}/bin/maturin");
    let manifest = format!("{FOLDER}/Cargo.toml");
    let mut build = command(&[&maturin, "build", "--quiet", "--release", "--manifest-path", &manifest]);
    build.arg("--out").arg(folder);
    run_command(build)
}

/// Tests the package without a wheel, as [`crate::suites::build`] built it:
/// docs/decisions/0120-the-package-is-tested-as-cargo-builds-it.md.
pub fn test_beside() -> Result<()> {
    let module = Path::new(UNPACKED).join("pantler");
    let _ = fs::remove_dir_all(UNPACKED);
    fs::create_dir_all(&module)?;
    for file in fs::read_dir(format!("{FOLDER}/python/pantler"))? {
        let file = file?;
        if file.file_type()?.is_file() {
            fs::copy(file.path(), module.join(file.file_name()))?;
        }
    }
    fs::copy(LIBRARY, module.join("_core.abi3.so")).context(LIBRARY)?;
    let mut tests = tests()?;
    tests.env("PYTHONPATH", Path::new(UNPACKED).canonicalize()?);
    run_command(tests)
}

fn tests() -> Result<Command> {
    let python = format!("{ENVIRONMENT}/bin/python");
    let mut test = command(&[&python, "-m", "pytest", "--durations=3", FOLDER, "-p", "no:cacheprovider"]);
    test.env("PANTLER_COMMAND", std::env::current_dir()?.join(COMMAND));
    test.env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(test)
}
