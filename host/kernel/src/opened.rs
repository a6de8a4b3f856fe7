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

/// The addresses, as `/proc` writes them, of the first mapping of a process that shows the right
/// file, by its device, as events write it, and its inode.
pub fn mapping_of(tid: u32, is_right: impl Fn(u32, u64) -> bool) -> Option<String> {
    let maps = read_process(tid, "maps").ok()?;
    let mut mappings = maps.lines().filter_map(parse_mapping);
    let (range, ..) = mappings.find(|&(_, dev, ino)| is_right(dev, ino))?;
    Some(range.to_owned())
}

/// Addresses, device and inode in a line of `maps`.
fn parse_mapping(line: &str) -> Option<(&str, u32, u64)> {
    let mut words = line.split_ascii_whitespace();
    let range = words.next()?;
    let (major, minor) = words.nth(2)?.split_once(':')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    Some((range, number(major)? << 20 | number(minor)?, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_its_program_mapped_and_what_it_opened_open() {
        let (own, program) = (std::process::id(), metadata("/proc/self/exe").expect("a file"));
        let is_program = |dev, ino| (dev, ino) == (kernel_dev(program.dev()), program.ino());
        assert!(mapping_of(own, is_program).is_some() && mapping_of(own, |_, _| false).is_none());
        let _open = std::fs::File::open("/proc/self/exe").expect("opened");
        let opened = opened_by(own).find(|opened| is_program(opened.dev, opened.ino)).expect("it is open");
        let mounts = crate::mount_table::mounts().expect("a table");
        let mount = mount_of(own, opened.number).expect("it lies on a mount");
        assert!(mounts.iter().any(|known| known.id == mount));
    }

    #[test]
    fn a_mapping_names_device_and_inode() {
        let file = "7f00-7f10 r--p 00000000 fd:1a 131 /usr/lib/a b";
        assert_eq!(parse_mapping(file), Some(("7f00-7f10", 0xfd << 20 | 0x1a, 131)));
        assert_eq!(parse_mapping("7f00-7f10 rw-p 00000000 00:00 0 [heap]"), Some(("7f00-7f10", 0, 0)));
        assert_eq!(parse_mapping(""), None);
    }
}
