//! `make packages`: packages for Debian, for systems with rpm, and for Python.
//!
//! ```text
//!   layout.rs, what is installed --> a folder --> dpkg-deb, rpmbuild --> target/packages
//!   packaging/, what is said of it ------------/
//! ```

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

use crate::install;
use crate::layout::Layout;
use crate::python;
use crate::shell::{output, run, say};

mod deb;
mod rpm;
mod trial;

/// Kinds of packages, as people name them.
const KINDS: [&str; 3] = ["deb", "rpm", "wheel"];
/// Where packages are left.
const PACKAGES: &str = "target/packages";

/// What is packed, and into where.
struct Job {
    /// Where the command and the library were built.
    built: PathBuf,
    /// Where packages are left.
    out: PathBuf,
    /// Whether users get it: then it is made small, which takes its time.
    is_release: bool,
    maintainer: String,
    /// Seconds since 1970: the same tree gives the same packages.
    date: String,
}

/// Makes packages of these kinds, all of them without any.
///
/// `--try` tries them, too: those for Debian in a guest, those of rpm below a folder. `--built DIR`
/// packs what lies there as it is, into `--out DIR`.
///
/// # Errors
/// What could not be built or packed; all promises that a guest did not keep.
pub fn package(arguments: &[&str]) -> Result<()> {
    let (mut built, mut out, mut is_tried) = (None, PACKAGES, false);
    let mut kinds = Vec::new();
    let mut words = arguments.iter().copied();
    while let Some(word) = words.next() {
        match word {
            "--try" => is_tried = true,
            "--built" => built = Some(words.next().context("--built: a folder")?),
            "--out" => out = words.next().context("--out: a folder")?,
            kind if KINDS.contains(&kind) => kinds.push(kind),
            _ => bail!("package: expected --try, --built DIR, --out DIR, {}", KINDS.join(" ")),
        }
    }
    if kinds.is_empty() {
        kinds = if is_tried { vec!["deb", "rpm"] } else { KINDS.to_vec() };
    }
    if built.is_none() {
        install::build()?;
    }
    let job = Job {
        built: PathBuf::from(built.unwrap_or(install::BUILT)),
        out: std::path::absolute(out)?,
        is_release: built.is_none(),
        maintainer: maintainer()?,
        date: date()?,
    };
    fs::create_dir_all(&job.out).with_context(|| job.out.display().to_string())?;
    for kind in kinds {
        match kind {
            "deb" => {
                let made = job.deb()?;
                if is_tried {
                    trial::in_guest(&made)?;
                }
            }
            "rpm" => {
                let made = job.rpm()?;
                if is_tried {
                    job.try_rpm(&made)?;
                }
            }
            _ => python::wheel(&job.out)?,
        }
    }
    say(format_args!("packages are in {}", job.out.display()));
    Ok(())
}

impl Job {
    /// An empty folder for what goes into a package.
    fn stage(&self, name: &str) -> Result<PathBuf> {
        let folder = self.out.join("stage").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }

    /// Compresses manual pages, and takes from libraries what programs do not load and linkers do
    /// not need.
    fn shrink(&self, layout: &Layout, stage: &Path) -> Result<()> {
        zip(&stage.join("usr/share/man"), "*.[0-9]")?;
        for (name, how) in [("libpantler.so.0", "--strip-unneeded"), ("libpantler.a", "--strip-debug")] {
            let library = stage.join("usr").join(&layout.libraries).join(name);
            if self.is_release && library.exists() {
                run(&["strip", how, "--enable-deterministic-archives", text(&library)?])?;
            }
        }
        Ok(())
    }
}

/// Compresses the files with such names.
fn zip(folder: &Path, names: &str) -> Result<()> {
    output(&["find", text(folder)?, "-type", "f", "-name", names, "-exec", "gzip", "-9n", "{}", "+"])
        .map(drop)
}

/// As Debian's tools have it: `DEBFULLNAME` and `DEBEMAIL`, else the author of the last commit.
fn maintainer() -> Result<String> {
    match (std::env::var("DEBFULLNAME"), std::env::var("DEBEMAIL")) {
        (Ok(name), Ok(address)) => Ok(format!("{name} <{address}>")),
        _ => {
            last_commit("%an <%ae>").context("the packages have no maintainer: set DEBFULLNAME and DEBEMAIL")
        }
    }
}

/// `SOURCE_DATE_EPOCH`, else when the last commit was made.
fn date() -> Result<String> {
    std::env::var("SOURCE_DATE_EPOCH")
        .or_else(|_| last_commit("%ct"))
        .context("the packages have no date: set SOURCE_DATE_EPOCH")
}

fn last_commit(format: &str) -> Result<String> {
    Ok(output(&["git", "log", "-1", &format!("--format={format}")])?.trim().to_owned())
}

/// A path as an argument.
fn text(path: &Path) -> Result<&str> {
    path.to_str().context("paths of packages are text")
}
