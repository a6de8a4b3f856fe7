//! One inode of an origin, whatever that is.

use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use crate::attributes::Attributes;
use crate::{Entries, LocalNode, OpenFile, OpenMode, StoreNode};

/// One inode. See [`LocalNode`] for what each call does. Objects of a store refuse every change
/// with `EROFS`.
#[derive(Debug)]
pub enum Node {
    /// Of a directory.
    Local(LocalNode),
    /// Of an object store.
    Stored(StoreNode),
}

#[allow(missing_docs, reason = "see `LocalNode`")]
#[allow(clippy::missing_errors_doc, reason = "the system's, as for `LocalNode`")]
impl Node {
    pub fn attributes(&self) -> io::Result<Attributes> {
        match self {
            Self::Local(node) => node.attributes(),
            Self::Stored(node) => Ok(node.attributes()),
        }
    }

    pub fn lookup(&self, name: &OsStr) -> io::Result<Node> {
        match self {
            Self::Local(node) => node.lookup(name).map(Self::Local),
            Self::Stored(node) => node.lookup(name).map(Self::Stored),
        }
    }

    pub fn open(&self, mode: OpenMode) -> io::Result<OpenFile> {
        match self {
            Self::Local(node) => node.open(mode).map(OpenFile::Local),
            Self::Stored(node) => node.open(mode).map(OpenFile::Stored),
        }
    }

    pub fn check_executable(&self) -> io::Result<()> {
        // A store knows no users: the kernel looked at the permissions that are shown.
        self.local().map_or(Ok(()), LocalNode::check_executable)
    }

    pub fn entries(&self) -> io::Result<Entries> {
        match self {
            Self::Local(node) => node.entries().map(Entries::Local),
            Self::Stored(node) => node.entries().map(Entries::Stored),
        }
    }

    pub fn create(
        &self,
        name: &OsStr,
        permissions: u32,
        mode: OpenMode,
        exclusive: bool,
    ) -> io::Result<(Node, OpenFile)> {
        let (node, file) = self.local()?.create(name, permissions, mode, exclusive)?;
        Ok((Self::Local(node), OpenFile::Local(file)))
    }

    pub fn make(&self, name: &OsStr, mode: u32, rdev: u64) -> io::Result<Node> {
        self.local()?.make(name, mode, rdev).map(Self::Local)
    }

    pub fn make_directory(&self, name: &OsStr, mode: u32) -> io::Result<Node> {
        self.local()?.make_directory(name, mode).map(Self::Local)
    }

    pub fn make_symlink(&self, name: &OsStr, target: &OsStr) -> io::Result<Node> {
        self.local()?.make_symlink(name, target).map(Self::Local)
    }

    pub fn read_link(&self) -> io::Result<OsString> {
        self.local().map_err(|_| Errno::INVAL)?.read_link()
    }

    pub fn file_system(&self) -> io::Result<rustix::fs::StatVfs> {
        match self {
            Self::Local(node) => node.file_system(),
            Self::Stored(node) => Ok(node.file_system()),
        }
    }

    pub fn xattr(&self, name: &OsStr) -> io::Result<Vec<u8>> {
        self.local().map_err(|_| Errno::NODATA)?.xattr(name)
    }

    pub fn xattr_names(&self) -> io::Result<Vec<u8>> {
        self.local().map_or(Ok(Vec::new()), LocalNode::xattr_names)
    }

    /// The path below the origin with the root `root`. Of a file with several names it is the one
    /// by which it was found; a file without name has none.
    pub fn path_below(&self, root: &Path) -> Option<PathBuf> {
        match self {
            Self::Local(node) => Some(node.path()?.strip_prefix(root).ok()?.to_owned()),
            Self::Stored(node) => Some(node.path().into()),
        }
    }

    /// The inode of a directory, with all that can be done with it; `EROFS` for an object.
    pub fn local(&self) -> io::Result<&LocalNode> {
        match self {
            Self::Local(node) => Ok(node),
            Self::Stored(_) => Err(Errno::ROFS.into()),
        }
    }
}
