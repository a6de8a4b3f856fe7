//! The tests of the workspace that meet the kernel, as they run in a guest.

use anyhow::{Context, Result};
use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::shell;
use crate::suites::Suite;

/// Suites of the bodies, Dust and the command that meet the kernel, and no other machine.
pub const SUITES: [&str; 20] = [
    "body/steer/end_to_end",
    "body/steer/file_systems",
    "body/steer/lists",
    "body/steer/mapped",
    "body/steer/revocation",
    "body/steer/runs",
    "body/mount/adversary",
    "body/mount/control",
    "body/mount/exerciser",
    "body/mount/lent",
    "body/mount/mappings",
    "body/mount/nesting",
    "body/mount/reads",
    "body/mount/rights",
    "body/mount/semantics",
    "cli/attach",
    "cli/daemon",
    "cli/mount_points",
    "cli/run",
    "lab/dust/page_cache",
];

/// Puts suites below `folder`, where the guest finds them: each executable at its place in the
/// tree, the command that they start, and a line for each suite.
pub fn place(suites: &[Suite], command: Option<&str>, folder: &Path) -> Result<()> {
    let root = std::env::current_dir()?;
    let tree = folder.join("tree");
    let copy = |from: &Path| -> Result<()> {
        let to = tree.join(from.strip_prefix(&root).context("built outside of the tree")?);
        fs::create_dir_all(to.parent().context("a file")?)?;
        fs::copy(from, to).with_context(|| from.display().to_string())?;
        Ok(())
    };
    if let Some(command) = command {
        copy(&root.join(command))?;
    }
    fs::create_dir_all(tree.join("target/tmp"))?;
    // What tests read of the tree.
    let place = tree.to_string_lossy();
    shell::run(&["cp", "-r", "--parents", "docs", "body/mount/tests", "profiles", &place])?;
    let mut lines = String::new();
    for Suite { name, executable, .. } in suites {
        copy(executable)?;
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        // Tests know that it is there.
        copy(&root.join(folder).join("Cargo.toml"))?;
        writeln!(lines, "{name} {}", executable.display())?;
    }
    fs::write(folder.join("suites"), lines)?;
    fs::write(folder.join("place"), root.to_string_lossy().as_bytes())?;
    Ok(())
}
