//! Files on which steering has no effect: the run says so, once.

use std::collections::HashSet;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::files::devices::Devices;
use crate::files::mounted::MountedAt;
use pantler_kernel::group::{self, RunGroup};

/// A smaller file is not worth a word: scripts, libraries.
const SIZE_BYTES_MIN: u64 = 1 << 20;
/// Processes of a run, and descriptors of one, that are looked at each time.
const PROCESSES_MAX: usize = 64;
/// See [`PROCESSES_MAX`].
const DESCRIPTORS_MAX: usize = 256;

/// Looks for such files until one was found.
#[derive(Debug, Default)]
pub(crate) struct Lookout {
    devices: Devices,
    /// Mounts with steered files.
    fine: HashSet<u32>,
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
        let why = self.why(&mount, || Some(file.try_clone_to_owned().ok()?.into()))?;
        self.told = true;
        Some(format!("{}: {why}", path.display()))
    }

    /// The message about large files that the processes of a run have open to read.
    pub fn look(&mut self, group: &dyn RunGroup) -> Option<String> {
        if self.told {
            return None;
        }
        let list = group::read(group.program_files().first()?).ok()?;
        let processes = list.lines().filter_map(|line| line.parse::<u32>().ok());
        let (path, why) = processes.take(PROCESSES_MAX).find_map(|process| self.look_into(process))?;
        self.told = true;
        Some(format!("{}: {why}", path.display()))
    }

    fn look_into(&mut self, process: u32) -> Option<(PathBuf, String)> {
        let entries = fs::read_dir(format!("/proc/{process}/fd")).ok()?;
        entries.flatten().take(DESCRIPTORS_MAX).find_map(|entry| {
            let link = entry.path();
            let meta = fs::metadata(&link).ok()?;
            // A link that may not be written is a file that was opened to be read: what a program
            // writes there it wants in memory.
            let written = fs::symlink_metadata(&link).ok()?.mode() & 0o200 != 0;
            if !meta.is_file() || written || meta.size() < SIZE_BYTES_MIN {
                return None;
            }
            let number = entry.file_name().to_str()?.parse().ok()?;
            let mount = self.devices.mount_of_descriptor(process, number)?.clone();
            let why = self.why(&mount, || fs::File::open(&link).ok())?;
            Some((fs::read_link(&link).ok()?, why))
        })
    }

    fn why(&mut self, mount: &MountedAt, open: impl FnOnce() -> Option<fs::File>) -> Option<String> {
        if self.fine.contains(&mount.id) {
            return None;
        }
        let place = mount.place.display();
        match mount.kind.as_str() {
            kind @ ("tmpfs" | "ramfs" | "hugetlbfs" | "devtmpfs") => Some(format!(
                "{place} is {kind}, which is memory itself: nothing there is steered or counted"
            )),
            "zfs" => {
                Some(format!("{place} is zfs, which caches by itself: nothing there is steered or counted"))
            }
            "overlay" => {
                let file = open()?;
                if !file.metadata().is_ok_and(|meta| meta.is_file()) {
                    return None;
                }
                if self.devices.named_by_events(file.as_fd()).is_none() {
                    return Some(format!(
                        "{place} is an overlay, and the files below it cannot be found: rules of profiles about \
                         paths do not apply there, and the kernel reads ahead beyond the budget"
                    ));
                }
                self.fine.insert(mount.id);
                None
            }
            _ => {
                self.fine.insert(mount.id);
                None
            }
        }
    }
}

/// Whether it is a folder, or a file of some size.
fn is_worth_a_word(file: BorrowedFd<'_>) -> bool {
    use rustix::fs::FileType;
    rustix::fs::fstat(file).is_ok_and(|stat| match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => true,
        FileType::RegularFile => stat.st_size as u64 >= SIZE_BYTES_MIN,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
