//! Where tests and benchmarks find traces that are not part of the project.

use std::io::Write;
use std::path::{Path, PathBuf};

/// A trace by its path among others, such as `arc/OLTP.lis.zst`.
///
/// Looked for in the folder that `PANTLER_TRACES` names, then in `../shared/traces` beside the
/// project. Where it is in neither, the test has to do without, and that is said on standard error
/// past the harness, which keeps to itself what passing tests print. Traces of others cannot be
/// part of the project, so a machine without them lacks nothing. A set `PANTLER_TRACES` says that
/// they are there: then, with `PANTLER_NO_SKIP`, a missing one is a failure.
///
/// # Panics
///
/// With `PANTLER_NO_SKIP`, if `PANTLER_TRACES` names a folder and the trace is nowhere.
pub fn locate(name: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let named = std::env::var_os("PANTLER_TRACES").map(PathBuf::from);
    let folders = named.iter().cloned().chain([beside]);
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    if found.is_none() {
        let test = std::thread::current().name().unwrap_or("?").to_owned();
        // There is no reader when standard error is closed.
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: {test}: no {name} in the folder that PANTLER_TRACES names, or in ../shared/traces"
        );
        let must = named.is_some() && std::env::var_os("PANTLER_NO_SKIP").is_some();
        assert!(!must, "PANTLER_NO_SKIP is set, and the folder that PANTLER_TRACES names has no {name}");
    }
    found
}
