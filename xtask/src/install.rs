//! `make install`: the command, and the library for hints of programs.

use anyhow::{Context, Result};
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::shell;

/// Builds and installs into `prefix`.
///
/// # Errors
/// What could not be built or written.
pub fn install(prefix: &str) -> Result<()> {
    shell::run(&["cargo", "build", "--release", "--package", "pantler-cli", "--package", "pantler"])?;
    for (from, to, mode) in [
        ("target/release/pantler", "bin/pantler", 0o755),
        ("target/release/libpantler.so", "lib/libpantler.so.0", 0o755),
        ("target/release/libpantler.a", "lib/libpantler.a", 0o644),
        ("bindings/pantler/include/pantler.h", "include/pantler.h", 0o644),
        ("bindings/pantler/man/pantler.3", "share/man/man3/pantler.3", 0o644),
    ] {
        let bytes = fs::read(from).with_context(|| format!("cannot read {from}"))?;
        put(&Path::new(prefix).join(to), &bytes, mode)?;
    }
    put(&Path::new(prefix).join("lib/pkgconfig/pantler.pc"), package(prefix).as_bytes(), 0o644)?;
    let link = Path::new(prefix).join("lib/libpantler.so");
    match fs::remove_file(&link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => symlink("libpantler.so.0", &link),
    }
    .with_context(|| format!("cannot write {}", link.display()))
}

/// Written beside and renamed over, so that what runs keeps its own file.
fn put(target: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let folder = target.parent().context("a file is in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let fresh = target.with_extension("new");
    fs::write(&fresh, bytes).with_context(|| format!("cannot write {}", fresh.display()))?;
    fs::set_permissions(&fresh, fs::Permissions::from_mode(mode))?;
    fs::rename(&fresh, target).with_context(|| format!("cannot write {}", target.display()))?;
    shell::say(format_args!("installed {}", target.display()));
    Ok(())
}

/// What `pkg-config` says of the library.
fn package(prefix: &str) -> String {
    format!(
        "prefix={prefix}\n\
         Name: pantler\n\
         Description: what a program says about the blocks of its files\n\
         Version: {}\n\
         Cflags: -I${{prefix}}/include\n\
         Libs: -L${{prefix}}/lib -lpantler\n\
         Libs.private: -lpthread -ldl -lm -lgcc_s -lc\n",
        env!("CARGO_PKG_VERSION")
    )
}
