//! The files that a process has open, as `/proc` says.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_open_what_it_opened() {
        let (own, program) = (std::process::id(), metadata("/proc/self/exe").expect("a file"));
        let is_program = |dev, ino| (dev, ino) == (kernel_dev(program.dev()), program.ino());
        let _open = std::fs::File::open("/proc/self/exe").expect("opened");
        let opened = opened_by(own).find(|opened| is_program(opened.dev, opened.ino)).expect("it is open");
        let mounts = crate::mount_table::mounts().expect("a table");
        let mount = mount_of(own, opened.number).expect("it lies on a mount");
        assert!(mounts.iter().any(|known| known.id == mount));
    }
}
