//! What the kernel knows of a FUSE mount's requests, without asking the process that serves it.
//!
//! `/sys/fs/fuse/connections/N` is of the mount with device 0:N: `waiting` counts requests without
//! an answer, and writing to `abort` ends them. Where that file system is not mounted, root reaches
//! it without mounting it anywhere.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, openat, statx};

/// Where the file system of connections usually is.
const USUAL: &str = "/sys/fs/fuse/connections";
/// How often the number of waiting requests is read.
const LOOK: Duration = Duration::from_millis(5);

/// One mount's connection to the process that serves it. It may outlive the mount point.
#[derive(Debug)]
pub struct Connection {
    /// Its own folder, open: the number is given to another mount once this one is gone.
    folder: OwnedFd,
}

impl Connection {
    /// The connection of what is mounted at `path`.
    ///
    /// # Errors
    /// The system's, where the file system of connections cannot be reached.
    pub fn of(path: &Path) -> io::Result<Connection> {
        // As for mounts below an origin: what the kernel knows, so that no server is asked.
        let stat = statx(CWD, path, AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT, StatxFlags::empty())?;
        if stat.stx_dev_major != 0 {
            return Err(io::Error::new(io::ErrorKind::NotFound, "not a FUSE mount"));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(connections()?, stat.stx_dev_minor.to_string(), flags, Mode::empty())?;
        Ok(Connection { folder })
    }

    /// Requests without an answer; nothing once the kernel has let go of the connection.
    pub fn waiting(&self) -> Option<u64> {
        let mut text = String::new();
        self.file("waiting", OFlags::RDONLY).ok()?.read_to_string(&mut text).ok()?;
        text.trim().parse().ok()
    }

    /// Waits until no request is without an answer, at most for `limit`. Says whether that is so.
    pub fn drained(&self, limit: Duration) -> bool {
        let start = Instant::now();
        while self.waiting().is_some_and(|count| count > 0) {
            if start.elapsed() > limit {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        true
    }

    /// Ends every request with an error, now and later.
    ///
    /// # Errors
    /// The system's; the connection is open to the user that mounted and to root.
    pub fn abort(&self) -> io::Result<()> {
        self.file("abort", OFlags::WRONLY)?.write_all(b"1")
    }

    fn file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        Ok(openat(&self.folder, name, flags | OFlags::CLOEXEC, Mode::empty())?.into())
    }
}

/// The folder of all connections.
fn connections() -> io::Result<OwnedFd> {
    use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
    if fs::read_dir(USUAL).is_ok_and(|mut entries| entries.next().is_some()) {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        return Ok(openat(CWD, USUAL, flags, Mode::empty())?);
    }
    // Not mounted, or no connection in it.
    let fresh = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&fresh)?;
    Ok(fsmount(&fresh, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}
