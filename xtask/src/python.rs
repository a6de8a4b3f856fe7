//! The Python package: a virtual environment below `target/python`, built into, and tested against the command.
//!
//! Not part of `cargo xtask test`, because it needs a package index for Python.

use anyhow::{Context, Result, bail};

use crate::packages;
use crate::shell::{command, run, run_command};

/// What builds and tests need besides the tests of the workspace.
const PACKAGES: &[&str] = &["python3", "python3-venv"];
const FOLDER: &str = "bindings/python";
const ENVIRONMENT: &str = "target/python/environment";
const WHEELS: &str = "target/python/wheels";
const COMMAND: &str = "target/debug/pantler";

/// Lints, builds, installs and tests the package.
pub fn test() -> Result<()> {
    packages::ensure(PACKAGES)?;
    let manifest = format!("{FOLDER}/Cargo.toml");
    run(&["cargo", "fmt", "--manifest-path", &manifest, "--check"])?;
    run(&["cargo", "build", "--package", "pantler-cli"])?;
    let program = |name: &str| format!("{ENVIRONMENT}/bin/{name}");
    let (python, pip, maturin) = (program("python"), program("pip"), program("maturin"));
    run(&["/usr/bin/python3", "-m", "venv", ENVIRONMENT])?;
    let requirements = format!("{FOLDER}/requirements-test.txt");
    run(&[&pip, "install", "--quiet", "--disable-pip-version-check", "--requirement", &requirements])?;
    let target = ["--target-dir", "target/python/build"];
    run(&[&["cargo", "clippy", "--manifest-path", &manifest], &target[..], &["--", "-D", "warnings"]]
        .concat())?;
    // The newest wheel alone shall be there.
    let _ = std::fs::remove_dir_all(WHEELS);
    let build = ["build", "--quiet", "--profile", "dev", "--manifest-path", &manifest, "--out", WHEELS];
    run(&[&[maturin.as_str()], &build[..], &["--interpreter", &python], &target[..]].concat())?;
    let wheel = std::fs::read_dir(WHEELS)?.next().context("no wheel was built")??.path();
    let Some(wheel) = wheel.to_str() else { bail!("{}: no UTF-8", wheel.display()) };
    run(&[&pip, "install", "--quiet", "--no-deps", "--force-reinstall", wheel])?;
    let mut test = command(&[&python, "-m", "pytest", "--durations=3", FOLDER, "-p", "no:cacheprovider"]);
    test.env("PANTLER_COMMAND", std::env::current_dir()?.join(COMMAND));
    test.env("PYTHONDONTWRITEBYTECODE", "1");
    run_command(test)
}
