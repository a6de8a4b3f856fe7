//! A file system of its own, in an image on a loop device: mounted anew, it has nothing in memory,
//! inodes included, and its device counts what is read.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

use crate::shell::{self, say};

/// Unmounted and detached when it goes out of scope.
pub struct Disk {
    device: String,
    point: PathBuf,
}

impl Disk {
    /// The file system of this size in this folder; a new one is filled by `write`.
    pub fn new(folder: &Path, size: &str, write: impl FnOnce(&Path) -> Result<()>) -> Result<Disk> {
        let (image, point) = (folder.join("image"), folder.join("files"));
        let (whole, image) = (image.exists(), image.display().to_string());
        fs::create_dir_all(&point)?;
        let fresh = format!("{image}.new");
        let used = if whole { &image } else { &fresh };
        if !whole {
            say("writing the files that programs read");
            let _ = fs::remove_file(&fresh);
            shell::output(&["truncate", "--size", size, &fresh])?;
            shell::output(&["mkfs.ext4", "-qF", "-E", "lazy_itable_init=0,lazy_journal_init=0", &fresh])?;
        }
        let device =
            shell::output(&["losetup", "--find", "--show", "--direct-io=on", used])?.trim().to_owned();
        let disk = Disk { device, point };
        if !whole {
            disk.fresh()?;
            write(&disk.point)?;
            shell::output(&["sync", "--file-system", &disk.point.display().to_string()])?;
            // One that was half written is written again.
            fs::rename(&fresh, &image)?;
        }
        Ok(disk)
    }

    /// Where it is mounted.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Mounts it anew.
    pub fn fresh(&self) -> Result<()> {
        self.unmount();
        let point = self.point.display().to_string();
        shell::output(&["mount", "-o", "noatime", &self.device, &point]).map(drop)
    }

    fn unmount(&self) {
        let _ = shell::output(&["umount", &self.point.display().to_string()]);
    }

    /// What was read from its device so far.
    pub fn read_bytes(&self) -> Result<u64> {
        let name = self.device.trim_start_matches("/dev/");
        let text = fs::read_to_string(format!("/sys/block/{name}/stat"))?;
        let sectors = text.split_whitespace().nth(2).context("no count of sectors")?;
        Ok(sectors.parse::<u64>()? * 512)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.unmount();
        let _ = shell::output(&["losetup", "--detach", &self.device]);
    }
}
