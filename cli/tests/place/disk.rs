//! A file system of a test's own, whose device counts what is read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// In an image on a loop device. Its readahead is the kernel's own, 128 KiB: the model has that,
/// and disks may have megabytes.
pub struct Disk {
    device: String,
    pub at: PathBuf,
}

impl Disk {
    pub fn new(folder: &Path) -> Disk {
        // Direct: the image is not cached as well.
        let script = "set -e; truncate -s 600M image; mkfs.ext4 -q image; mkdir at; \
            device=$(losetup --find --show --direct-io=on image); blockdev --setra 256 $device; \
            mount -o noatime $device at; echo $device";
        let device = must(Command::new("sh").args(["-c", script]).current_dir(folder));
        Disk { device: device.trim().to_owned(), at: folder.join("at") }
    }

    /// Nothing of it is in memory.
    pub fn fresh(&self) {
        must(Command::new("umount").arg(&self.at));
        must(Command::new("mount").args(["-o", "noatime", &self.device]).arg(&self.at));
    }

    pub fn read_bytes(&self) -> u64 {
        let name = self.device.trim_start_matches("/dev/");
        let stat = fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
        stat.split_whitespace().nth(2).unwrap().parse::<u64>().unwrap() * 512
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.at).status();
        let _ = Command::new("losetup").args(["--detach", &self.device]).status();
    }
}

/// Runs a command that must succeed.
pub fn must(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
