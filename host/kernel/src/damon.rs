//! Monitors of unused memory (DAMON), which may page out what is cold while memory is not short.

use std::fs;
use std::path::{Path, PathBuf};

/// Where the kernel shows them.
pub const MONITORS: &str = "/sys/kernel/mm/damon/admin/kdamonds";

/// A monitor among these that pages out what is cold.
pub fn that_pages_out(monitors: &Path) -> Option<PathBuf> {
    let names = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let says = |path: &Path, word: &str| fs::read_to_string(path).is_ok_and(|text| text.trim() == word);
    let pages_out = |monitor: &PathBuf| {
        let schemes = names(&monitor.join("contexts")).into_iter().flat_map(|it| names(&it.join("schemes")));
        says(&monitor.join("state"), "on")
            && schemes.into_iter().any(|it| says(&it.join("action"), "pageout"))
    };
    names(monitors).into_iter().find(pages_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_on_and_pages_out_is_found() {
        let root = tempfile::tempdir().expect("a folder");
        let scheme = root.path().join("0/contexts/0/schemes/0");
        fs::create_dir_all(&scheme).expect("made");
        let found = |state: &str, action: &str| {
            fs::write(root.path().join("0/state"), state).expect("written");
            fs::write(scheme.join("action"), action).expect("written");
            that_pages_out(root.path())
        };
        assert_eq!(found("off\n", "pageout\n"), None);
        assert_eq!(found("on\n", "pageout\n"), Some(root.path().join("0")));
        assert_eq!(found("on\n", "stat\n"), None);
        assert_eq!(that_pages_out(Path::new("/nowhere")), None);
    }
}
