//! A file of an origin, opened.

use rustix::fs::OFlags;
use rustix::io::Errno;
use std::io::{self, IoSliceMut};

use crate::attributes::Attributes;
use crate::source::Source;
use crate::{LocalFile, StoreFile};

/// How a file is opened: to read, to write or both, whether it is cut, and how far writes wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenMode(OFlags);

impl OpenMode {
    /// For reading.
    pub const READ: Self = Self(OFlags::RDONLY);
    /// For writing.
    pub const WRITE: Self = Self(OFlags::WRONLY);

    /// From the flags of `open`. The writer says whether to append, see
    /// [`LocalFile::write_at`].
    pub fn from_flags(flags: i32) -> Self {
        let kept = OFlags::RWMODE | OFlags::TRUNC | OFlags::SYNC | OFlags::DSYNC;
        let mut flags = OFlags::from_bits_truncate(flags as u32) & kept;
        if flags.contains(OFlags::RWMODE) {
            // All bits of the mode stand for both, too.
            flags.remove(OFlags::WRONLY);
        }
        Self(flags)
    }

    /// Whether it may be read.
    pub fn reads(self) -> bool {
        !self.0.contains(OFlags::WRONLY)
    }

    /// Whether it may be written to.
    pub fn writes(self) -> bool {
        self.0.intersects(OFlags::RWMODE)
    }

    /// Whether opening cuts the file to nothing.
    pub fn truncates(self) -> bool {
        self.0.contains(OFlags::TRUNC)
    }

    pub(crate) fn flags(self) -> OFlags {
        self.0
    }
}

/// A regular file of an origin, open. Objects of a store refuse every change with `EROFS`.
#[derive(Debug)]
pub enum OpenFile {
    /// Of a directory.
    Local(LocalFile),
    /// Of an object store.
    Stored(StoreFile),
}

impl OpenFile {
    /// How it was opened.
    pub fn mode(&self) -> OpenMode {
        self.local().map_or(OpenMode::READ, LocalFile::mode)
    }

    /// What the file is like now. An object never changes: what replaces it is another file.
    pub fn attributes(&self) -> io::Result<Attributes> {
        match self {
            Self::Local(file) => file.attributes(),
            Self::Stored(file) => Ok(file.attributes()),
        }
    }

    /// See [`LocalFile::has_writers`]. Objects have none.
    pub fn has_writers(&self) -> Option<bool> {
        self.local().map_or(Some(false), LocalFile::has_writers)
    }

    /// See [`LocalFile::sync`]. Of an object nothing waits to be written.
    pub fn sync(&self, data_only: bool) -> io::Result<()> {
        self.local().map_or(Ok(()), |file| file.sync(data_only))
    }

    /// See [`LocalFile::flush`]. Of an object nothing waits to be written.
    pub fn flush(&self) -> io::Result<()> {
        self.local().map_or(Ok(()), LocalFile::flush)
    }

    /// See [`LocalFile::seek`]. Objects are data up to their end.
    pub fn seek(&self, offset: u64, hole: bool) -> io::Result<u64> {
        match self {
            Self::Local(file) => file.seek(offset, hole),
            Self::Stored(file) if offset >= file.attributes().size => Err(Errno::NXIO.into()),
            Self::Stored(file) => Ok(if hole { file.attributes().size } else { offset }),
        }
    }

    /// Where on its device the file begins, in bytes, if its file system tells.
    pub fn position(&self) -> Option<u64> {
        self.local().ok()?.position()
    }

    /// Whether anything was written through this open file.
    pub fn wrote(&self) -> bool {
        self.local().is_ok_and(LocalFile::wrote)
    }

    /// The file of a directory, with all that can be done with it; `EROFS` for an object.
    pub fn local(&self) -> io::Result<&LocalFile> {
        match self {
            Self::Local(file) => Ok(file),
            Self::Stored(_) => Err(Errno::ROFS.into()),
        }
    }
}

impl Source for OpenFile {
    fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Self::Local(file) => file.read_at(offset, buffers),
            Self::Stored(file) => file.read_at(offset, buffers),
        }
    }
}
