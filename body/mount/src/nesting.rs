//! Mount points inside their own origin. A walk over such a mount would enter the mount itself,
//! again and again.
//!
//! ```text
//!   origin   mount point      of which
//!   /data    /data/cached     inside by its path
//!   /data    /copy/cached     inside where /copy is a bind mount of /data
//!   /data    /part/cached     inside where /part is a bind mount of /data/part
//!   /data    /data            allowed: the origin is open before it is covered, and no lookup
//!                             leads from it to what covers it
//! ```
//!
//! This is a check of what a user asks for. Mounts that come below an origin later are met by
//! lookups, which refuse it
//! ([`Directory::avoiding_mounts`](pantler_origin::Directory::avoiding_mounts)).
//!
//! Why so: docs/decisions/0066-no-mount-within-itself.md.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pantler_kernel::mount_table::{MountedAt, mounts};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use crate::MountError;

/// Refuses a mount point that is inside the origin by any of its names.
pub(crate) fn check(origin: &Path, mountpoint: &Path) -> Result<(), MountError> {
    // What is not there is refused by what needs it.
    let (Ok(origin), Ok(point)) = (origin.canonicalize(), mountpoint.canonicalize()) else { return Ok(()) };
    if !is_inside(&point, &origin).unwrap_or(false) {
        return Ok(());
    }
    let (point, origin) = (point.display(), origin.display());
    Err(MountError::Option(format!(
        "mount point {point}: it is inside the origin {origin}, so that the mount would show itself: \
         choose one outside, or a smaller origin"
    )))
}

/// Both paths are without links.
fn is_inside(point: &Path, origin: &Path) -> io::Result<bool> {
    let inode = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    let top = inode(origin)?;
    let mut above = point.ancestors().skip(1);
    if above.any(|folder| inode(folder).is_ok_and(|it| it == top)) {
        return Ok(true);
    }
    // A bind mount of a part has the origin above it in the file system, and not on the path.
    let table = mounts()?;
    let places = (OnDevice::of(&table, point)?, OnDevice::of(&table, origin)?);
    Ok(matches!(places, (Some(point), Some(origin)) if point.is_below(&origin)))
}

/// Where a directory is in its file system, whatever part of that is mounted where.
#[derive(Debug, PartialEq, Eq)]
struct OnDevice {
    device: u32,
    path: PathBuf,
}

impl OnDevice {
    fn of(table: &[MountedAt], path: &Path) -> io::Result<Option<OnDevice>> {
        let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
        let stat = statx(CWD, path, flags, StatxFlags::MNT_ID)?;
        // The number came with Linux 5.8. What is mounted is found by lookups on older ones.
        let is_told = stat.stx_mask & StatxFlags::MNT_ID.bits() != 0;
        Ok(is_told.then(|| OnDevice::in_table(table, stat.stx_mnt_id, path)).flatten())
    }

    fn in_table(table: &[MountedAt], number: u64, path: &Path) -> Option<OnDevice> {
        let mount = table.iter().find(|mount| u64::from(mount.id) == number)?;
        Some(OnDevice { device: mount.dev, path: mount.root.join(path.strip_prefix(&mount.place).ok()?) })
    }

    fn is_below(&self, other: &OnDevice) -> bool {
        self.device == other.device && self.path != other.path && self.path.starts_with(&other.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantler_kernel::mount_table::parse;

    #[test]
    fn paths_within_a_file_system_are_found_through_what_is_mounted() {
        let table = parse(
            b"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            30 22 8:1 /data/part /part\\040two rw - ext4 /dev/sda1 rw\n\
            31 22 0:40 / /tmp rw - tmpfs none rw\n",
        );
        let place = |mount, path: &str| OnDevice::in_table(&table, mount, Path::new(path)).unwrap();
        let (data, cached) = (place(22, "/data"), place(30, "/part two/cached"));
        assert_eq!(cached, OnDevice { device: 8 << 20 | 1, path: "/data/part/cached".into() });
        assert!(cached.is_below(&data) && !data.is_below(&cached) && !data.is_below(&data));
        assert!(!place(31, "/tmp/data/x").is_below(&place(22, "/tmp")), "another file system");
        assert_eq!(OnDevice::in_table(&table, 2, Path::new("/data")), None);
    }

    #[test]
    fn inside_is_refused_with_both_paths_and_beside_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().canonicalize().unwrap().join(name);
        fs::create_dir_all(at("o/deep/m")).unwrap();
        fs::create_dir(at("o-beside")).unwrap();
        std::os::unix::fs::symlink(at("o/deep"), at("link")).unwrap();
        for point in ["o/deep/m", "o/deep", "link/m", "link"] {
            let error = check(&at("o"), &at(point)).unwrap_err().to_string();
            let real = at(point).canonicalize().unwrap();
            let expected =
                format!("mount point {}: it is inside the origin {},", real.display(), at("o").display());
            assert!(error.starts_with(&expected), "{error}");
        }
        assert!(check(Path::new("/"), &at("o")).is_err(), "everything is inside the root");
        assert!(check(&at("o"), &at("o-beside")).is_ok());
        assert!(check(&at("o/deep"), &at("o")).is_ok(), "an origin inside the mount point");
        assert!(check(&at("o"), &at("o")).is_ok(), "a directory onto itself");
    }
}
