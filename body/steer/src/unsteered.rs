//! Files on which steering has no effect: the run says so, once.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;

use pantler_kernel::mount_table::MountedAt;
use rustix::fs::FileType;

use crate::files::devices::Devices;

/// A smaller file is not worth a word: scripts, libraries.
const SIZE_BYTES_MIN: u64 = 1 << 20;

/// Looks at files until one was found on which steering has no effect.
#[derive(Debug, Default)]
pub(crate) struct Lookout {
    devices: Devices,
    told: bool,
}

impl Lookout {
    /// What to say about an open file or directory, if steering has no effect there and nothing was
    /// said yet.
    pub fn look_at(&mut self, file: BorrowedFd<'_>, path: &Path) -> Option<String> {
        if self.told || !is_worth_a_word(file) {
            return None;
        }
        let mount = self.devices.mount_of_descriptor(std::process::id(), file.as_raw_fd())?.clone();
        let why = self.why(&mount, file)?;
        self.told = true;
        Some(format!("{}: {} is {why}", path.display(), mount.place.display()))
    }

    fn why(&mut self, mount: &MountedAt, file: BorrowedFd<'_>) -> Option<String> {
        match mount.kind.as_str() {
            kind @ ("tmpfs" | "ramfs" | "hugetlbfs" | "devtmpfs") => {
                Some(format!("{kind}, which is memory itself: nothing there is steered or counted"))
            }
            "zfs" => Some("zfs, which caches by itself: nothing there is steered or counted".to_owned()),
            "overlay" if is_regular(file) && self.devices.named_by_events(file).is_none() => Some(
                "an overlay, and the files below it cannot be found: rules of profiles about paths do not apply \
                 there, and the kernel reads ahead beyond the budget"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

fn is_regular(file: BorrowedFd<'_>) -> bool {
    rustix::fs::fstat(file).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}

/// Whether it is a folder, or a file of some size.
fn is_worth_a_word(file: BorrowedFd<'_>) -> bool {
    rustix::fs::fstat(file).is_ok_and(|stat| match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => true,
        FileType::RegularFile => stat.st_size as u64 >= SIZE_BYTES_MIN,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::AsFd;

    #[test]
    fn a_file_in_memory_is_told_of_and_one_on_a_disk_is_not() {
        let mut lookout = Lookout::default();
        let here = fs::File::open(env!("CARGO_MANIFEST_DIR")).expect("a folder");
        let said = lookout.look_at(here.as_fd(), Path::new("here"));
        let kind = lookout.devices.mount_of_descriptor(std::process::id(), here.as_raw_fd());
        let is_memory = kind.is_some_and(|mount| mount.kind == "tmpfs");
        assert_eq!(said.is_some(), is_memory, "{said:?}");
        let Ok(shared) = fs::File::open("/dev/shm") else { return };
        let said = Lookout::default().look_at(shared.as_fd(), Path::new("/dev/shm")).expect("told");
        assert!(said.starts_with("/dev/shm: ") && said.contains("memory itself"), "{said}");
    }
}
