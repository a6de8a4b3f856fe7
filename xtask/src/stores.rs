//! s3s-fs, a server of S3, below `target/servers`, and mounts of it under load.

use anyhow::Result;
use std::path::{Path, PathBuf};

use crate::packages;
use crate::shell::{output, run};

const VERSION: &str = "0.14.1";
const FOLDER: &str = "target/servers";

/// Installs the server, unless it is there, and measures.
pub fn bench() -> Result<()> {
    packages::ensure(packages::TEST)?;
    server()?;
    run(&["cargo", "bench", "--package", "pantler-cli", "--bench", "stores"])
}

/// The program of the server, which is installed unless it is there.
pub fn server() -> Result<PathBuf> {
    let program = Path::new(FOLDER).join("bin/s3s-fs");
    let is_there = output(&[&program.display().to_string(), "--version"]);
    if !is_there.is_ok_and(|line| line.trim().ends_with(VERSION)) {
        let what = ["s3s-fs", "--version", VERSION, "--features", "binary", "--locked"];
        run(&[&["cargo", "install"], &what[..], &["--root", FOLDER]].concat())?;
    }
    Ok(program)
}
