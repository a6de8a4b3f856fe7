//! A file of an origin, opened.

use rustix::fs::OFlags;
use rustix::io::Errno;
use std::io::{self, IoSliceMut};

use crate::attributes::Attributes;
use crate::source::Source;
use crate::{LocalFile, StoreFile};

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenMode {
    read: bool,
    write: bool,
    truncate: bool,
    sync: OFlags,
}

impl OpenMode {
    /// For reading.
    pub const READ: Self = Self { read: true, write: false, truncate: false, sync: OFlags::empty() };
    /// For writing.
    pub const WRITE: Self = Self { read: false, write: true, truncate: false, sync: OFlags::empty() };
    /// For both.
    pub const READ_WRITE: Self = Self { read: true, write: true, truncate: false, sync: OFlags::empty() };

    /// From the flags of `open`. The writer says whether to append, see
    /// [`LocalFile::write_at`].
    pub fn from_flags(flags: i32) -> Self {
        let (read, write) = match flags & libc::O_ACCMODE {
            libc::O_RDONLY => (true, false),
            libc::O_WRONLY => (false, true),
            _ => (true, true),
        };
        let sync = OFlags::from_bits_truncate(flags as u32) & (OFlags::SYNC | OFlags::DSYNC);
        Self { read, write, truncate: flags & libc::O_TRUNC != 0, sync }
    }

    /// Whether it may be read.
    pub fn reads(self) -> bool {
        self.read
    }

    /// Whether it may be written to.
    pub fn writes(self) -> bool {
        self.write
    }

    /// Whether opening cuts the file to nothing.
    pub fn truncates(self) -> bool {
        self.truncate
    }

    pub(crate) fn flags(self) -> OFlags {
        let access = match (self.read, self.write) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            _ => OFlags::RDONLY,
        };
        let truncate = if self.truncate { OFlags::TRUNC } else { OFlags::empty() };
        access | truncate | self.sync
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

    /// Makes what was written safe against power failure; with `data_only`, leaves out times.
    ///
    /// # Errors
    /// The system's: also of earlier writes that failed on their way to the device.
    pub fn sync(&self, data_only: bool) -> io::Result<()> {
        self.local().map_or(Ok(()), |file| file.sync(data_only))
    }

    /// Reports errors of earlier writes without waiting for the device, as closing a file does.
    pub fn flush(&self) -> io::Result<()> {
        self.local().map_or(Ok(()), LocalFile::flush)
    }

    /// Where the next data (or, with `hole`, the next hole) begins at or after `offset`. Objects
    /// are data up to their end.
    ///
    /// # Errors
    /// The system's; `ENXIO` when there is none.
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
