//! Block devices, and those that they stand on: what a loop device, a volume or a RAID reads, the
//! device below reads as well.
//!
//! Of an image on an overlay or btrfs, which have no device number of a disk, the device below is
//! not found: what is read of it counts twice.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A block device, as `major:minor`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// Its driver.
    pub major: u32,
    /// Which of that driver's.
    pub minor: u32,
}

impl Device {
    /// The device with this name, such as `254:0`.
    pub fn parse(name: &str) -> Option<Device> {
        let (major, minor) = name.trim().split_once(':')?;
        Some(Device { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }

    /// The device with this number, as `stat` tells it.
    pub fn of(number: u64) -> Device {
        Device { major: rustix::fs::major(number), minor: rustix::fs::minor(number) }
    }

    fn folder(self) -> PathBuf {
        PathBuf::from(format!("/sys/dev/block/{}:{}", self.major, self.minor))
    }

    /// The devices that it stands on, whole disks; none that the kernel does not tell of.
    fn below(self) -> Vec<Device> {
        let folder = self.folder();
        let names = fs::read_dir(folder.join("slaves")).into_iter().flatten().flatten();
        let mut below: Vec<Device> = names.filter_map(|name| read(&name.path())).collect();
        below.extend(backing(&folder));
        let mut disks: Vec<Device> = Vec::new();
        for disk in below.into_iter().map(Device::disk) {
            if !disks.contains(&disk) {
                disks.push(disk);
            }
        }
        disks
    }

    /// The disk that a partition is of, or the device itself.
    pub fn disk(self) -> Device {
        let folder = self.folder();
        let parent = || read(&fs::canonicalize(&folder).ok()?.join(".."));
        if folder.join("partition").exists() { parent().unwrap_or(self) } else { self }
    }
}

/// The device that a folder below `/sys` is about.
fn read(folder: &Path) -> Option<Device> {
    Device::parse(&fs::read_to_string(folder.join("dev")).ok()?)
}

/// The device of the file that a loop device shows. A file that was removed is not found.
fn backing(folder: &Path) -> Option<Device> {
    let mut path = fs::read(folder.join("loop/backing_file")).ok()?;
    path.pop_if(|last| *last == b'\n');
    Some(Device::of(fs::metadata(OsStr::from_bytes(&path)).ok()?.dev()))
}

/// The sum of what devices read, each byte once: what a device read through others of them is taken
/// off, as far as those read as much.
pub fn read_once(reads: &[(Device, u64)]) -> u64 {
    sum(reads, Device::below)
}

fn sum(reads: &[(Device, u64)], below: impl Fn(Device) -> Vec<Device>) -> u64 {
    // What each read that no device above has taken for its own.
    let mut left: Vec<(Device, u64)> = reads.to_vec();
    let mut twice = 0;
    for &(device, read) in reads {
        let below = below(device);
        let mut passed = read;
        for (_, left) in left.iter_mut().filter(|(counted, _)| below.contains(counted)) {
            let taken = passed.min(*left);
            (*left, passed, twice) = (*left - taken, passed - taken, twice + taken);
        }
    }
    let all: u64 = reads.iter().map(|&(_, read)| read).sum();
    all - twice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_passed_through_two_devices_counts_once() {
        let [disk, other, volume, image] =
            ["8:0", "8:16", "253:0", "7:3"].map(|name| Device::parse(name).expect("a device"));
        // An image on a volume on a disk.
        let below = |device: Device| match device {
            _ if device == image => vec![volume],
            _ if device == volume => vec![disk],
            _ => Vec::new(),
        };
        assert_eq!(sum(&[(disk, 100), (other, 5), (volume, 60), (image, 40)], below), 105);
        assert_eq!(sum(&[(image, 40)], below), 40, "what is below is not counted here");
        assert_eq!(sum(&[(disk, 5), (volume, 60)], below), 60, "what is below counts elsewhere");
        let both_on_disk = |device| if device == disk { Vec::new() } else { vec![disk] };
        assert_eq!(sum(&[(volume, 40), (image, 40), (disk, 50)], both_on_disk), 80);
        assert_eq!(sum(&[], below), 0);
    }

    #[test]
    fn names_that_are_none() {
        for name in ["", "8", "8:", ":1", "a:b", "8:0:1", "-1:0", "4294967296:0"] {
            assert_eq!(Device::parse(name), None, "{name:?}");
        }
        assert_eq!(Device::parse("254:3\n"), Some(Device { major: 254, minor: 3 }));
        assert!(Device { major: 4_095, minor: 77 }.below().is_empty(), "a device that is not there");
    }
}
