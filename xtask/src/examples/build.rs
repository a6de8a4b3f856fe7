//! From a source and a patch to two programs.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{done, postgresql};
use crate::shell::{self, say};
use crate::wanted::Wanted;

/// What upstream released, as Debian keeps it.
const CSCOPE: &str = "pool/main/c/cscope/cscope_15.9.orig.tar.xz";
const CSCOPE_SHA256: &str = "e8bc6cd29bb90e1eb7447a23a2a419f719ab8fe96dd10f6e289accdb428d2a1f";

/// Builds what is wanted. The index of the texts is made by a program, too.
pub fn all(folder: &Path, wanted: &Wanted<'_>) -> Result<()> {
    own(&folder.join("search"), "search")?;
    own(&folder.join("sort"), "sort")?;
    if wanted.has("cscope") {
        cscope(&folder.join("cscope"))?;
    }
    if wanted.has("postgresql") {
        postgresql::build(&folder.join("postgresql"))?;
    }
    Ok(())
}

/// Below a folder: `plain` as it is, and `patched`.
fn variants(folder: &Path) -> [(PathBuf, bool); 2] {
    [(folder.join("plain"), false), (folder.join("patched"), true)]
}

/// Builds a program of one file of `examples`, without and with its patch.
fn own(folder: &Path, name: &str) -> Result<()> {
    let source = Path::new("examples").join(name).canonicalize()?;
    for (variant, is_patched) in variants(folder) {
        fs::create_dir_all(&variant)?;
        let file = format!("{name}.c");
        fs::copy(source.join(&file), variant.join(&file))?;
        if is_patched {
            patch(&variant, &source.join(format!("{name}.patch")))?;
        }
        let mut compile = Command::new("cc");
        compile.args(["-O2", "-std=c99", "-Wall", "-Wextra", "-Werror", "-o", name, &file]);
        done(compile.args(if is_patched { linking(folder)? } else { Vec::new() }).current_dir(&variant))?;
    }
    Ok(())
}

/// Fetches cscope unless it is there, and builds it without and with its patch.
fn cscope(folder: &Path) -> Result<()> {
    let archive = folder.parent().context("a folder below another")?.join("cscope_15.9.orig.tar.xz");
    if !archive.exists() {
        let part = archive.with_extension("part");
        let mirror = mirror()?;
        say(format_args!("fetching cscope from {mirror}"));
        let mut fetch = Command::new("/usr/lib/apt/apt-helper");
        fetch.args([
            "-qq",
            "-o",
            "Acquire::Retries=5",
            "-o",
            "APT::Sandbox::User=root",
            "download-file",
            &format!("{mirror}/{CSCOPE}"),
        ]);
        done(fetch.arg(&part).arg(format!("SHA256:{CSCOPE_SHA256}")))?;
        fs::rename(&part, &archive)?;
    }
    let sum = shell::output(&["sha256sum", &archive.display().to_string()])?;
    ensure!(sum.starts_with(CSCOPE_SHA256), "{} is not what upstream released: remove it", archive.display());
    for (variant, is_patched) in variants(folder) {
        let _ = fs::remove_dir_all(&variant);
        fs::create_dir_all(&variant)?;
        let mut unpack = Command::new("tar");
        unpack.args(["--extract", "--strip-components=1", "--file"]).arg(&archive);
        done(unpack.arg("--directory").arg(&variant))?;
        let mut configure = Command::new("./configure");
        configure.arg("--quiet");
        if is_patched {
            patch(&variant, &Path::new("examples/cscope/cscope-15.9.patch").canonicalize()?)?;
            let [include, library, path, _] = linking(folder)?.try_into().ok().context("four words")?;
            configure.env("CPPFLAGS", include).env("LDFLAGS", format!("{library} {path}"));
        }
        // It is from before compilers took these for errors.
        configure.env("CFLAGS", "-O2 -w");
        done(configure.current_dir(&variant))?;
        done(Command::new("make").args(["--silent", "--directory"]).arg(variant.join("src")))?;
        fs::copy(variant.join("src/cscope"), variant.join("cscope"))?;
    }
    Ok(())
}

/// The mirror of Debian that this machine uses.
fn mirror() -> Result<String> {
    let sites = shell::output(&["apt-get", "indextargets", "--format", "$(SITE)"])?;
    let site = sites.lines().find(|site| site.ends_with("/debian"));
    Ok(site.context("apt knows no mirror of Debian")?.to_owned())
}

fn patch(folder: &Path, patch: &Path) -> Result<()> {
    let mut command = Command::new("patch");
    done(command.args(["--quiet", "-p1", "--input"]).arg(patch).current_dir(folder))
}

/// Words for a compiler about the library that was built: its header, its folder, and the folder
/// for the program.
pub fn linking(folder: &Path) -> Result<Vec<String>> {
    let built =
        Path::new("target/release/libpantler.so").canonicalize().context("libpantler is not built")?;
    let include = Path::new("bindings/pantler/include").canonicalize()?;
    let library = folder.parent().context("a folder below another")?.join("library");
    fs::create_dir_all(&library)?;
    for name in ["libpantler.so", "libpantler.so.0"] {
        fs::copy(&built, library.join(name))?;
    }
    let library = library.display();
    let words = [
        format!("-I{}", include.display()),
        format!("-L{library}"),
        format!("-Wl,-rpath,{library}"),
        "-lpantler".to_owned(),
    ];
    Ok(words.into())
}
