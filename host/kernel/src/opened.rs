//! The files that a process has open or mapped, as `/proc` says.

use std::fs::{Metadata, metadata, read_dir};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::mount_table::kernel_dev;
use crate::process::read_process;

/// A regular file that a thread has open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedFile {
    /// Its descriptor there.
    pub number: i32,
    /// Leads to it, whatever its own path is now.
    pub link: PathBuf,
    /// Its device, as events write it.
    pub dev: u32,
    /// Its inode.
    pub ino: u64,
}

/// A part of the memory of a process that shows a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedFile {
    /// Its addresses, as `/proc` writes them.
    pub range: String,
    /// The file's device, as events write it.
    pub dev: u32,
    /// The file's inode.
    pub ino: u64,
}

/// The regular files that a thread has open; none when it is gone.
pub fn opened_by(tid: u32) -> impl Iterator<Item = OpenedFile> {
    let links = read_dir(format!("/proc/{tid}/fd")).into_iter().flatten().flatten();
    links.filter_map(|entry| {
        let (number, link) = (entry.file_name().to_str()?.parse().ok()?, entry.path());
        let meta = metadata(&link).ok().filter(Metadata::is_file)?;
        Some(OpenedFile { number, link, dev: kernel_dev(meta.dev()), ino: meta.ino() })
    })
}

/// The number of the mount through which a thread has a descriptor.
pub fn mount_of(tid: u32, number: i32) -> Option<u32> {
    let info = read_process(tid, &format!("fdinfo/{number}")).ok()?;
    info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()
}

/// The files that a process has mapped, by address; none when it is gone.
pub fn mapped_by(tid: u32) -> Vec<MappedFile> {
    read_process(tid, "maps").unwrap_or_default().lines().filter_map(MappedFile::parse).collect()
}

impl MappedFile {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let range = words.next()?;
        let (major, minor) = words.nth(2)?.split_once(':')?;
        let number = |text| u32::from_str_radix(text, 16).ok();
        let (dev, ino) = (number(major)? << 20 | number(minor)?, words.next()?.parse().ok()?);
        (ino > 0).then(|| Self { range: range.to_owned(), dev, ino })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_its_program_mapped_and_what_it_opened_open() {
        let (own, program) = (std::process::id(), metadata("/proc/self/exe").expect("a file"));
        let is_program = |dev, ino| (dev, ino) == (kernel_dev(program.dev()), program.ino());
        assert!(mapped_by(own).iter().any(|mapped| is_program(mapped.dev, mapped.ino)));
        let _open = std::fs::File::open("/proc/self/exe").expect("opened");
        let opened = opened_by(own).find(|opened| is_program(opened.dev, opened.ino)).expect("it is open");
        let mounts = crate::mount_table::mounts().expect("a table");
        let mount = mount_of(own, opened.number).expect("it lies on a mount");
        assert!(mounts.iter().any(|known| known.id == mount));
    }

    #[test]
    fn memory_without_a_file_is_no_mapped_file() {
        let file = "7f00-7f10 r--p 00000000 fd:1a 131 /usr/lib/a b";
        let mapped = MappedFile { range: "7f00-7f10".to_owned(), dev: 0xfd << 20 | 0x1a, ino: 131 };
        assert_eq!(MappedFile::parse(file), Some(mapped));
        assert_eq!(MappedFile::parse("7f00-7f10 rw-p 00000000 00:00 0 [heap]"), None);
        assert_eq!(MappedFile::parse(""), None);
    }
}
