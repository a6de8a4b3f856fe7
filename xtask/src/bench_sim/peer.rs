//! libCacheSim: its own command, built from the source distribution that its Python package comes
//! with; where that cannot be built, the Python package itself, and then the report says so.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

use super::FOLDER;
use super::measure::{self, Usage};
use crate::shell::say;
use crate::{packages, shell};

/// The release that is measured.
const VERSION: &str = "0.3.5";
const FLAGS: &str = "-O3 -march=native";
const NEEDED: &[&str] =
    &["cmake", "g++", "libglib2.0-dev", "libzstd-dev", "make", "pkg-config", "python3-pip"];
const NEEDED_BY_PACKAGE: &[&str] = &["python3", "python3-venv"];

/// The package's script; its words are the trace, the policy and the size.
const SCRIPT: &str = "\
import sys, time
import libcachesim as peer
trace, policy, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
options = peer.ReaderInitParam(ignore_obj_size=True)
reader = peer.TraceReader(trace, peer.TraceType.ORACLE_GENERAL_TRACE, options)
requests = reader.get_num_of_req()
cache = getattr(peer, policy)(size)
start = time.perf_counter()
ratio, _ = cache.process_trace(reader)
seconds = time.perf_counter() - start
print(f'{requests} req, miss ratio {ratio:.4f}, throughput {requests / seconds / 1e6:.4f} MQPS')
";

/// The program, ready to run.
pub struct Peer {
    form: Form,
    /// `cachesim`, or a Python with the package.
    program: PathBuf,
    /// What it is, for the report.
    pub name: String,
}

/// What is run of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `cachesim`.
    Command,
    /// Its Python package.
    Package,
}

impl std::str::FromStr for Form {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "command" => Ok(Self::Command),
            "package" => Ok(Self::Package),
            _ => bail!("peer {name:?}: expected command or package"),
        }
    }
}

/// What it says of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Said {
    pub miss_ratio: f64,
    /// Seconds of its loop, by its own clock.
    pub seconds: f64,
}

/// Finds the peer in one form, or downloads and builds it; without a form the command, or else the
/// package.
pub fn ensure(form: Option<Form>) -> Result<Peer> {
    match form {
        Some(Form::Command) => command(),
        Some(Form::Package) => package(),
        None => command().or_else(|error| {
            say(format_args!("cachesim cannot be had ({error:#}): taking the Python package in its place"));
            package()
        }),
    }
}

fn command() -> Result<Peer> {
    let build = Path::new(FOLDER).join("build");
    let path = build.join("bin/cachesim");
    if !path.exists() {
        packages::ensure(NEEDED)?;
        let pip =
            ["pip3", "download", "--quiet", "--no-deps", "--no-binary", "libcachesim", "--dest", FOLDER];
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
    Ok(Peer { form: Form::Command, program: path, name })
}

fn package() -> Result<Peer> {
    let environment = format!("{FOLDER}/environment");
    let python = Path::new(&environment).join("bin/python");
    let program = python.to_str().context("a path of ours")?;
    if shell::output(&[program, "-c", "import libcachesim"]).is_err() {
        packages::ensure(NEEDED_BY_PACKAGE)?;
        shell::run(&["python3", "-m", "venv", &environment])?;
        let pip = [program, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        shell::run(&[&pip[..], &[&format!("libcachesim=={VERSION}")]].concat())?;
    }
    let name = format!(
        "libCacheSim {VERSION}, its Python package as PyPI has it (not the command): compiled for any processor, and \
         each run starts a Python"
    );
    Ok(Peer { form: Form::Package, program: python, name })
}

impl Peer {
    /// Runs one policy at one size, objects of size one.
    pub fn run(&self, trace: &str, policy: &str, size: u64) -> Result<(Usage, Said)> {
        let size = size.to_string();
        let program = self.program.to_str().context("a path of ours")?;
        let usage = match self.form {
            Form::Command => {
                let words =
                    [trace, "oracleGeneral", policy, &size, "--ignore-obj-size", "1", "--num-thread", "1"];
                // It leaves a file with results where it runs, which is not used.
                let output = format!("{FOLDER}/peer-output");
                measure::run(program, &[&words[..], &["--output", &output]].concat())?
            }
            Form::Package => measure::run(program, &["-c", SCRIPT, trace, policy, &size])?,
        };
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
