//! A C build after a checkout: objects of the kernel's mm, each of which reads 770 headers.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

use crate::demo::source::Source;
use crate::shell;

/// What the row runs, in the folder of [`write`](fn@write): all objects, one after another, so that
/// the most that compilers hold is the same each time.
pub const SCRIPT: &str = "rm -rf out && mkdir out && exec make --silent --file build.mk";
const MAKEFILE: &str = include_str!("build.mk");
/// Files that the compiler said it read.
const READ: &str = "read";

/// Fills a new folder with sources, and headers of a package of Debian's; the first build tells
/// what builds read.
pub fn write(folder: &Path, source: &Source) -> Result<()> {
    fs::create_dir(folder)?;
    fs::write(folder.join("build.mk"), MAKEFILE)?;
    let script = format!(
        "set -e
cd '{}'
cp -r '{}' mm
config=$(ls -d /usr/src/linux-headers-6.1.*-cloud-amd64 | tail -n 1)
common=${{config%cloud-amd64}}common
mkdir -p config/arch/x86 common/arch/x86
cp -r \"$config/include\" config
cp -r \"$config/arch/x86/include\" config/arch/x86
cp -r \"$common/include\" common
cp -r \"$common/arch/x86/include\" common/arch/x86
({SCRIPT})
cat out/*.d | tr -s ' \\\\' '\\n\\n' | grep '[.][ch]$' | sort | uniq -c | sort -k1,1nr -k2 | sed 's/^ *[0-9]* //' > {READ}",
        folder.display(),
        source.tree.join("mm").display(),
    );
    shell::output(&["sh", "-c", &script]).context("the C build of the kernel's mm").map(drop)
}

/// What builds read, what is read most often first.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let text = fs::read_to_string(folder.join(READ)).context("the C build was not made")?;
    Ok(text.lines().map(|line| folder.join(line)).collect())
}
