//! Building and copying the command.

use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::shell;

/// Builds `pantler` in release mode and copies it to `PREFIX/bin`.
pub fn install(prefix: &str) -> Result<()> {
    shell::run(&["cargo", "build", "--release", "--package", "pantler-cli"])?;
    let folder = Path::new(prefix).join("bin");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let target = folder.join("pantler");
    // Copied beside and renamed over, so that a running daemon keeps its own file.
    let fresh = folder.join(".pantler.new");
    fs::copy("target/release/pantler", &fresh)
        .with_context(|| format!("cannot write {}", fresh.display()))?;
    fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755))?;
    fs::rename(&fresh, &target).with_context(|| format!("cannot write {}", target.display()))?;
    shell::say(format_args!("installed {}", target.display()));
    Ok(())
}
