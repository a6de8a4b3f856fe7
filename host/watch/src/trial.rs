//! A read of our own, by which a kernel shows how it writes down where reads end.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use crate::error::WatchError;
use crate::feed::Feed;
use crate::{Kind, Told};

/// Reads one page of a file of our own, whose events must be on; returns the file's inode.
///
/// # Errors
/// The file cannot be read.
pub fn read() -> Result<u64, WatchError> {
    let path = Path::new("/proc/self/exe");
    let failed = |error| WatchError::file("read", path, error);
    let file = fs::File::open(path).map_err(failed)?;
    file.read_at(&mut [0], 0).map_err(failed)?;
    Ok(file.metadata().map_err(failed)?.ino())
}

/// Takes the event of that read, and notes whether it ends after its last page.
///
/// # Errors
/// The events cannot be read.
pub fn take(feed: &mut Feed, inode: u64) -> Result<(), WatchError> {
    let mut ends_after = false;
    feed.round(|told| {
        let Told::Pages(event) = told else { return };
        ends_after |= event.kind == Kind::Read && event.ino == inode && event.first == 0 && event.last == 1;
    })?;
    if ends_after {
        feed.reads_end_after();
    }
    Ok(())
}
