//! What is installed, and where: one list for `make install` and for all packages.

use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::shell;

/// The folder of units, texts of packages and the like.
pub const SOURCES: &str = "packaging";
/// Where what is for people to read lies, below the prefix.
pub const DOCUMENTS: &str = "share/doc/pantler";

/// Where a family of systems has its files.
#[derive(Debug)]
pub struct Layout {
    /// An absolute path.
    pub prefix: String,
    /// The folder of libraries, below the prefix.
    pub libraries: String,
    /// The mode of the library that programs load: rpm takes one that is not executable for data.
    pub library_mode: u32,
    /// The folder of zsh's completions, below the prefix.
    pub zsh: &'static str,
}

/// Packages that have files of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The command, and the library that programs load.
    Main,
    /// What programs are compiled with.
    Development,
}

/// What becomes a file.
#[derive(Debug)]
enum Content {
    /// The bytes of another file.
    Of(PathBuf),
    Text(String),
    /// A symbolic link.
    Link(&'static str),
}

/// A file that is installed.
#[derive(Debug)]
pub struct Entry {
    /// Below the prefix.
    place: String,
    pub part: Part,
    mode: u32,
    content: Content,
}

impl Layout {
    /// Everything, as it was built in `built`; the command there writes its pages and completions.
    ///
    /// # Errors
    /// The command is not there or fails; a source cannot be read.
    pub fn entries(&self, built: &Path) -> Result<Vec<Entry>> {
        use Part::{Development, Main};
        let source = |name: &str| Path::new(SOURCES).join(name);
        let mut entries = vec![
            Entry::file("bin/pantler", Main, 0o755, built.join("pantler")),
            self.library("libpantler.so.0", Main, Content::Of(built.join("libpantler.so"))),
            self.library("libpantler.so", Development, Content::Link("libpantler.so.0")),
            self.library("libpantler.a", Development, Content::Of(built.join("libpantler.a"))),
            self.library("pkgconfig/pantler.pc", Development, Content::Text(self.description())),
            Entry::file("include/pantler.h", Development, 0o644, "bindings/pantler/include/pantler.h"),
            Entry::file("share/man/man3/pantler.3", Development, 0o644, "bindings/pantler/man/pantler.3"),
            Entry::file("lib/sysusers.d/pantler.conf", Main, 0o644, source("sysusers.conf")),
            Entry::text("lib/systemd/system/pantler.service", self.unit(&source("pantler.service"))?),
        ];
        entries.extend(self.completions(built)?);
        entries.extend(pages(built)?);
        entries.extend(documents()?);
        Ok(entries)
    }

    /// Writes the entries of a part below `destination`, which stands for the root of a system.
    ///
    /// # Errors
    /// What cannot be read or written.
    pub fn put(&self, entries: &[Entry], part: Part, destination: &Path) -> Result<()> {
        let place = |entry: &Entry| destination.join(self.path(entry).trim_start_matches('/'));
        entries.iter().filter(|entry| entry.part == part).try_for_each(|entry| entry.put(&place(entry)))
    }

    /// The path of an entry on a system.
    pub fn path(&self, entry: &Entry) -> String {
        format!("{}/{}", self.prefix, entry.place)
    }

    fn library(&self, name: &str, part: Part, content: Content) -> Entry {
        let place = format!("{}/{name}", self.libraries);
        let mode = if part == Part::Main { self.library_mode } else { 0o644 };
        Entry { place, part, mode, content }
    }

    /// What `pkg-config` says of the library.
    fn description(&self) -> String {
        format!(
            "prefix={}\n\
             Name: pantler\n\
             Description: what a program says about the blocks of its files\n\
             Version: {}\n\
             Cflags: -I${{prefix}}/include\n\
             Libs: -L${{prefix}}/{} -lpantler\n\
             Libs.private: -lpthread -ldl -lm -lgcc_s -lc\n",
            self.prefix,
            env!("CARGO_PKG_VERSION"),
            self.libraries
        )
    }

    fn unit(&self, source: &Path) -> Result<String> {
        Ok(read(source)?.replace("@PREFIX@", &self.prefix))
    }

    fn completions(&self, built: &Path) -> Result<Vec<Entry>> {
        let zsh = format!("{}/_pantler", self.zsh);
        [
            ("bash", "share/bash-completion/completions/pantler"),
            ("zsh", &zsh),
            ("fish", "share/fish/vendor_completions.d/pantler.fish"),
        ]
        .into_iter()
        .map(|(shell, place)| Ok(Entry::text(place, command(built, &["completions", shell])?)))
        .collect()
    }
}

impl Entry {
    fn file(place: &str, part: Part, mode: u32, from: impl Into<PathBuf>) -> Entry {
        Entry { place: place.to_owned(), part, mode, content: Content::Of(from.into()) }
    }

    fn text(place: &str, text: String) -> Entry {
        Entry { place: place.to_owned(), part: Part::Main, mode: 0o644, content: Content::Text(text) }
    }

    /// Written beside and renamed over, so that what runs keeps its own file.
    fn put(&self, target: &Path) -> Result<()> {
        let folder = target.parent().context("a file is in a folder")?;
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        // Beside pantler.so there are pantler.so.0 and pantler.a.
        let mut fresh = target.as_os_str().to_owned();
        fresh.push(".new");
        let fresh = PathBuf::from(fresh);
        let _ = fs::remove_file(&fresh);
        match &self.content {
            Content::Of(from) => fs::copy(from, &fresh)
                .map(drop)
                .with_context(|| format!("cannot copy {} to {}", from.display(), fresh.display()))?,
            Content::Text(text) => {
                fs::write(&fresh, text).with_context(|| format!("cannot write {}", fresh.display()))?;
            }
            Content::Link(to) => symlink(to, &fresh).with_context(|| fresh.display().to_string())?,
        }
        if !matches!(self.content, Content::Link(_)) {
            fs::set_permissions(&fresh, fs::Permissions::from_mode(self.mode))?;
        }
        fs::rename(&fresh, target).with_context(|| format!("cannot write {}", target.display()))
    }
}

/// The manual pages of the command.
fn pages(built: &Path) -> Result<Vec<Entry>> {
    let folder = std::env::temp_dir().join(format!("pantler-manual-{}", std::process::id()));
    fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    command(built, &["manual", &folder.to_string_lossy()])?;
    let place = |name: &str| format!("share/man/man1/{name}");
    let pages = |name: &String| Ok(Entry::text(&place(name), read(&folder.join(name))?));
    let pages = names(&folder)?.iter().map(pages).collect();
    fs::remove_dir_all(&folder)?;
    pages
}

/// What users read, and examples.
fn documents() -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for (folder, below) in [("docs", ""), ("profiles", "examples/profiles/"), ("dashboard", "examples/")] {
        for name in names(Path::new(folder))? {
            let place = format!("{DOCUMENTS}/{below}{name}");
            entries.push(Entry::file(&place, Part::Main, 0o644, Path::new(folder).join(name)));
        }
    }
    Ok(entries)
}

/// The files of a folder, in order.
fn names(folder: &Path) -> Result<Vec<String>> {
    let listed = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in listed {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// What the command that was built prints.
fn command(built: &Path, words: &[&str]) -> Result<String> {
    let program = built.join("pantler");
    let program = program.to_str().context("paths of executables are text")?;
    shell::output(&[&[program], words].concat()).with_context(|| format!("{program} {}", words.join(" ")))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
