//! Packages for systems with rpm, by `rpmbuild`.

use anyhow::Result;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::{Job, text};
use crate::layout::{DOCUMENTS, Layout, Part, SOURCES};
use crate::packages;
use crate::shell::{command, run_command};

/// What packs them.
const NEEDED: &[&str] = &["binutils", "rpm"];

impl Job {
    /// Makes the packages.
    pub fn rpm(&self) -> Result<()> {
        packages::ensure(NEEDED)?;
        let layout = Layout {
            prefix: "/usr".to_owned(),
            libraries: "lib64".to_owned(),
            zsh: "share/zsh/site-functions",
        };
        let entries = layout.entries(&self.built)?;
        let stage = self.stage("rpm/root")?;
        let lists = self.stage("rpm/lists")?;
        for (part, list) in [(Part::Main, "main"), (Part::Development, "development")] {
            layout.put(&entries, part, &stage)?;
            let paths = entries.iter().filter(|entry| entry.part == part).map(|entry| layout.path(entry));
            let lines = paths.fold(String::new(), |mut lines, path| {
                // Manual pages are compressed, documents may be left out.
                let zipped = if path.contains("/share/man/") { ".gz" } else { "" };
                let kind = if path.contains(DOCUMENTS) { "%doc " } else { "" };
                let _ = writeln!(lines, "{kind}{path}{zipped}");
                lines
            });
            fs::write(lists.join(list), lines)?;
        }
        self.shrink(&layout, &stage)?;
        let licences = stage.join("usr/share/licenses/pantler");
        fs::create_dir_all(&licences)?;
        fs::copy("LICENSE", licences.join("LICENSE"))?;
        self.rpmbuild(&stage, &lists)
    }

    fn rpmbuild(&self, stage: &Path, lists: &Path) -> Result<()> {
        let top = self.stage("rpm/top")?;
        let mut pack = command(&["rpmbuild", "--quiet", "-bb"]);
        for (name, value) in [
            ("_topdir", text(&top)?),
            ("_rpmdir", text(&self.out)?),
            ("_rpmfilename", "%%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm"),
            ("stage", text(stage)?),
            ("lists", text(lists)?),
            ("project_version", env!("CARGO_PKG_VERSION")),
            ("packager", &self.maintainer),
            ("use_source_date_epoch_as_buildtime", "1"),
            ("clamp_mtime_to_source_date_epoch", "1"),
        ] {
            pack.arg("--define").arg(format!("{name} {value}"));
        }
        pack.arg(Path::new(SOURCES).join("rpm/pantler.spec")).env("SOURCE_DATE_EPOCH", &self.date);
        run_command(pack)
    }
}
