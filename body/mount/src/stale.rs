//! Mounts that a crash left behind: the kernel keeps the mount, without a server.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pantler_kernel::mount_table::{MountedAt, mounts};
use pantler_kernel::unserved::unserved;
use rustix::io::Errno;

use crate::MountError;

pub(crate) use pantler_kernel::mount_table::PANTLER_TYPE as FILE_SYSTEM_TYPE;
/// The part of it that is ours.
pub(crate) const SUBTYPE: &str = "pantler";

/// Mount points of ours without a host. Those of live hosts are not asked, so this never waits for
/// one.
///
/// # Errors
/// When the table of mounts cannot be read.
pub fn find() -> io::Result<Vec<PathBuf>> {
    Ok(dead(ours(mounts()?)))
}

/// Unmounts a mount point of ours, whether or not its host can be asked. False when there is none
/// of ours.
///
/// # Errors
/// [`MountError::Unmount`] when the kernel refuses.
pub fn unmount(path: &Path) -> Result<bool, MountError> {
    if !is_mounted(path).map_err(|error| MountError::Unmount { path: path.to_owned(), error })? {
        return Ok(false);
    }
    detach(path).map(|()| true)
}

/// Takes the mount point away: new requests by name do not reach the mount any more. What is not
/// ours stays: unmounting takes whatever lies on top.
pub(crate) fn detach(mountpoint: &Path) -> Result<(), MountError> {
    let failed = |error| MountError::Unmount { path: mountpoint.to_owned(), error };
    match top(mountpoint).map_err(failed)? {
        Top::Ours => {}
        // Not mounted any more: another process was faster.
        Top::Nothing | Top::Strange { above_ours: false } => return Ok(()),
        Top::Strange { above_ours: true } => {
            let text = "something else is mounted over it, which must be unmounted first";
            return Err(failed(io::Error::other(text)));
        }
    }
    match rustix::mount::unmount(mountpoint, rustix::mount::UnmountFlags::DETACH) {
        // Not mounted any more: another process was faster.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        // Without privileges, the helper that mounted also unmounts.
        Err(Errno::PERM) => {
            let helper = std::process::Command::new("fusermount3").arg("-uz").arg(mountpoint).output();
            let helper = helper.map_err(failed)?;
            let said = String::from_utf8_lossy(&helper.stderr).trim().to_owned();
            if helper.status.success() { Ok(()) } else { Err(failed(io::Error::other(said))) }
        }
        Err(error) => Err(failed(error.into())),
    }
}

/// Whether a path is a mount point of ours.
///
/// # Errors
/// When the table of mounts cannot be read.
pub fn is_mounted(path: &Path) -> io::Result<bool> {
    Ok(ours(mounts()?).iter().any(|ours| ours == path))
}

/// What lies on top of a directory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Top {
    /// No mount.
    Nothing,
    /// A mount of ours.
    Ours,
    /// Another mount, perhaps above one of ours.
    Strange { above_ours: bool },
}

/// What unmounting a path would take away.
pub(crate) fn top(path: &Path) -> io::Result<Top> {
    Ok(top_of(mounts()?, path))
}

/// Of several mounts on one directory the last in the table lies on top.
fn top_of(table: Vec<MountedAt>, path: &Path) -> Top {
    let here: Vec<bool> = table.iter().filter(|mount| mount.place == path).map(is_ours).collect();
    match here.last() {
        None => Top::Nothing,
        Some(true) => Top::Ours,
        Some(false) => Top::Strange { above_ours: here.contains(&true) },
    }
}

/// Whether a path is a mount point of ours without a server.
pub fn is_left_behind(path: &Path) -> bool {
    is_mounted(path).is_ok_and(|is_mounted| is_mounted) && !dead(vec![path.to_owned()]).is_empty()
}

/// Ends the mounts that [`find`] finds, and returns their mount points.
///
/// # Errors
/// The first that could not be ended; the others are.
pub fn clean() -> Result<Vec<PathBuf>, MountError> {
    let failed = |path: &Path, error| MountError::Unmount { path: path.to_owned(), error };
    let found = find().map_err(|error| failed(Path::new("/proc/self/mountinfo"), error))?;
    let mut ended = Vec::new();
    let mut first = None;
    for path in found {
        if top(&path).map_err(|error| failed(&path, error))? != Top::Ours {
            continue;
        }
        match rustix::mount::unmount(path.as_path(), rustix::mount::UnmountFlags::DETACH) {
            Ok(()) => ended.push(path),
            // Not mounted any more: another process cleaned up, or its host was just ending.
            Err(Errno::INVAL) => {}
            Err(error) => first = first.or(Some(failed(&path, error.into()))),
        }
    }
    first.map_or(Ok(ended), Err)
}

/// The mount points of all our mounts in a table of mounts.
fn ours(table: Vec<MountedAt>) -> Vec<PathBuf> {
    table.into_iter().filter(is_ours).map(|mount| mount.place).collect()
}

fn is_ours(mount: &MountedAt) -> bool {
    mount.kind == FILE_SYSTEM_TYPE
}

/// How long servers of mounts are waited for. Without a server the kernel answers at once.
const PATIENCE: Duration = Duration::from_millis(500);

/// Those with a connection that has no server.
fn dead(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    unserved(paths, PATIENCE).unwrap_or_else(|error| {
        tracing::debug!(%error, "mounts were not looked at");
        Vec::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantler_kernel::mount_table::parse;

    #[test]
    fn only_our_mounts_are_found() {
        let table = b"1 0 8:1 / / rw - ext4 /dev/vda rw\n2 1 0:4 / /mnt/a\\040b rw - fuse.pantler /data rw\n\
              3 1 0:5 / /mnt/c\xff rw - fuse.sshfs x rw\n";
        assert_eq!(ours(parse(table)), [PathBuf::from("/mnt/a b")]);
        let on = |path: &str| top_of(parse(table), Path::new(path));
        assert_eq!((on("/mnt/a b"), on("/mnt")), (Top::Ours, Top::Nothing));
        assert_eq!(on("/"), Top::Strange { above_ours: false });
        let covered = [&table[..], b"4 2 0:6 / /mnt/a\\040b rw - tmpfs none rw\n"].concat();
        assert_eq!(top_of(parse(&covered), Path::new("/mnt/a b")), Top::Strange { above_ours: true });
    }
}
