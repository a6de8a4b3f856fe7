//! Servers in JavaScript that tests talk to, below `target/servers`.

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

use crate::packages;
use crate::shell::{self, run, say};

const LISTS: &str = "xtask/servers";
const FOLDER: &str = "target/servers";
/// What `npm` writes at the end.
const DONE: &str = "target/servers/node_modules/.package-lock.json";

/// Installs them; where that cannot be it says so and passes, unless nothing may be skipped.
pub fn prepare_if_possible() -> Result<()> {
    match prepare() {
        Err(error) if std::env::var_os("PANTLER_NO_SKIP").is_none() => {
            say(format_args!("without servers in JavaScript: {error:#}"));
            Ok(())
        }
        result => result.context("servers in JavaScript cannot be installed, and PANTLER_NO_SKIP is set"),
    }
}

/// Installs them, unless they are there as they are listed.
pub fn prepare() -> Result<()> {
    // Node.js from elsewhere comes with `npm`, and Debian's would not fit.
    if shell::output(&["npm", "--version"]).is_err() {
        packages::ensure(&["nodejs", "npm"])?;
    }
    if is_there() {
        return Ok(());
    }
    fs::create_dir_all(FOLDER)?;
    for list in ["package.json", "package-lock.json"] {
        let from = Path::new(LISTS).join(list);
        fs::copy(&from, Path::new(FOLDER).join(list)).with_context(|| from.display().to_string())?;
    }
    // No program of a package runs while it is installed.
    let words = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    run(&[&words[..], &["--prefix", FOLDER]].concat())
}

fn is_there() -> bool {
    let list = |folder: &str| fs::read(Path::new(folder).join("package-lock.json")).ok();
    Path::new(DONE).exists() && list(LISTS) == list(FOLDER)
}
