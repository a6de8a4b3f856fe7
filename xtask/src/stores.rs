//! s3s-fs, a server of S3, below `target/servers`, and mounts of it under load.

use anyhow::Result;

use crate::packages;
use crate::shell::{output, run};

const VERSION: &str = "0.14.1";
const FOLDER: &str = "target/servers";

/// Installs the server, unless it is there, and measures.
pub fn bench() -> Result<()> {
    packages::ensure(packages::TEST)?;
    let is_there = output(&[&format!("{FOLDER}/bin/s3s-fs"), "--version"]);
    if !is_there.is_ok_and(|line| line.trim().ends_with(VERSION)) {
        let what = ["s3s-fs", "--version", VERSION, "--features", "binary", "--locked"];
        run(&[&["cargo", "install"], &what[..], &["--root", FOLDER]].concat())?;
    }
    run(&["cargo", "bench", "--package", "pantler-cli", "--bench", "stores"])
}
