//! The user a program runs as: under `sudo`, the user that called it.

use anyhow::{Context, Result, bail};
use pantler_kernel::process::{command_of, lineage};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::process::Command;

use rustix::fs::{Gid, Uid};
use rustix::thread;
use serde::{Deserialize, Serialize};

/// The users that may read a file that is made.
#[derive(Debug, Clone, Copy)]
pub enum Readers {
    /// As the umask has it.
    All,
    Owner,
}

/// User, group and supplementary groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
}

/// The user and the environment of the program.
#[derive(Debug)]
pub struct Identity {
    /// What to become; `None` when the program runs as we do.
    pub credentials: Option<Credentials>,
    /// The user the program runs as.
    pub uid: u32,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
}

impl Identity {
    /// The invoking user: the one that called `sudo`, else our own.
    pub fn invoking() -> Result<Identity> {
        let own = rustix::process::geteuid().as_raw();
        let environment = std::env::vars_os().collect();
        let sudo = |key| std::env::var(key).ok().and_then(|text: String| text.parse::<u32>().ok());
        let invoking = sudo("SUDO_UID").zip(sudo("SUDO_GID")).filter(|(uid, _)| own == 0 && *uid != 0);
        let Some((uid, gid)) = invoking else {
            return Ok(Identity { credentials: None, uid: own, environment });
        };
        let credentials = Credentials { uid, gid, groups: groups_of(uid)? };
        let environment = environment_of_sudo().unwrap_or_else(|| adjusted_environment(uid));
        Ok(Identity { credentials: Some(credentials), uid, environment })
    }

    /// A variable of the program's environment.
    pub fn variable(&self, key: &str) -> Option<&OsStr> {
        self.environment.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_os_str())
    }

    /// Reads a file with the rights of the user the program runs as, not with ours.
    pub fn read_file(&self, path: &std::path::Path, bytes_max: u64) -> std::io::Result<String> {
        let mut text = String::new();
        self.open_to_read(path)?.take(bytes_max).read_to_string(&mut text)?;
        Ok(text)
    }

    /// The paths of what is in a folder, seen with the rights of the user the program runs as, not
    /// with ours.
    pub fn list_folder(&self, path: &std::path::Path) -> std::io::Result<Vec<std::path::PathBuf>> {
        self.with_rights(|| fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect())
    }

    /// Opens a regular file to be read with the rights of the user the program runs as, not with
    /// ours.
    pub fn open_to_read(&self, path: &std::path::Path) -> std::io::Result<fs::File> {
        self.with_rights(|| {
            // A fifo would wait for its writer.
            let nonblock = rustix::fs::OFlags::NONBLOCK.bits() as i32;
            let file = fs::File::options().read(true).custom_flags(nonblock).open(path)?;
            match file.metadata()?.is_file() {
                true => Ok(file),
                false => Err(std::io::Error::other("not a regular file")),
            }
        })
    }

    /// Opens a file or folder to look at it, not into it, with the rights of the user the program
    /// runs as.
    pub fn open_to_name(&self, path: &std::path::Path) -> std::io::Result<fs::File> {
        let path_only = (rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC).bits() as i32;
        self.with_rights(|| fs::File::options().read(true).custom_flags(path_only).open(path))
    }

    /// Opens a file to be written with the rights of the user the program runs as, not with ours;
    /// makes it when it is not there, and leaves what is in it.
    pub fn open_to_write(&self, path: &std::path::Path, readers: Readers) -> std::io::Result<fs::File> {
        let mode = match readers {
            Readers::All => 0o666,
            Readers::Owner => 0o600,
        };
        let mut options = fs::File::options();
        options.write(true).create(true).truncate(false).mode(mode);
        self.with_rights(|| options.open(path))
    }

    /// Does something with the rights of the user the program runs as.
    fn with_rights<T: Send>(&self, work: impl FnOnce() -> std::io::Result<T> + Send) -> std::io::Result<T> {
        let Some(credentials) = &self.credentials else { return work() };
        // Credentials belong to a thread on Linux: this one takes the user's, works, and ends.
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                credentials.take().map_err(std::io::Error::other)?;
                work()
            });
            thread.join().unwrap_or_else(|_| Err(std::io::Error::other("cannot act as the user")))
        })
    }
}

impl Credentials {
    /// Makes the calling thread this user, for good.
    pub fn take(&self) -> Result<()> {
        let groups: Vec<Gid> = self.groups.iter().copied().map(Gid::from_raw).collect();
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        thread::set_thread_groups(&groups).context("cannot take the groups")?;
        thread::set_thread_res_gid(gid, gid, gid).context("cannot take the group")?;
        thread::set_thread_res_uid(uid, uid, uid).context("cannot take the user")?;
        Ok(())
    }
}

/// Groups of a user, by whatever the machine looks users up in.
fn groups_of(uid: u32) -> Result<Vec<u32>> {
    let output = Command::new("id").args(["-G", "--", &uid.to_string()]).output().context("cannot run id")?;
    if !output.status.success() {
        bail!("user {uid} of SUDO_UID is unknown");
    }
    let text = String::from_utf8_lossy(&output.stdout);
    text.split_whitespace().map(|word| word.parse().context("id printed something else")).collect()
}

/// The environment in which `sudo` was called: it is still that of the `sudo` process above us, or
/// above the `pantler` that started us.
fn environment_of_sudo() -> Option<Vec<(OsString, OsString)>> {
    let executable = |process: &str| fs::metadata(format!("/proc/{process}/exe")).ok();
    let identity = |file: fs::Metadata| (file.dev(), file.ino());
    let own = executable("self").map(identity);
    let mut above = lineage(std::process::id()).into_iter().skip(1).map(|process| process.pid);
    let parent = above.find(|process| executable(&process.to_string()).map(identity) != own)?;
    if command_of(parent) != "sudo" {
        return None;
    }
    let bytes = fs::read(format!("/proc/{parent}/environ")).ok().filter(|bytes| !bytes.is_empty())?;
    Some(parse_environment(&bytes))
}

/// Variables that end with a zero byte each, as in `/proc/PID/environ`.
pub fn parse_environment(bytes: &[u8]) -> Vec<(OsString, OsString)> {
    let pairs = bytes.split(|&b| b == 0).filter_map(|pair| {
        let at = pair.iter().skip(1).position(|&b| b == b'=')? + 1;
        Some((OsString::from_vec(pair[..at].to_vec()), OsString::from_vec(pair[at + 1..].to_vec())))
    });
    pairs.collect()
}

/// Our environment with the words that name the user set right, for when that of `sudo` cannot be
/// read.
fn adjusted_environment(uid: u32) -> Vec<(OsString, OsString)> {
    let passwd = fs::read("/etc/passwd").unwrap_or_default();
    let entry = passwd.split(|&b| b == b'\n').find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|&b| b == b':').collect();
        let number = std::str::from_utf8(fields.get(2)?).ok()?.parse::<u32>().ok()?;
        (number == uid && fields.len() == 7)
            .then(|| [fields[0], fields[5], fields[6]].map(|field| OsStr::from_bytes(field).to_owned()))
    });
    let mut variables: Vec<(OsString, OsString)> =
        std::env::vars_os().filter(|(key, _)| !key.as_bytes().starts_with(b"SUDO_")).collect();
    let Some([name, home, shell]) = entry else { return variables };
    let known = [("USER", &name), ("LOGNAME", &name), ("HOME", &home), ("SHELL", &shell)];
    variables.retain(|(key, _)| !known.iter().any(|(word, _)| key == word));
    variables.extend(known.map(|(key, value)| (key.into(), value.clone())));
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environments_are_split_at_the_first_equals_sign() {
        let parsed = parse_environment(b"A=1\0B=x=y\0=odd=1\0broken\0\0");
        let expected = [("A", "1"), ("B", "x=y"), ("=odd", "1")];
        assert_eq!(parsed, expected.map(|(key, value)| (key.into(), value.into())));
    }
}
