//! Packages for Debian, by `dpkg-deb`: docs/decisions/0146-packages.md says why by no more.

use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::{Job, text, zip};
use crate::layout::{DOCUMENTS, Layout, Part, SOURCES};
use crate::packages;
use crate::shell::{command, output, run_command};

/// What packs them.
const NEEDED: &[&str] = &["binutils", "dpkg-dev"];
/// Which packages there are. The second one's documents are those of the first.
const PACKAGES: [(&str, Part); 2] = [("pantler", Part::Main), ("libpantler-dev", Part::Development)];
/// Ours is the first of each version.
const REVISION: &str = "1";

impl Job {
    /// Makes the packages, and returns where they are.
    pub fn deb(&self) -> Result<Vec<PathBuf>> {
        packages::ensure(NEEDED)?;
        let triplet = output(&["dpkg-architecture", "--query", "DEB_HOST_MULTIARCH"])?;
        let layout = Layout {
            prefix: "/usr".to_owned(),
            libraries: format!("lib/{}", triplet.trim()),
            library_mode: 0o644,
            zsh: "share/zsh/vendor-completions",
        };
        let entries = layout.entries(&self.built)?;
        PACKAGES
            .into_iter()
            .map(|(name, part)| {
                let stage = self.stage(&format!("deb/{name}"))?;
                layout.put(&entries, part, &stage)?;
                self.documents(name, part, &stage)?;
                self.shrink(&layout, &stage)?;
                let dependencies = match part {
                    Part::Main => {
                        let library = stage.join("usr").join(&layout.libraries).join("libpantler.so.0");
                        self.dependencies(&[&stage.join("usr/bin/pantler"), &library])?
                    }
                    Part::Development => String::new(),
                };
                self.control(name, &stage, &dependencies)?;
                self.pack(name, &stage)
            })
            .collect()
    }

    /// Debian's policy wants these beside the common list.
    fn documents(&self, name: &str, part: Part, stage: &Path) -> Result<()> {
        if part == Part::Development {
            fs::create_dir_all(stage.join("usr/share/doc"))?;
            symlink(PACKAGES[0].0, stage.join("usr/share/doc").join(name))?;
        } else {
            let folder = stage.join("usr").join(DOCUMENTS);
            fs::copy("CHANGELOG.md", folder.join("changelog"))?;
            fs::write(folder.join("changelog.Debian"), self.changes()?)?;
            fs::copy(source("copyright"), folder.join("copyright"))?;
            zip(&folder, "changelog*")?;
        }
        let overrides = source(name).join("lintian-overrides");
        if overrides.exists() {
            let folder = stage.join("usr/share/lintian/overrides");
            fs::create_dir_all(&folder)?;
            fs::copy(overrides, folder.join(name))?;
        }
        Ok(())
    }

    /// The changelog of the package, which says where the project's is.
    fn changes(&self) -> Result<String> {
        let date = output(&["date", "--utc", "--rfc-email", "--date", &format!("@{}", self.date)])?;
        Ok(format!(
            "pantler ({}) unstable; urgency=medium\n\n  * What changed: /usr/share/doc/pantler/changelog.gz\n\n \
             -- {}  {date}",
            version(),
            self.maintainer
        ))
    }

    /// The packages of the libraries that these executables load.
    fn dependencies(&self, executables: &[&Path]) -> Result<String> {
        let folder = self.stage("deb/dependencies")?;
        fs::create_dir(folder.join("debian"))?;
        fs::write(folder.join("debian/control"), "Source: pantler\n\nPackage: pantler\nArchitecture: any\n")?;
        let mut look = command(&["dpkg-shlibdeps", "-O"]);
        look.args(executables).current_dir(&folder);
        let told = look.output().context("cannot start dpkg-shlibdeps")?;
        let said = String::from_utf8_lossy(&told.stdout);
        match said.trim().strip_prefix("shlibs:Depends=") {
            Some(dependencies) if told.status.success() => Ok(dependencies.to_owned()),
            _ => bail!("dpkg-shlibdeps: {}{said}: {}", String::from_utf8_lossy(&told.stderr), told.status),
        }
    }

    /// The folder `DEBIAN`: what dpkg is told, and sums of all files.
    fn control(&self, name: &str, stage: &Path, dependencies: &str) -> Result<()> {
        let sums = "find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum";
        let mut sums = command(&["sh", "-c", sums]);
        let sums = sums.current_dir(stage).output()?;
        let size = output(&["du", "--summarize", "--apparent-size", "--block-size=1024", text(stage)?])?;
        let folder = stage.join("DEBIAN");
        fs::create_dir(&folder)?;
        fs::write(folder.join("md5sums"), sums.stdout)?;
        for file in fs::read_dir(source(name))? {
            let file = file?;
            let name = file.file_name();
            if name == "lintian-overrides" {
                continue;
            }
            let words = fs::read_to_string(file.path())?
                .replace("@VERSION@", &version())
                .replace("@ARCHITECTURE@", &architecture()?)
                .replace("@MAINTAINER@", &self.maintainer)
                .replace("@SIZE@", size.split_whitespace().next().context("du says a size")?)
                .replace("@DEPENDS@", dependencies);
            let to = folder.join(name);
            let mode = if words.starts_with("#!") { 0o755 } else { 0o644 };
            fs::write(&to, words)?;
            fs::set_permissions(&to, fs::Permissions::from_mode(mode))?;
        }
        Ok(())
    }

    fn pack(&self, name: &str, stage: &Path) -> Result<PathBuf> {
        output(&["find", text(stage)?, "-type", "d", "-exec", "chmod", "755", "{}", "+"])?;
        let package = self.out.join(format!("{name}_{}_{}.deb", version(), architecture()?));
        let mut pack = command(&["dpkg-deb", "--root-owner-group", "--build"]);
        pack.arg(if self.is_release { "-Zxz" } else { "-Znone" });
        pack.arg(stage).arg(&package).env("SOURCE_DATE_EPOCH", &self.date);
        run_command(pack)?;
        Ok(package)
    }
}

/// A text of the packages for Debian.
fn source(name: &str) -> PathBuf {
    Path::new(SOURCES).join("deb").join(name)
}

fn version() -> String {
    format!("{}-{REVISION}", env!("CARGO_PKG_VERSION"))
}

fn architecture() -> Result<String> {
    Ok(output(&["dpkg", "--print-architecture"])?.trim().to_owned())
}
