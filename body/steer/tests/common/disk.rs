//! File systems of a test's own.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;

use pantler_policy::Draws;

use super::{Scratch, forget, outside, scale};

/// A file system in a file, mounted; gone again when dropped.
pub struct Disk {
    /// Where it is mounted.
    pub at: PathBuf,
    pub device: Option<String>,
    pub folder: Option<Scratch>,
}

impl Disk {
    /// `None`, loudly, where the program that makes it is missing.
    pub fn new(make: &str, bytes: u64) -> Option<Disk> {
        // What lies below must not be cached a second time.
        Disk::over("--direct-io=on", make, bytes)
    }

    /// The same, cached below: reads hardly wait.
    pub fn fast(make: &str, bytes: u64) -> Option<Disk> {
        Disk::over("--direct-io=off", make, bytes)
    }

    fn over(access: &str, make: &str, bytes: u64) -> Option<Disk> {
        let program = make.split(' ').next().expect("a word");
        if !Command::new("sh")
            .args(["-c", &format!("command -v {program} >/dev/null")])
            .status()
            .unwrap()
            .success()
        {
            assert!(
                std::env::var_os("PANTLER_NO_SKIP").is_none(),
                "PANTLER_NO_SKIP is set, and {program} is missing"
            );
            eprintln!("SKIPPED: {program} is missing: cargo xtask setup");
            return None;
        }
        let folder = Scratch::new("disk");
        let (image, at) = (folder.path("image"), PathBuf::from(folder.path("at")));
        fs::File::create(&image).unwrap().set_len(bytes * scale()).unwrap();
        outside(&format!("{make} {image}"));
        fs::create_dir(&at).unwrap();
        let words = ["--find", "--show", access, &image];
        let output = Command::new("losetup").args(words).output().expect("losetup");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let device = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        outside(&format!("mount {device} {}", at.display()));
        Some(Disk { at, device: Some(device), folder: Some(folder) })
    }

    /// The device, which has one.
    fn device(&self) -> &str {
        self.device.as_deref().expect("a device")
    }

    /// What the kernel reads ahead, or around a page that is missing, at most.
    pub fn set_read_ahead(&self, bytes: u64) {
        outside(&format!("blockdev --setra {} {}", bytes / 512, self.device()));
    }

    /// Bytes read from the device since it was made.
    pub fn read_bytes(&self) -> u64 {
        let name = self.device().trim_start_matches("/dev/");
        let stat = fs::read_to_string(format!("/sys/block/{name}/stat")).expect("counted");
        512 * stat.split_whitespace().nth(2).expect("sectors").parse::<u64>().expect("a number")
    }

    pub fn path(&self, name: &str) -> String {
        self.at.join(name).to_str().expect("a plain path").to_owned()
    }

    /// A file with data on the device and nothing in memory.
    pub fn file(&self, name: &str, bytes: u64) -> String {
        let path = self.path(name);
        write(&path, bytes);
        forget(&path);
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.at, rustix::mount::UnmountFlags::DETACH);
        if let Some(device) = &self.device {
            let _ = Command::new("losetup").args(["--detach", device]).status();
        }
    }
}

pub fn write(path: &str, bytes: u64) {
    let file = fs::File::create(path).expect("created");
    // Not the same everywhere: a file system may store what is alike only once.
    let mut draws = Draws::new(7);
    for piece in 0..bytes / 65_536 {
        let bytes: Vec<u8> = (0..8192).flat_map(|_| draws.bits().to_le_bytes()).collect();
        file.write_all_at(&bytes, piece * 65_536).expect("written");
    }
    file.sync_all().expect("synced");
}
