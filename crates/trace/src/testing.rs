//! Where tests and benchmarks find traces that are not part of the project.

use std::path::{Path, PathBuf};

/// A trace by its path among others, such as `arc/OLTP.lis.zst`.
///
/// Looked for in the folder that `PANTLER_TRACES` names, then in `../shared/traces` beside the project. Where it is in
/// neither, that is said on standard error, and the test has to do without.
pub fn locate(name: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let folders = std::env::var_os("PANTLER_TRACES").map(PathBuf::from).into_iter().chain([beside]);
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    if found.is_none() {
        eprintln!("SKIPPED: no trace {name} in PANTLER_TRACES or ../shared/traces");
    }
    found
}
