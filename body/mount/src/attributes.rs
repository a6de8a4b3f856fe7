//! Attributes between the origin's words and the kernel's.

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use pantler_origin::{Attributes, Kind, Time};

/// What the kernel is told about inode `number`. The block of a regular file is the cache's:
/// programs choose their buffers by it, and the blocks of temporary priorities are counted in it.
pub(crate) fn to_kernel(attributes: &Attributes, number: u64, block_bytes: usize) -> FileAttr {
    let is_regular = attributes.kind == Kind::Regular;
    FileAttr {
        ino: INodeNo(number),
        size: attributes.size,
        blocks: attributes.blocks,
        atime: attributes.accessed.into(),
        mtime: attributes.modified.into(),
        ctime: attributes.changed.into(),
        crtime: std::time::UNIX_EPOCH,
        kind: file_type(attributes.kind),
        perm: attributes.permissions,
        nlink: attributes.links,
        uid: attributes.uid,
        gid: attributes.gid,
        rdev: device_to_kernel(attributes.rdev),
        blksize: if is_regular { block_bytes as u32 } else { attributes.block_bytes },
        flags: 0,
    }
}

pub(crate) fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::Regular => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharacterDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
    }
}

/// A time to set; `None` inside means now.
pub(crate) fn time(time: TimeOrNow) -> Option<Time> {
    match time {
        TimeOrNow::SpecificTime(time) => Some(time.into()),
        TimeOrNow::Now => None,
    }
}

/// Device numbers travel in the kernel's old 32-bit form: 12 bits of major, 20 of minor.
pub(crate) fn device_from_kernel(device: u32) -> u64 {
    let major = (device & 0xfff00) >> 8;
    let minor = (device & 0xff) | ((device >> 12) & 0xfff00);
    rustix::fs::makedev(major, minor)
}

fn device_to_kernel(device: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & !0xff) << 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_survive_the_way_there_and_back() {
        for (major, minor) in [(1, 3), (8, 17), (254, 300), (4095, 0xf_ffff)] {
            let device = rustix::fs::makedev(major, minor);
            assert_eq!(device_from_kernel(device_to_kernel(device)), device);
        }
    }
}
