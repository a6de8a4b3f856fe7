//! A folder with a place to mount at, and the command in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A secret that must not be shown.
pub const SECRET: &str = "s3cretAccessKeyOfNobody";
/// What is in a file.
pub static DATA: [u8; 300_000] = [9; 300_000];

/// Variables, and what they are.
pub type Environment<'a> = &'a [(&'a str, &'a str)];

pub struct Place {
    pub folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("mnt")).unwrap();
        Self { folder }
    }

    pub fn point(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    /// A folder of data with the file [`DATA`] in `f`.
    pub fn data(&self) -> PathBuf {
        let data = self.folder.path().join("data");
        fs::create_dir(&data).unwrap();
        fs::write(data.join("f"), DATA).unwrap();
        data
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pantler"));
        command.args(words).env("PANTLER_RUNTIME_DIR", self.folder.path().join("run"));
        for (name, _) in std::env::vars_os() {
            if ["AWS_", "GOOGLE_", "AZURE_", "STORAGE_EMULATOR"]
                .iter()
                .any(|prefix| name.to_string_lossy().starts_with(prefix))
            {
                command.env_remove(name);
            }
        }
        command.stdin(Stdio::null());
        command
    }

    pub fn mount(&self, origin: &str, more: &[&str], environment: Environment) -> Output {
        let point = self.point().display().to_string();
        let words = [&["mount", "--json", origin, &point, "--cache", "16M"], more].concat();
        self.command(&words).envs(environment.iter().copied()).output().unwrap()
    }

    pub fn umount(&self) {
        let output = self.command(&["umount", &self.point().display().to_string()]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Everything that mounts wrote where it could be read.
    pub fn logs(&self) -> String {
        let entries = fs::read_dir(self.folder.path().join("run")).into_iter().flatten().flatten();
        let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
        files.map(|entry| String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).into_owned()).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.point(), rustix::mount::UnmountFlags::DETACH);
    }
}

/// Says that a test is left out, where that may be.
pub fn cannot(what: &str) {
    assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "cannot run: {what}");
    eprintln!("skipped: {what}");
}

/// Whether this machine mounts; says so where it does not.
pub fn can_mount() -> bool {
    let can = rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists();
    if !can {
        cannot("mounting needs root and /dev/fuse");
    }
    can
}

/// Where a secret is, for oneself alone.
pub fn secret_file(place: &Place, name: &str, secret: &str) -> String {
    let file = place.folder.path().join(name);
    fs::write(&file, secret).unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    file.display().to_string()
}
