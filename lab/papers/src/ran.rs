//! An outcome with what it came from, kept as a file for each experiment.
//!
//! A result counts for one seed, and for the commit that last changed what its paper's experiments
//! are made of. While there are changes outside of commits, results are neither kept nor taken.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::SEED;
use crate::outcome::Outcome;
use crate::paper::Paper;

/// What was found, and when.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ran {
    /// As it is asked for.
    pub name: String,
    /// What it came from.
    pub source: Source,
    /// How long it took, on whatever machine.
    pub seconds: f64,
    /// What it came to.
    pub outcome: Outcome,
}

/// What results come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The last commit that changed what they are made of.
    pub commit: String,
    /// Whether there are changes outside of commits.
    pub changed: bool,
    /// The kernel's name and release.
    pub kernel: String,
    /// Of all draws.
    pub seed: u64,
}

/// What all experiments are made of, but the papers' own files and the documents.
const SHARED: [&str; 10] = [
    "Cargo.lock",
    "core",
    "host/control",
    "lab/dust",
    "lab/sim",
    "lab/trace",
    "lab/papers/src/outcome.rs",
    "lab/papers/src/traces.rs",
    "lab/papers/src/virtual_time.rs",
    ":!*.md",
];

/// Behind the commit in [`describe`](Source::describe)'s words.
const WITH_CHANGES: &str = " with changes";

impl Source {
    /// That of a paper's experiments, in this working tree and on this machine.
    ///
    /// # Errors
    ///
    /// Git is missing, or this is no working tree.
    pub fn of(paper: &Paper) -> Result<Self> {
        let git = |words: &[&str]| git(words, paper);
        let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
        // What a machine adds to the version says nothing to others.
        let version = release.trim().split('-').next().unwrap_or_default();
        Ok(Self {
            commit: git(&["log", "-1", "--format=%h", "--abbrev=8"])?,
            changed: !git(&["status", "--porcelain"])?.is_empty(),
            kernel: format!("Linux {version}"),
            seed: SEED,
        })
    }

    /// In words.
    pub fn describe(&self) -> String {
        let changed = if self.changed { WITH_CHANGES } else { "" };
        format!("commit {}{changed}, seed {}, {}", self.commit, self.seed, self.kernel)
    }

    /// What changed the sources of a paper's document since the commit that it names, a line for
    /// each file outside of commits and for each commit, the newest first; none while it is of
    /// these sources. A document of more than its commit is never.
    ///
    /// # Errors
    ///
    /// The document names no commit, or one that is not in this repository.
    pub fn changed_since(paper: &Paper, document: &str) -> Result<Vec<String>> {
        let made = commit_of(document).context("it names no commit")?;
        let beside = document.contains(&format!("{made}{WITH_CHANGES}"));
        let unknown = beside.then(|| format!("{made} had changes that are in no commit"));
        let here = git(&["status", "--porcelain"], paper)?;
        let changes = git(&["log", "--format=%h %s", "--abbrev=8", &format!("{made}..HEAD")], paper)?;
        Ok(unknown.into_iter().chain(here.lines().chain(changes.lines()).map(str::to_owned)).collect())
    }

    /// The file of a result below `folder`.
    fn file(&self, folder: &Path, name: &str) -> PathBuf {
        folder.join(format!("{}-{}", self.commit, self.seed)).join(format!("{}.json", name.replace('/', "-")))
    }

    /// What was found before, if it still counts.
    pub fn kept(&self, folder: &Path, name: &str) -> Option<Ran> {
        let text = fs::read(self.file(folder, name)).ok().filter(|_| !self.changed)?;
        serde_json::from_slice(&text).ok()
    }

    /// Keeps what was found.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn keep(&self, folder: &Path, ran: &Ran) -> Result<()> {
        if self.changed {
            return Ok(());
        }
        let path = self.file(folder, &ran.name);
        fs::create_dir_all(path.parent().context("a folder of the commit")?)?;
        fs::write(&path, serde_json::to_vec(ran)?).with_context(|| path.display().to_string())
    }
}

/// The commit in [`describe`](Source::describe)'s words.
fn commit_of(document: &str) -> Option<&str> {
    let rest = document.split_once("commit ")?.1;
    let commit = rest.split(|letter: char| !letter.is_ascii_hexdigit()).next()?;
    (commit.len() >= 8).then_some(commit)
}

/// What git says of what a paper's experiments are made of.
fn git(words: &[&str], paper: &Paper) -> Result<String> {
    let file = format!("lab/papers/src/{}", paper.name.replace('-', "_"));
    let own = [format!("{file}.rs"), file];
    let paths = SHARED.iter().copied().chain(own.iter().map(String::as_str));
    let words: Vec<&str> = words.iter().copied().chain(["--"]).chain(paths).collect();
    output("git", &words)
}

fn output(program: &str, words: &[&str]) -> Result<String> {
    let done = Command::new(program).args(words).output().with_context(|| format!("{program} is needed"))?;
    anyhow::ensure!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr).trim());
    Ok(String::from_utf8(done.stdout)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_names_its_commit() {
        assert_eq!(commit_of("Made by `make papers` from commit 50968210, seed 1"), Some("50968210"));
        assert_eq!(commit_of("from commit 50968210 with changes, seed 1"), Some("50968210"));
        assert_eq!(commit_of("a commit of ours"), None);
        assert_eq!(commit_of(""), None);
    }
}
