//! What a file is like, and what may be changed about it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::version::{Tag, Version};

/// A point in time as file systems keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Time {
    /// Seconds since 1970; negative before.
    pub seconds: i64,
    /// Nanoseconds within the second, below 1,000,000,000.
    pub nanoseconds: u32,
}

impl Time {
    /// The wall clock now.
    pub fn now() -> Self {
        SystemTime::now().into()
    }

    /// This time and `more`, saturating.
    pub fn plus(self, more: Duration) -> Self {
        let nanoseconds = self.nanoseconds + more.subsec_nanos();
        let carry = i64::from(nanoseconds / 1_000_000_000);
        let seconds = i64::try_from(more.as_secs()).unwrap_or(i64::MAX);
        Self {
            seconds: self.seconds.saturating_add(seconds).saturating_add(carry),
            nanoseconds: nanoseconds % 1_000_000_000,
        }
    }
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self { seconds: after.as_secs() as i64, nanoseconds: after.subsec_nanos() },
            Err(error) => {
                let before = error.duration();
                let borrow = i64::from(before.subsec_nanos() > 0);
                let nanoseconds = (1_000_000_000 - before.subsec_nanos()) % 1_000_000_000;
                Self { seconds: -(before.as_secs() as i64) - borrow, nanoseconds }
            }
        }
    }
}

impl From<Time> for SystemTime {
    fn from(time: Time) -> Self {
        let whole = Duration::from_secs(time.seconds.unsigned_abs());
        let base =
            if time.seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
        base.and_then(|base| base.checked_add(Duration::from_nanos(u64::from(time.nanoseconds))))
            .unwrap_or(UNIX_EPOCH)
    }
}

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
    ///
    /// # Errors
    /// The system's.
    pub fn of(file: std::os::fd::BorrowedFd<'_>) -> std::io::Result<Self> {
        crate::directory::attributes_of(file)
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
        let has_birth = stat.stx_mask & rustix::fs::StatxFlags::BTIME.bits() != 0;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_the_way_there_and_back() {
        for (seconds, nanoseconds) in [(0, 0), (5, 999_999_999), (-1, 1), (-1, 0), (1 << 33, 7)] {
            let time = Time { seconds, nanoseconds };
            assert_eq!(Time::from(SystemTime::from(time)), time);
        }
    }

    #[test]
    fn adding_carries() {
        let time = Time { seconds: 1, nanoseconds: 900_000_000 }.plus(Duration::from_millis(200));
        assert_eq!(time, Time { seconds: 2, nanoseconds: 100_000_000 });
    }
}
