//! libCacheSim's own command, built from the source distribution that its Python package comes with.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

use super::FOLDER;
use super::measure::{self, Usage};
use crate::{packages, shell};

/// The release that is measured.
const VERSION: &str = "0.3.5";
const FLAGS: &str = "-O3 -march=native";
const NEEDED: &[&str] =
    &["cmake", "g++", "libglib2.0-dev", "libzstd-dev", "make", "pkg-config", "python3-pip"];

/// The program, ready to run.
pub struct Peer {
    path: PathBuf,
    /// What it is, for the report.
    pub name: String,
}

/// What it says of a run.
pub struct Said {
    pub miss_ratio: f64,
    /// Seconds of its loop, by its own clock.
    pub seconds: f64,
}

/// Finds the program, or downloads and builds it.
pub fn ensure() -> Result<Peer> {
    let build = Path::new(FOLDER).join("build");
    let path = build.join("bin/cachesim");
    if !path.exists() {
        packages::ensure(NEEDED)?;
        let pip = ["pip3", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", FOLDER];
        shell::run(&[&pip[..], &[&format!("libcachesim=={VERSION}")]].concat())?;
        let archive = format!("{FOLDER}/libcachesim-{VERSION}.tar.gz");
        shell::run(&["tar", "--extract", "--file", &archive, "--directory", FOLDER])?;
        let source = format!("{FOLDER}/libcachesim-{VERSION}/src/libCacheSim");
        let (c, cpp) =
            (format!("-DCMAKE_C_FLAGS={FLAGS}"), format!("-DCMAKE_CXX_FLAGS={FLAGS} -fpermissive"));
        let build = build.to_str().context("a path of ours")?;
        let options = ["-DCMAKE_BUILD_TYPE=Release", "-DENABLE_TESTS=OFF", &c, &cpp];
        shell::run(&[&["cmake", "-S", &source, "-B", build], &options[..]].concat())?;
        shell::run(&["cmake", "--build", build, "--target", "cachesim"])?;
    }
    let name = format!("libCacheSim {VERSION}, its own `cachesim` from the source distribution, {FLAGS}");
    Ok(Peer { path, name })
}

impl Peer {
    /// Runs one policy at one size, objects of size one.
    pub fn run(&self, trace: &str, policy: &str, size: u64) -> Result<(Usage, Said)> {
        let size = size.to_string();
        let words = [trace, "oracleGeneral", policy, &size, "--ignore-obj-size", "1", "--num-thread", "1"];
        // It leaves a file with results where it runs, and nobody reads it.
        let output = format!("{FOLDER}/peer-output");
        let program = self.path.to_str().context("a path of ours")?;
        let usage = measure::run(program, &[&words[..], &["--output", &output]].concat())?;
        let said =
            said(&usage.out).or_else(|| said(&usage.err)).context("the peer said nothing of its run")?;
        Ok((usage, said))
    }
}

/// Understands `..., 20000000 req, miss ratio 0.4221, throughput 7.70 MQPS`.
fn said(text: &str) -> Option<Said> {
    let line = text.lines().rev().find(|line| line.contains("throughput"))?;
    let number = |before: &str| {
        let rest = line.split_once(before)?.1.trim_start();
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        rest[..end].parse::<f64>().ok()
    };
    let requests: f64 = line.split(" req").next()?.rsplit([' ', ',']).next()?.parse().ok()?;
    Some(Said { miss_ratio: number("miss ratio")?, seconds: requests / (number("throughput")? * 1e6) })
}
