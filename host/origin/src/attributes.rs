//! What a file is like, and what may be changed about it.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, StatxFlags};

use crate::time::Time;
use crate::version::{Tag, Version};

/// The type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Kind {
    #[default]
    Regular,
    Directory,
    Symlink,
    Fifo,
    Socket,
    CharacterDevice,
    BlockDevice,
}

impl Kind {
    /// From the type bits of a mode; `None` for bits that mean nothing.
    pub fn from_mode(mode: u32) -> Option<Self> {
        Some(match mode & libc::S_IFMT {
            libc::S_IFREG => Self::Regular,
            libc::S_IFDIR => Self::Directory,
            libc::S_IFLNK => Self::Symlink,
            libc::S_IFIFO => Self::Fifo,
            libc::S_IFSOCK => Self::Socket,
            libc::S_IFCHR => Self::CharacterDevice,
            libc::S_IFBLK => Self::BlockDevice,
            _ => return None,
        })
    }
}

const STAT: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// Everything `stat` tells about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes {
    /// Device of the file system that holds the file.
    pub device: u64,
    /// Inode number there.
    pub inode: u64,
    /// Type.
    pub kind: Kind,
    /// Permission bits, with set-id and sticky bits.
    pub permissions: u16,
    /// Number of names.
    pub links: u32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device file, as `mknod` takes it.
    pub rdev: u64,
    /// Size in bytes.
    pub size: u64,
    /// Allocated, in units of 512 bytes.
    pub blocks: u64,
    /// Preferred I/O size in bytes.
    pub block_bytes: u32,
    /// Birth, where known.
    pub born: Option<Time>,
    /// Last access.
    pub accessed: Time,
    /// Last change of the content.
    pub modified: Time,
    /// Last change of anything.
    pub changed: Time,
    /// What an object store calls this version of the file.
    pub tag: Option<Tag>,
}

impl Attributes {
    /// What an open file is like now.
    pub fn of(file: BorrowedFd<'_>) -> io::Result<Self> {
        let stat = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW, STAT)?;
        Ok(Self::from(&stat))
    }

    /// The version of the file these attributes belong to.
    pub fn version(&self) -> Version {
        Version {
            device: self.device,
            inode: self.inode,
            born: self.born,
            size: self.size,
            modified: self.modified,
            changed: self.changed,
            tag: self.tag,
        }
    }
}

impl From<&rustix::fs::Statx> for Attributes {
    fn from(stat: &rustix::fs::Statx) -> Self {
        let time = |t: &rustix::fs::StatxTimestamp| Time { seconds: t.tv_sec, nanoseconds: t.tv_nsec };
        let has_birth = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
        let mode = u32::from(stat.stx_mode);
        Self {
            device: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            kind: Kind::from_mode(mode).unwrap_or_default(),
            permissions: (mode & 0o7777) as u16,
            links: stat.stx_nlink,
            uid: stat.stx_uid,
            gid: stat.stx_gid,
            rdev: rustix::fs::makedev(stat.stx_rdev_major, stat.stx_rdev_minor),
            size: stat.stx_size,
            blocks: stat.stx_blocks,
            block_bytes: stat.stx_blksize,
            born: has_birth.then(|| time(&stat.stx_btime)),
            accessed: time(&stat.stx_atime),
            modified: time(&stat.stx_mtime),
            changed: time(&stat.stx_ctime),
            tag: None,
        }
    }
}

/// What to change about a file; `None` leaves it alone. The inner `None` of a time means *now*.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "named as in `Attributes`")]
pub struct Changes {
    pub permissions: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub accessed: Option<Option<Time>>,
    pub modified: Option<Option<Time>>,
}
