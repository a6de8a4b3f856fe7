//! `make install`: what packages have, too, on this machine.

use anyhow::{Result, bail};
use std::path::Path;

use crate::layout::{Layout, Part};
use crate::shell::{self, say};

/// Builds, and installs below a prefix; `--destination` stands for the root of the system.
///
/// # Errors
/// What could not be built or written.
pub fn install(arguments: &[&str]) -> Result<()> {
    let (mut prefix, mut destination) = ("/usr/local", "/");
    for pair in arguments.chunks(2) {
        match pair {
            ["--prefix", folder] => prefix = folder,
            ["--destination", folder] => destination = folder,
            _ => bail!("install: expected --prefix DIR, --destination DIR"),
        }
    }
    build()?;
    let layout = Layout {
        prefix: std::path::absolute(prefix)?.to_string_lossy().trim_end_matches('/').to_owned(),
        libraries: "lib".to_owned(),
        library_mode: 0o755,
        zsh: "share/zsh/site-functions",
    };
    let entries = layout.entries(Path::new(BUILT))?;
    for part in [Part::Main, Part::Development] {
        layout.put(&entries, part, Path::new(destination))?;
    }
    say(format_args!("{} files installed below {prefix}", entries.len()));
    Ok(())
}

/// Where [`build`] leaves what is installed.
pub const BUILT: &str = "target/release";

/// Builds what is installed.
///
/// # Errors
/// What does not compile.
pub fn build() -> Result<()> {
    shell::run(&["cargo", "build", "--release", "--package", "pantler-cli", "--package", "pantler"])
}
