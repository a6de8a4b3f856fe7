//! A C build after a checkout: cscope's sources, and a compiler that lies on the same disk.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::examples::build;
use crate::shell;

/// What the row runs, in the folder of [`write`](fn@write): all objects are built, by two processes
/// at a time.
pub const SCRIPT: &str = "rm -f cscope/src/*.o cscope/src/cscope
exec make --silent --jobs 2 --directory cscope/src \"CC=$PWD/toolchain/bin/gcc\"";
/// What gcc needs of its own folder to build a program in C.
const PARTS: &str = "cc1 collect2 include liblto_plugin.so crt*.o libgcc*";

/// Fills a new folder with sources and the compiler; `kept` is a folder for the archive.
pub fn write(folder: &Path, kept: &Path) -> Result<()> {
    let sources = folder.join("cscope");
    build::unpack(&build::cscope_archive(kept)?, &sources)?;
    build::configure(Command::new("./configure").current_dir(&sources))?;
    // gcc finds its parts beside itself.
    let copy = format!(
        "set -e
cd '{}'
parts=$(dirname \"$(gcc -print-prog-name=cc1)\")
there=toolchain${{parts#/usr}}
tools=toolchain/$(gcc -dumpmachine)/bin
mkdir -p toolchain/bin \"$there\" \"$tools\"
cp -L \"$(command -v gcc)\" toolchain/bin/gcc
cp -L \"$(command -v as)\" \"$(command -v ld)\" \"$tools\"
for part in {PARTS}; do cp -rL \"$parts\"/$part \"$there\"; done
{SCRIPT}",
        folder.display()
    );
    // Sources that make generates are there from the first build on.
    shell::output(&["sh", "-c", &copy]).map(drop)
}

/// The compiler proper, which most of the bytes are of.
pub fn compiler(folder: &Path) -> Result<PathBuf> {
    let found = shell::output(&["find", &folder.display().to_string(), "-name", "cc1"])?;
    let path = PathBuf::from(found.lines().next().context("no compiler is on the disk")?);
    fs::metadata(&path).context("no compiler is on the disk")?;
    Ok(path)
}
