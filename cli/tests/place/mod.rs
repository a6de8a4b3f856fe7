//! Where the tests of mounts mount.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod disk;
pub mod limited;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A folder with an origin, a mount point and sockets of its own. Whatever is mounted goes when it
/// goes.
pub struct Place {
    pub folder: tempfile::TempDir,
}

impl Place {
    /// `None`, and a line that says why, where nothing can be mounted.
    pub fn new() -> Option<Place> {
        let fuse = fs::File::options().read(true).write(true).open("/dev/fuse");
        let root = rustix::process::geteuid().is_root();
        if let (Ok(_), true) = (fuse, root) {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("origin")).unwrap();
            fs::create_dir(folder.path().join("mnt")).unwrap();
            fs::write(folder.path().join("origin/file"), vec![b'x'; 300_000]).unwrap();
            return Some(Place { folder });
        }
        assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "mounting needs root and /dev/fuse");
        eprintln!("skipped: mounting needs root and /dev/fuse");
        None
    }

    pub fn origin(&self) -> PathBuf {
        self.folder.path().join("origin")
    }

    pub fn point(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    pub fn file(&self) -> String {
        self.point().join("file").display().to_string()
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
        command.args(words).env("PANTLER_RUNTIME_DIR", self.folder.path().join("run"));
        command.env_remove("SUDO_UID").env_remove("SUDO_GID").stdin(Stdio::null());
        command
    }

    pub fn pantler(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Runs a command that must succeed, and gives back its standard output.
    pub fn ok(&self, words: &[&str]) -> String {
        let output = self.pantler(words);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {err}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn mount(&self, more: &[&str]) -> String {
        let (origin, point) = (self.origin().display().to_string(), self.point().display().to_string());
        let cache = if more.contains(&"--cache") { &[][..] } else { &["--cache", "16M"] };
        self.ok(&[&["mount", "--json", &origin, &point], cache, more].concat())
    }

    pub fn umount(&self) {
        self.ok(&["umount", &self.point().display().to_string()]);
        assert!(!is_mounted(&self.point()));
    }

    pub fn sockets(&self) -> usize {
        fs::read_dir(self.folder.path().join("run")).map_or(0, |entries| entries.count())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if is_mounted(&self.point()) {
            let _ = Command::new("umount").arg("--lazy").arg(self.point()).status();
        }
    }
}

/// Claims that a sentence stands in docs/RIGHTS.md, so that test and document cannot part.
pub fn quote_rights(sentence: &str) {
    let text = include_str!("../../../docs/RIGHTS.md");
    assert!(text.lines().any(|line| line == format!("- {sentence}")), "not in docs/RIGHTS.md: {sentence}");
}

pub fn is_mounted(point: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    table.lines().any(|line| line.split(' ').nth(1) == point.to_str())
}

/// The number behind `"key":` in a line of JSON that has it once.
pub fn number(line: &str, key: &str) -> i64 {
    let at = line.find(&format!("\"{key}\":")).unwrap_or_else(|| panic!("{key} in {line}"));
    let digits = line[at + key.len() + 3..].chars().take_while(|c| c.is_ascii_digit() || *c == '-');
    digits.collect::<String>().parse().unwrap()
}

/// A daemon that ends with the test.
pub struct Daemon(pub Child);

impl Daemon {
    /// One that steers with this budget, and what it said until it listened, a line each.
    pub fn start(place: &Place, memory: &str, more: &[&str]) -> (Daemon, Vec<String>) {
        let mut command = place.command(&[&["daemon", "--memory", memory], more].concat());
        let mut daemon = Daemon(command.stderr(Stdio::piped()).spawn().unwrap());
        let mut said = BufReader::new(daemon.0.stderr.take().unwrap()).lines().map(Result::unwrap);
        let mut lines = Vec::new();
        let listens = said.any(|line| {
            lines.push(line);
            lines.last().is_some_and(|line| line.contains("listening at"))
        });
        assert!(listens, "the daemon did not start: {lines:?}");
        // What it says later must not stop it.
        std::thread::spawn(move || said.for_each(drop));
        (daemon, lines)
    }
}

/// A file that is on the disk, and not in memory: it is written past the page cache.
pub fn uncached_file(folder: &Path, name: &str, megabytes: usize) -> PathBuf {
    let path = folder.join(name);
    let mut copy = Command::new("dd");
    copy.args(["if=/dev/zero", "bs=1M", "oflag=direct", "status=none", &format!("count={megabytes}")]);
    assert!(copy.arg(format!("of={}", path.display())).status().unwrap().success());
    path
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}
