//! Packages for systems with rpm, by `rpmbuild`.

use anyhow::{Result, bail};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Job, text};
use crate::layout::{DOCUMENTS, Layout, Part, SOURCES};
use crate::packages;
use crate::shell::{command, output, run, run_command};

/// What packs them.
const NEEDED: &[&str] = &["binutils", "rpm"];
/// What tries them.
const NEEDED_FOR_TRIAL: &[&str] = &["rpmlint"];
/// Which packages there are.
const PACKAGES: [&str; 2] = ["pantler", "pantler-devel"];
/// What rpmlint may say, and why.
const ALLOWED: &str = "rpm/rpmlint.toml";

impl Job {
    /// Makes the packages, and returns where they are.
    pub fn rpm(&self) -> Result<Vec<PathBuf>> {
        packages::ensure(NEEDED)?;
        let layout = Layout {
            prefix: "/usr".to_owned(),
            libraries: "lib64".to_owned(),
            library_mode: 0o755,
            zsh: "share/zsh/site-functions",
        };
        let entries = layout.entries(&self.built)?;
        let stage = self.stage("rpm/root")?;
        let lists = self.stage("rpm/lists")?;
        for (part, list) in [(Part::Main, "main"), (Part::Development, "development")] {
            layout.put(&entries, part, &stage)?;
            // The folder of documents is named as a whole below.
            let paths = entries
                .iter()
                .filter(|entry| entry.part == part)
                .map(|entry| layout.path(entry))
                .filter(|path| !path.contains(DOCUMENTS));
            let lines = paths.fold(String::new(), |mut lines, path| {
                let zipped = if path.contains("/share/man/") { ".gz" } else { "" };
                let _ = writeln!(lines, "{path}{zipped}");
                lines
            });
            fs::write(lists.join(list), lines)?;
        }
        self.shrink(&layout, &stage)?;
        let licences = stage.join("usr/share/licenses/pantler");
        fs::create_dir_all(&licences)?;
        fs::copy("LICENSE", licences.join("LICENSE"))?;
        self.rpmbuild(&stage, &lists)?;
        let machine = output(&["rpm", "--eval", "%{_arch}"])?;
        let place = |name| format!("{name}-{}-1.{}.rpm", env!("CARGO_PKG_VERSION"), machine.trim());
        Ok(PACKAGES.map(|name| self.out.join(place(name))).into())
    }

    /// Installs packages below a folder, verifies and removes them, and prints what rpmlint says of
    /// them. Their scripts need a system of their own: they are not run.
    pub fn try_rpm(&self, made: &[PathBuf]) -> Result<()> {
        packages::ensure(NEEDED_FOR_TRIAL)?;
        let root = self.stage("rpm/system")?;
        let paths = made.iter().map(|path| text(path)).collect::<Result<Vec<_>>>()?;
        let root_words = ["rpm", "--root", text(&root)?];
        let rpm = |words: &[&str], what: &[&str]| run(&[&root_words[..], words, what].concat());
        rpm(&["--install", "--nodeps", "--noscripts"], &paths)?;
        rpm(&["--verify", "--nodeps"], &PACKAGES)?;
        rpm(&["--erase", "--noscripts"], &PACKAGES)?;
        let left = output(&["find", text(&root)?, "-name", "*pantler*"])?;
        if !left.is_empty() {
            bail!("left by the packages:\n{left}");
        }
        let allowed = Path::new(SOURCES).join(ALLOWED);
        run(&[&["rpmlint", "--config", text(&allowed)?], &paths[..]].concat())
    }

    fn rpmbuild(&self, stage: &Path, lists: &Path) -> Result<()> {
        let top = self.stage("rpm/top")?;
        let day = output(&[
            "env",
            "LC_ALL=C",
            "date",
            "--utc",
            "--date",
            &format!("@{}", self.date),
            "+%a %b %d %Y",
        ])?;
        let mut pack = command(&["rpmbuild", "--quiet", "-bb"]);
        for (name, value) in [
            ("_topdir", text(&top)?),
            ("_rpmdir", text(&self.out)?),
            ("_rpmfilename", "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm"),
            ("stage", text(stage)?),
            ("lists", text(lists)?),
            ("project_version", env!("CARGO_PKG_VERSION")),
            ("packager", &self.maintainer),
            ("day", day.trim()),
            ("use_source_date_epoch_as_buildtime", "1"),
            ("clamp_mtime_to_source_date_epoch", "1"),
        ] {
            pack.arg("--define").arg(format!("{name} {value}"));
        }
        pack.arg(Path::new(SOURCES).join("rpm/pantler.spec")).env("SOURCE_DATE_EPOCH", &self.date);
        run_command(pack)
    }
}
