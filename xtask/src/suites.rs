//! Runs the tests of the workspace in two lanes.
//!
//! Most tests meet the machine: they mount, make control groups, trace the kernel, and wait for it.
//! They take turns. The others only compute, and take the processors while those wait. So a suite
//! that meets the machine and fails is run once more at the end, alone, and what it said both times
//! is printed: docs/decisions/0126-what-fails-beside-others-is-run-alone.md.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::shell::{BEHIND, command, linted, say, words};

/// What only computes: beginnings of folder and name.
const COMPUTING: [&str; 6] = ["core/", "lab/dust/all", "lab/papers/", "lab/sim/", "lab/trace/", "xtask/"];

/// Of these it takes longest, and begins first: nothing waits for it alone at the end.
const LONGEST: &str = "lab/dust/all";

/// Suites of the mount that hold for both kinds of frames: they run once more with those that the
/// kernel keeps. Each begins with these folders and names.
const BOTH_FRAMES: [&str; 9] = [
    "body/mount/adversary",
    "body/mount/control",
    "body/mount/exerciser",
    "body/mount/lists",
    "body/mount/mappings",
    "body/mount/origins",
    "body/mount/reads",
    "body/mount/rights",
    "body/mount/semantics",
];

/// How the tests of a mount are told where its frames are to be.
const KERNEL_FRAMES: (&str, &str) = ("PANTLER_TEST_FRAMES", "kernel");

/// A test executable, and the folder that it expects to run in.
#[derive(Clone)]
pub struct Suite {
    folder: PathBuf,
    /// The folder's path in the tree, and what the suite is called there.
    pub name: String,
    pub executable: PathBuf,
    /// Whether the frames of its mounts are the kernel's.
    frames_of_kernel: bool,
}

/// What `cargo --message-format=json` says of what it built; the rest is ignored.
#[derive(Deserialize)]
struct Artifact {
    manifest_path: PathBuf,
    target: Target,
    profile: Profile,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

impl Artifact {
    fn is_suite(&self) -> bool {
        self.profile.test && self.target.kind != ["bench"]
    }
}

/// The test executables of the workspace, built.
pub struct Suites {
    machine: Vec<Suite>,
    computing: Vec<Suite>,
}

/// Builds all targets of the workspace, and lints them on the way.
///
/// # Errors
/// What does not compile.
pub fn build() -> Result<Suites> {
    let line = "cargo build --workspace --all-features --all-targets --quiet";
    say(line);
    built(linted(command(&words(line))))
}

/// The test executables that a command of cargo builds.
///
/// # Errors
/// What does not compile.
pub fn built(mut build: Command) -> Result<Suites> {
    build.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let built = build.output()?;
    if !built.status.success() {
        bail!("tests do not compile: {}", built.status);
    }
    let root = std::env::current_dir()?;
    let mut suites = Suites { machine: Vec::new(), computing: Vec::new() };
    for line in built.stdout.split(|&byte| byte == b'\n') {
        let Ok(artifact) = serde_json::from_slice::<Artifact>(line) else { continue };
        let (true, Some(executable)) = (artifact.is_suite(), artifact.executable) else { continue };
        let folder = artifact.manifest_path.parent().context("a manifest lies in a folder")?.to_owned();
        let place = format!("{}/", folder.strip_prefix(&root).unwrap_or(&folder).display());
        let name = format!("{place}{}", artifact.target.name);
        let suite = Suite { folder, name, executable, frames_of_kernel: false };
        let computes = COMPUTING.iter().any(|known| suite.name.starts_with(known));
        if BOTH_FRAMES.contains(&suite.name.as_str()) {
            let name = format!("{}, frames of the kernel", suite.name);
            suites.machine.push(Suite { name, frames_of_kernel: true, ..suite.clone() });
        }
        if computes { &mut suites.computing } else { &mut suites.machine }.push(suite);
    }
    // Compilers end in any order, and tests take the same turns each time.
    for lane in [&mut suites.machine, &mut suites.computing] {
        lane.sort_by(|one, other| one.name.cmp(&other.name));
    }
    suites.computing.sort_by_key(|suite| suite.name != LONGEST);
    Ok(suites)
}

impl Suites {
    /// Those of these names.
    ///
    /// # Errors
    /// There is none of a name.
    pub fn named(self, names: &[&str]) -> Result<Vec<Suite>> {
        let mut all = self.all();
        all.retain(|suite| names.contains(&suite.name.as_str()));
        match names.iter().find(|name| !all.iter().any(|suite| suite.name == **name)) {
            Some(name) => bail!("{name}: no such suite"),
            None => Ok(all),
        }
    }

    /// All of them, those that only compute first.
    pub fn all(self) -> Vec<Suite> {
        self.computing.into_iter().chain(self.machine).collect()
    }

    /// Runs all of them, each with what it says in one piece when it ends.
    ///
    /// # Errors
    /// The names of those which failed.
    pub fn run(self, fuzz_seconds: &str) -> Result<()> {
        let fails = |suite: &Suite, prefix: &[&str]| {
            let error = suite.run(prefix, fuzz_seconds).err();
            error.inspect(|error| say(format_args!("{error:#}"))).is_some()
        };
        let (mut failed, beside_others) = std::thread::scope(|scope| {
            let computing = scope.spawn(|| -> Vec<&Suite> {
                self.computing.iter().filter(|suite| fails(suite, &BEHIND)).collect()
            });
            let machine: Vec<&Suite> = self.machine.iter().filter(|suite| fails(suite, &[])).collect();
            (computing.join().expect("no lane panics"), machine)
        });
        for suite in beside_others {
            say(format_args!("{} failed beside others: now alone", suite.name));
            if fails(suite, &[]) {
                failed.push(suite);
            } else {
                say(format_args!("{} FAILED BESIDE OTHERS, and passes alone", suite.name));
            }
        }
        if !failed.is_empty() {
            let names: Vec<&str> = failed.iter().map(|suite| suite.name.as_str()).collect();
            bail!("tests failed: {}", names.join(", "));
        }
        Ok(())
    }
}

impl Suite {
    /// Runs it, below `prefix`, and prints what it said.
    fn run(&self, prefix: &[&str], fuzz_seconds: &str) -> Result<()> {
        let executable = self.executable.to_str().context("paths of executables are text")?;
        let start = Instant::now();
        let mut test = command(&[prefix, &[executable]].concat());
        test.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        if self.frames_of_kernel {
            test.env(KERNEL_FRAMES.0, KERNEL_FRAMES.1);
        }
        let done = test.env("PANTLER_FUZZ_SECONDS", fuzz_seconds).output()?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "== {}, {:.1} s", self.name, start.elapsed().as_secs_f64())?;
        out.write_all(&done.stdout)?;
        out.write_all(&done.stderr)?;
        if !done.status.success() {
            bail!("{}: {}", self.name, done.status);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    /// A suite that fails the first `times` that it is run.
    fn failing(folder: &Path, name: &str, times: u32) -> Suite {
        let executable = folder.join(name);
        let script = format!("#!/bin/sh\necho >> {name}.runs\n[ $(wc -l < {name}.runs) -gt {times} ]\n");
        std::fs::write(&executable, script).unwrap();
        std::fs::set_permissions(&executable, std::fs::Permissions::from_mode(0o755)).unwrap();
        Suite { folder: folder.to_owned(), name: name.to_owned(), executable, frames_of_kernel: false }
    }

    #[test]
    fn what_meets_the_machine_may_fail_once_and_what_computes_may_not() {
        let folder = std::env::temp_dir().join(format!("pantler-suites-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let run = |machine: &[(&str, u32)], computing: &[(&str, u32)]| {
            let lane = |suites: &[(&str, u32)]| {
                suites.iter().map(|&(name, times)| failing(&folder, name, times)).collect()
            };
            let suites = Suites { machine: lane(machine), computing: lane(computing) };
            suites.run("1").map_err(|error| error.to_string())
        };
        assert_eq!(run(&[("once", 1), ("never", 0)], &[("computes", 0)]), Ok(()));
        assert_eq!(run(&[("twice", 2)], &[]), Err("tests failed: twice".to_owned()));
        assert_eq!(run(&[], &[("computes-not", 1)]), Err("tests failed: computes-not".to_owned()));
        let runs = |name: &str| std::fs::read_to_string(folder.join(format!("{name}.runs"))).unwrap().len();
        assert_eq!(["once", "never", "twice", "computes-not"].map(runs), [2, 1, 2, 1]);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
