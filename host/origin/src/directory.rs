//! A directory of this machine as origin.

use rustix::fs::{Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Look, OriginError, Time, attributes::Attributes};

mod entries;
mod file;
mod foreign;
mod node;
mod past_cache;
mod writers;
mod xattr;

pub use entries::LocalEntries;
pub use file::LocalFile;
pub use node::LocalNode;
pub use writers::has_writers;

/// A directory tree, and what is known about the file system that holds it.
///
/// ```
/// let temporary = std::env::temp_dir();
/// let origin = pantler_origin::Directory::open(&temporary).unwrap();
/// let root = origin.root().unwrap();
/// assert_eq!(root.attributes().unwrap().kind, pantler_origin::Kind::Directory);
/// ```
#[derive(Debug)]
pub struct Directory {
    root: OwnedFd,
    path: PathBuf,
    /// Whether a change after a look always gets a later stamp than the one that was looked at.
    /// Else stamps come from a clock that ticks, and two changes within a tick look the same.
    is_multigrain: bool,
    device: u64,
    avoids_mounts: bool,
}

/// Longest tick of a kernel's coarse clock (10 ms at HZ=100), doubled.
const TICK: Duration = Duration::from_millis(20);

impl Directory {
    /// Opens a directory as origin. Symbolic links in `path` itself are followed: the caller chose
    /// it.
    ///
    /// # Errors
    /// When it is not a directory that this process may look into.
    pub fn open(path: &Path) -> Result<Self, OriginError> {
        let fail =
            |error: rustix::io::Errno| OriginError::Open { path: path.to_owned(), error: error.into() };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty()).map_err(fail)?;
        let stat = rustix::fs::fstatfs(&root).map_err(fail)?;
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let is_multigrain = is_multigrain(stat.f_type as u64, &release);
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let device = rustix::fs::fstat(&root).map_err(fail)?.st_dev;
        Ok(Self { root, path, is_multigrain, device, avoids_mounts: false })
    }

    /// From now on lookups that would enter a mount of Pantler fail with `ELOOP`. A
    /// host of a mount asks for this: a request that enters its own mount, or one with an origin
    /// that leads back, would wait for itself.
    #[must_use]
    pub fn avoiding_mounts(self) -> Self {
        Self { avoids_mounts: true, ..self }
    }

    /// Where it is, for people.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory itself.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn root(&self) -> std::io::Result<LocalNode> {
        Ok(LocalNode::new(self.root.try_clone()?, self.avoids_mounts))
    }

    /// Judges attributes that were just read.
    pub fn look(&self, attributes: &Attributes) -> Look {
        // Below a mount point inside the origin lies another file system, about which nothing is
        // known.
        let never_repeats = self.is_multigrain && attributes.device == self.device;
        let tick = if never_repeats { Duration::ZERO } else { TICK };
        Look::new(attributes.version(), Time::now(), tick)
    }
}

/// Multigrain stamps came with Linux 6.13, for ext4, XFS, btrfs and tmpfs.
fn is_multigrain(file_system: u64, release: &str) -> bool {
    const EXT4: u64 = 0xef53;
    const XFS: u64 = 0x5846_5342;
    const BTRFS: u64 = 0x9123_683e;
    const TMPFS: u64 = 0x0102_1994;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap_or(0));
    let kernel = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    kernel >= (6, 13) && matches!(file_system, EXT4 | XFS | BTRFS | TMPFS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multigrain_needs_kernel_and_file_system() {
        assert!(is_multigrain(0xef53, "6.18.44-x"));
        assert!(!is_multigrain(0xef53, "6.12.1"));
        assert!(!is_multigrain(0x794c_7630, "6.18.44"), "overlayfs");
        assert!(!is_multigrain(0xef53, "nonsense"));
    }

    #[test]
    fn a_file_is_no_origin() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Directory::open(file.path()).unwrap_err().to_string();
        assert!(error.contains("Not a directory"), "{error}");
    }
}
