//! Everything CI runs.

use anyhow::{Context, Result, bail};
use std::fs;

use crate::kernels::Guests;
use crate::shell::{behind, command, linted, output, run, run_command, say, words};
use crate::{node, packages, python, suites};

/// Crates that never perform I/O, read a clock or draw randomness.
const PURE: [&str; 3] = ["pantler-policy", "pantler-steward", "pantler-pagecache"];
/// A target without an operating system: what builds for it cannot perform I/O.
const BARE_TARGET: &str = "x86_64-unknown-none";
/// Crates that have no business below the bodies.
const BANNED_IN_PURE: [&str; 4] = ["libc", "rustix", "tokio", "rand"];

/// How long the readers of traces are fed with mutated samples, all together.
const FUZZ_SECONDS: &str = "30";
/// The command that guests try: what tests try is there already.
const TESTED: &str = "target/debug/pantler";

/// Formatting, tests, lints, purity, documentation, the Python package.
pub fn test() -> Result<()> {
    packages::ensure(packages::TEST)?;
    // The network is waited for while compilers run.
    let preparing = std::thread::spawn(|| {
        let has_python = python::prepare_if_possible()?;
        node::prepare_if_possible()?;
        Ok::<_, anyhow::Error>((has_python, guests()))
    });
    run(&["cargo", "fmt", "--all", "--check"])?;
    // A look at the sources takes seconds: it comes before minutes of compiling.
    run_command(linted(command(&words("cargo test --workspace --all-features --test tidy --quiet"))))?;
    let suites = suites::build()?;
    let (has_python, guests) = preparing.join().expect("preparations report their errors")?;
    let beside = std::thread::spawn(move || {
        let package = if has_python { python::test_beside() } else { Ok(()) };
        read_sources().and(package)
    });
    let beside_tests =
        std::thread::spawn(move || guests.map(|guests| guests.map(|guests| (guests.quick(TESTED), guests))));
    let tested = suites.run(FUZZ_SECONDS);
    let kept = match beside_tests.join().expect("guests report their errors") {
        Ok(Some((Err(error), guests))) => {
            say(format_args!("{error:#}"));
            say("guests failed beside others: now alone");
            guests.quick(TESTED)
        }
        Ok(_) => Ok(()),
        // A mirror that does not answer is no failure of this tree.
        Err(error) => {
            say(format_args!("NO KERNEL OF A DISTRIBUTION WAS TRIED: {error:#}"));
            Ok(())
        }
    };
    let beside = beside.join().expect("checks report their errors").and(kept);
    match (tested, beside) {
        (Err(tests), Err(others)) => Err(tests.context(format!("{others:#}"))),
        (tests, others) => tests.and(others),
    }
}

/// The kernels that the command is tried on. They take a mirror, root and minutes, so that a
/// developer asks for them: `make kernels`. Why CI does: docs/decisions/0136-guests-in-ci.md.
fn guests() -> Result<Option<Guests>> {
    if std::env::var_os("PANTLER_NO_SKIP").is_none() {
        say("without the kernels of distributions: `make kernels` tries them");
        return Ok(None);
    }
    Guests::prepare(&[]).context("kernels cannot be had").map(Some)
}

/// What only reads sources. Most tests wait for something at times, and this takes the processors
/// then.
fn read_sources() -> Result<()> {
    pure()?;
    let doc = "cargo doc --workspace --all-features --no-deps --document-private-items";
    let mut doc = behind(&words(doc));
    doc.env("RUSTDOCFLAGS", "-D warnings");
    run_command(doc)?;
    // What the demo builds. The rest was linted when it was compiled.
    let lint = "cargo clippy --package pantler-cli --no-default-features -- -D warnings";
    run_command(behind(&words(lint)))?;
    run_command(linted(behind(&["cargo", "test", "--doc", "--workspace", "--all-features", "--quiet"])))
}

/// As `test`, but a missing kernel feature is a failure.
pub fn ci() -> Result<()> {
    let mut test = command(&["cargo", "xtask", "test"]);
    test.env("PANTLER_NO_SKIP", "1");
    run_command(test)
}

/// All benchmarks. They print their environment with their figures.
pub fn bench() -> Result<()> {
    packages::ensure(packages::TEST)?;
    run(&["cargo", "bench", "--workspace"])
}

/// Proves that the pure crates are pure.
fn pure() -> Result<()> {
    for package in PURE {
        let tree = output(&["cargo", "tree", "--package", package, "--edges", "normal", "--prefix", "none"])?;
        let names = tree.lines().filter_map(|line| line.split(' ').next());
        if let Some(banned) = names.into_iter().find(|name| BANNED_IN_PURE.contains(name)) {
            bail!("{package} depends on {banned}, which can perform I/O");
        }
    }
    let installed = output(&["rustup", "target", "list", "--installed"]).unwrap_or_default();
    let have = installed.lines().any(|line| line == BARE_TARGET)
        || run(&["rustup", "target", "add", BARE_TARGET]).is_ok();
    if have {
        for package in PURE {
            run_command(behind(&["cargo", "check", "--package", package, "--target", BARE_TARGET]))?;
        }
        return Ok(());
    }
    if std::env::var_os("PANTLER_NO_SKIP").is_some() {
        bail!("target {BARE_TARGET} cannot be installed, and PANTLER_NO_SKIP is set");
    }
    say(format_args!("target {BARE_TARGET} cannot be installed: only looking for #![no_std]"));
    for package in PURE {
        let path = format!("core/{}/src/lib.rs", package.trim_start_matches("pantler-"));
        let text = fs::read_to_string(&path).with_context(|| path.clone())?;
        if !text.contains("#![no_std]") || text.contains("extern crate std") {
            bail!("{path} must say #![no_std] and not bring std back");
        }
    }
    Ok(())
}
