//! One inode of a directory and everything that can be done with it.

use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::{LocalEntries, LocalFile, foreign};
use crate::OpenMode;
use crate::Time;
use crate::attributes::{Attributes, Changes, Kind};

/// A descriptor of one inode. It stays that inode whatever happens to its names.
///
/// Operations act with the rights of the thread, see [`Caller::act`](crate::Caller::act). Names are
/// single components: one with a slash, `.` or `..` is refused with `EINVAL`.
#[derive(Debug)]
pub struct LocalNode {
    fd: OwnedFd,
    /// See [`Directory::avoiding_mounts`](crate::Directory::avoiding_mounts).
    avoids_mounts: bool,
}

impl LocalNode {
    pub(crate) fn new(fd: OwnedFd, avoids_mounts: bool) -> Self {
        Self { fd, avoids_mounts }
    }

    /// What the file is like now.
    pub fn attributes(&self) -> io::Result<Attributes> {
        Attributes::of(self.fd.as_fd())
    }

    /// The inode that `name` names in this directory. A symbolic link is itself, not what it points
    /// to.
    ///
    /// # Errors
    /// The system's: `ENOENT`, `EACCES` and so on. `ELOOP` for a mount that this origin avoids.
    pub fn lookup(&self, name: &OsStr) -> io::Result<LocalNode> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |resolve| self.open_beneath(name, flags, Mode::empty(), resolve);
        let fd = match open(self.bounds()) {
            Err(error) if self.meets_mount(&error) => {
                // What was checked is what is used: the name may lead elsewhere a moment later.
                let fd = open(ResolveFlags::empty())?;
                if foreign::is_pantler(fd.as_fd())? {
                    return Err(Errno::LOOP.into());
                }
                fd
            }
            opened => opened?,
        };
        Ok(Self::new(fd, self.avoids_mounts))
    }

    /// Where paths may lead at first. Crossing into another mount is looked at before it is done.
    fn bounds(&self) -> ResolveFlags {
        if self.avoids_mounts { ResolveFlags::NO_XDEV } else { ResolveFlags::empty() }
    }

    /// Whether an error of an opening within [`bounds`](Self::bounds) says that something is
    /// mounted on the name.
    fn meets_mount(&self, error: &io::Error) -> bool {
        self.avoids_mounts && error.raw_os_error() == Some(Errno::XDEV.raw_os_error())
    }

    /// Opens a regular file.
    ///
    /// # Errors
    /// The system's; `EISDIR` for a directory, `EINVAL` for what has no bytes of its own.
    pub fn open(&self, mode: OpenMode) -> io::Result<LocalFile> {
        match self.attributes()?.kind {
            Kind::Regular => {}
            Kind::Directory => return Err(Errno::ISDIR.into()),
            Kind::Symlink => return Err(Errno::LOOP.into()),
            _ => return Err(Errno::INVAL.into()),
        }
        let fd = rustix::fs::open(self.own_path(), mode.flags() | OFlags::CLOEXEC, Mode::empty())?;
        Ok(LocalFile::new(fd.into(), mode))
    }

    /// Checks that this file may be run with the rights of the thread.
    ///
    /// # Errors
    /// The system's; `EACCES` when it may not.
    pub fn check_executable(&self) -> io::Result<()> {
        let (access, flags) = (Access::EXEC_OK, AtFlags::EACCESS);
        Ok(rustix::fs::accessat(rustix::fs::CWD, self.own_path(), access, flags)?)
    }

    /// Opens this directory for listing.
    pub fn entries(&self) -> io::Result<LocalEntries> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(LocalEntries::new(rustix::fs::open(self.own_path(), flags, Mode::empty())?))
    }

    /// Creates and opens a regular file in this directory; with `exclusive`, only if the name is
    /// free.
    pub fn create(
        &self,
        name: &OsStr,
        permissions: u32,
        mode: OpenMode,
        exclusive: bool,
    ) -> io::Result<(LocalNode, LocalFile)> {
        let mut flags = mode.flags() | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        flags.set(OFlags::EXCL, exclusive);
        let permissions = Mode::from_raw_mode(permissions & 0o7777);
        let fd = match self.open_beneath(name, flags, permissions, ResolveFlags::NO_SYMLINKS | self.bounds())
        {
            Err(error) if self.meets_mount(&error) => {
                let node = self.lookup(name)?;
                if exclusive {
                    return Err(Errno::EXIST.into());
                }
                let file = node.open(mode)?;
                return Ok((node, file));
            }
            opened => opened?,
        };
        let attributes = Attributes::of(fd.as_fd())?;
        if attributes.kind != Kind::Regular {
            return Err(Errno::INVAL.into());
        }
        let node = Self::new(reopen_path(fd.as_fd())?, self.avoids_mounts);
        Ok((node, LocalFile::new(fd.into(), mode)))
    }

    /// Creates a file of any type but directory and link. `rdev` counts for device files.
    pub fn make(&self, name: &OsStr, mode: u32, rdev: u64) -> io::Result<LocalNode> {
        check_name(name)?;
        let permissions = Mode::from_raw_mode(mode & 0o7777);
        rustix::fs::mknodat(&self.fd, name, FileType::from_raw_mode(mode), permissions, rdev)?;
        self.lookup(name)
    }

    /// Creates a directory.
    pub fn make_directory(&self, name: &OsStr, mode: u32) -> io::Result<LocalNode> {
        check_name(name)?;
        rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(mode & 0o7777))?;
        self.lookup(name)
    }

    /// Creates a symbolic link with the text `target`, which is not looked at.
    pub fn make_symlink(&self, name: &OsStr, target: &OsStr) -> io::Result<LocalNode> {
        check_name(name)?;
        rustix::fs::symlinkat(target, &self.fd, name)?;
        self.lookup(name)
    }

    /// Gives the file a further name in `directory`.
    pub fn link(&self, directory: &LocalNode, name: &OsStr) -> io::Result<()> {
        check_name(name)?;
        // By way of /proc, because AT_EMPTY_PATH asks for a privilege that the caller need not
        // have.
        let flags = AtFlags::SYMLINK_FOLLOW;
        Ok(rustix::fs::linkat(rustix::fs::CWD, self.own_path(), &directory.fd, name, flags)?)
    }

    /// Removes a name of a file that is no directory.
    pub fn unlink(&self, name: &OsStr) -> io::Result<()> {
        check_name(name)?;
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Removes an empty directory.
    pub fn remove_directory(&self, name: &OsStr) -> io::Result<()> {
        check_name(name)?;
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }

    /// Renames an entry of this directory. `flags` are those of `renameat2`.
    ///
    /// # Errors
    /// The system's; `EINVAL` for unknown flags.
    pub fn rename(&self, name: &OsStr, to: &LocalNode, to_name: &OsStr, flags: u32) -> io::Result<()> {
        check_name(name)?;
        check_name(to_name)?;
        let flags = RenameFlags::from_bits(flags).ok_or(Errno::INVAL)?;
        Ok(rustix::fs::renameat_with(&self.fd, name, &to.fd, to_name, flags)?)
    }

    /// The text of a symbolic link.
    ///
    /// # Errors
    /// The system's; `EINVAL` for what is no link.
    pub fn read_link(&self) -> io::Result<OsString> {
        let text = rustix::fs::readlinkat(&self.fd, c"", Vec::new())?;
        Ok(OsString::from_vec(text.into_bytes()))
    }

    /// Changes attributes, in the order owner, permissions, size, times. The size is changed by
    /// `open`, when given: a process that opened a file for writing may truncate it even if its
    /// permissions have changed since.
    ///
    /// # Errors
    /// The system's, of the first change that failed; the ones before it have happened.
    pub fn change(&self, changes: &Changes, open: Option<&LocalFile>) -> io::Result<()> {
        if changes.uid.is_some() || changes.gid.is_some() {
            let uid = changes.uid.map(rustix::fs::Uid::from_raw);
            let gid = changes.gid.map(rustix::fs::Gid::from_raw);
            rustix::fs::chownat(&self.fd, c"", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        if let Some(permissions) = changes.permissions {
            rustix::fs::chmod(self.own_path(), Mode::from_raw_mode(permissions & 0o7777))?;
        }
        if let Some(size) = changes.size {
            match open {
                Some(file) => file.set_len(size)?,
                None => self.truncate(size)?,
            }
        }
        if changes.accessed.is_some() || changes.modified.is_some() {
            let (last_access, last_modification) = (timespec(changes.accessed), timespec(changes.modified));
            let times = rustix::fs::Timestamps { last_access, last_modification };
            rustix::fs::utimensat(&self.fd, c"", &times, AtFlags::EMPTY_PATH)?;
        }
        Ok(())
    }

    /// Size, free space and limits of the file system.
    pub fn file_system(&self) -> io::Result<rustix::fs::StatVfs> {
        Ok(rustix::fs::fstatvfs(&self.fd)?)
    }

    /// Where it is now, by the name by which it was found; none for a file without name.
    pub fn path(&self) -> Option<std::path::PathBuf> {
        std::fs::read_link(std::path::Path::new(OsStr::from_bytes(self.own_path().as_bytes()))).ok()
    }

    /// A name for this inode that the kernel resolves to it and nothing else.
    pub(crate) fn own_path(&self) -> CString {
        CString::new(format!("/proc/self/fd/{}", self.fd.as_raw_fd())).expect("digits hold no zero byte")
    }

    fn open_beneath(
        &self,
        name: &OsStr,
        flags: OFlags,
        mode: Mode,
        resolve: ResolveFlags,
    ) -> io::Result<OwnedFd> {
        check_name(name)?;
        let resolve = resolve | ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        loop {
            // EAGAIN: a rename elsewhere raced with the check that the path stays beneath.
            match rustix::fs::openat2(&self.fd, name, flags, mode, resolve) {
                Err(Errno::AGAIN | Errno::INTR) => continue,
                result => return Ok(result?),
            }
        }
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        let size = libc::off_t::try_from(size).map_err(|_| Errno::FBIG)?;
        // SAFETY: the path is a string that ends in a zero byte and outlives the call.
        let result = unsafe { libc::truncate(self.own_path().as_ptr(), size) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

impl AsFd for LocalNode {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn reopen_path(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

fn check_name(name: &OsStr) -> io::Result<()> {
    let bytes = name.as_bytes();
    let refused = bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.contains(&b'/');
    if refused { Err(Errno::INVAL.into()) } else { Ok(()) }
}

fn timespec(time: Option<Option<Time>>) -> rustix::fs::Timespec {
    let (seconds, nanoseconds) = match time {
        None => (0, rustix::fs::UTIME_OMIT),
        Some(None) => (0, rustix::fs::UTIME_NOW),
        Some(Some(time)) => (time.seconds, time.nanoseconds.into()),
    };
    rustix::fs::Timespec { tv_sec: seconds, tv_nsec: nanoseconds }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Directory;

    fn scratch() -> (tempfile::TempDir, LocalNode) {
        let folder = tempfile::tempdir().unwrap();
        let root = Directory::open(folder.path()).unwrap().root().unwrap();
        (folder, root)
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let (_folder, root) = scratch();
        for name in ["", ".", "..", "a/b", "/etc/passwd", "../x"] {
            let error = root.lookup(OsStr::new(name)).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{name:?}");
        }
    }

    #[test]
    fn a_symlink_is_itself_and_cannot_be_opened() {
        let (_folder, root) = scratch();
        let link = root.make_symlink(OsStr::new("l"), OsStr::new("/etc/passwd")).unwrap();
        assert_eq!(link.attributes().unwrap().kind, Kind::Symlink);
        assert_eq!(link.read_link().unwrap(), "/etc/passwd");
        assert_eq!(link.open(OpenMode::READ).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        let error = root.create(OsStr::new("l"), 0o600, OpenMode::WRITE, false).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ELOOP), "creating must not follow it either");
    }

    #[test]
    fn a_node_outlives_its_name() {
        let (_folder, root) = scratch();
        let (node, file) =
            root.create(OsStr::new("f"), 0o644, OpenMode::from_flags(libc::O_RDWR), true).unwrap();
        file.write_at(0, b"hello", false).unwrap();
        root.unlink(OsStr::new("f")).unwrap();
        assert_eq!(node.attributes().unwrap().size, 5);
        assert_eq!(node.attributes().unwrap().links, 0);
    }

    #[test]
    fn changes_arrive() {
        let (_folder, root) = scratch();
        let (node, _) = root.create(OsStr::new("f"), 0o644, OpenMode::WRITE, true).unwrap();
        let time = Time { seconds: 77, nanoseconds: 5 };
        let changes = Changes {
            permissions: Some(0o600),
            size: Some(10_000),
            modified: Some(Some(time)),
            ..Changes::default()
        };
        node.change(&changes, None).unwrap();
        let attributes = node.attributes().unwrap();
        assert_eq!((attributes.permissions, attributes.size, attributes.modified), (0o600, 10_000, time));
    }
}
