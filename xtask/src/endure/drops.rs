//! Which threads drop pages of one file, as the kernel tells.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The event of a page that leaves the page cache.
const EVENT: &str = "events/filemap/mm_filemap_delete_from_page_cache";
/// Threads of the kernel that reclaim memory by themselves.
const RECLAIM: [&str; 2] = ["kdamond", "kswapd"];

/// A trace instance that is there until this goes out of scope.
pub struct Drops(PathBuf);

impl Drops {
    /// Watches from now on.
    pub fn of(file: &Path) -> Result<Drops> {
        let name = format!("endure-{}", std::process::id());
        let drops = Drops(Path::new("/sys/kernel/tracing/instances").join(name));
        fs::create_dir(&drops.0).context("a trace instance")?;
        let metadata = fs::metadata(file)?;
        let (major, minor) = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
        let filter = format!("i_ino == {} && s_dev == {}", metadata.ino(), major << 20 | minor);
        fs::write(drops.0.join(EVENT).join("filter"), filter)?;
        fs::write(drops.0.join(EVENT).join("enable"), "1")?;
        Ok(drops)
    }

    /// Threads that dropped some, but those that reclaim memory.
    pub fn by(&self) -> Result<Vec<String>> {
        let text = fs::read_to_string(self.0.join("trace"))?;
        let threads = text.lines().filter(|line| !line.starts_with('#')).filter_map(thread);
        let mut others: Vec<_> =
            threads.filter(|name| !RECLAIM.iter().any(|of| name.starts_with(of))).collect();
        others.sort_unstable();
        others.dedup();
        Ok(others.into_iter().map(str::to_owned).collect())
    }
}

/// The thread of a line such as `  steer-read-123  [001] ...`.
fn thread(line: &str) -> Option<&str> {
    Some(line.split_once(" [")?.0.trim())
}

impl Drop for Drops {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
