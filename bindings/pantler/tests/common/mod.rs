//! A place where programs run beside the command, which lasts as long as a test.
#![allow(dead_code, reason = "each test program uses its share")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Bytes of a [file](Place::file).
pub const FILE_BYTES: u64 = 32 << 20;

/// Where cargo puts what it builds.
pub fn built(name: &str) -> PathBuf {
    let tests = std::env::current_exe().expect("a path");
    let path = tests.ancestors().nth(2).expect("a folder").join(name);
    assert!(path.exists(), "{} is not built: cargo build --workspace --all-targets", path.display());
    path
}

pub struct Place(tempfile::TempDir);

impl Place {
    /// `None`, and a line that says why, on a machine that lacks what steering or mounting needs.
    pub fn new() -> Option<Place> {
        // Not on a file system in memory.
        let place = Place(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder"));
        if place.pantler(&["doctor"]).status.success() && Path::new("/dev/fuse").exists() {
            return Some(place);
        }
        assert!(
            std::env::var_os("PANTLER_NO_SKIP").is_none(),
            "pantler doctor says that something is missing"
        );
        eprintln!("skipped: pantler doctor says that something is missing");
        None
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("PANTLER_RUNTIME_DIR", self.path("run")).env_remove("SUDO_UID");
        command
    }

    pub fn pantler(&self, words: &[&str]) -> Output {
        self.command(&built("pantler")).args(words).output().expect("started")
    }

    pub fn ok(&self, words: &[&str]) -> String {
        let done = self.pantler(words);
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).expect("text")
    }

    /// Lets all users speak to the hosts that run now.
    pub fn open_to_all(&self) {
        let open =
            |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).expect("opened");
        open(self.0.path(), 0o755);
        open(Path::new(&self.path("run")), 0o755);
        for socket in fs::read_dir(self.path("run")).expect("sockets") {
            open(&socket.expect("a socket").path(), 0o666);
        }
    }

    /// A file that is on the disk, and not in memory.
    pub fn file(&self, name: &str) -> String {
        let path = self.path(name);
        fs::write(&path, vec![7; FILE_BYTES as usize]).expect("written");
        forget(&path);
        path
    }

    /// A program in C, with the library as it is installed.
    pub fn compiled(&self, name: &str, source: &Path) -> String {
        let (output, include) = (self.path(name), Path::new(env!("CARGO_MANIFEST_DIR")).join("include"));
        for installed in ["libpantler.so", "libpantler.so.0"] {
            let _ = std::os::unix::fs::symlink(built("deps/libpantler.so"), self.path(installed));
        }
        let mut compile = Command::new("cc");
        compile.args(["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-o", &output]);
        let folder = self.0.path().display().to_string();
        compile.arg(source).arg("-I").arg(include).args(["-L", &folder, "-lpantler", "-lpthread"]);
        compile.arg(format!("-Wl,-rpath,{folder}"));
        assert!(compile.status().expect("cc").success());
        output
    }
}

impl Drop for Place {
    /// A test that failed has left its mount.
    fn drop(&mut self) {
        for name in ["point", "point-C", "point-Rust"] {
            let mut command = Command::new("umount");
            let _ = command.args(["--lazy", "--quiet", &self.path(name)]).output();
        }
    }
}

/// What is in memory belongs to no run.
pub fn forget(path: &str) {
    let file = fs::File::open(path).expect("open");
    file.sync_all().expect("on the disk");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("forgotten");
}

/// Runs a program that is to succeed.
pub fn run(mut command: Command) {
    let done = command.output().expect("started");
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// The number behind a name in a line of JSON; the first, which is that of all owners.
pub fn number(json: &str, name: &str) -> u64 {
    let (_, rest) = json.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("{name}: {json}"));
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}
