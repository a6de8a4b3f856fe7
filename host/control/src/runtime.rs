//! Where control sockets live.
//!
//! The daemon's is `/run/pantler/control.sock`. A command that hosts its own body because no daemon
//! runs puts a socket called `<pid>.sock` beside it, or, without privileges, into a folder of its
//! user. Clients ask them all.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Name of the daemon's socket within the folder.
pub const DAEMON_SOCKET: &str = "control.sock";
/// The folder of the system: daemon, and bodies that root hosts.
const SYSTEM_FOLDER: &str = "/run/pantler";
/// Replaces all folders; for tests and for several installations on one machine.
const FOLDER_VARIABLE: &str = "PANTLER_RUNTIME_DIR";
/// Most sockets a client looks at in one folder.
const SOCKETS_MAX: usize = 256;

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// What the environment says; nothing in a program with more rights than its caller: that wrote it.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|_| !has_gained_rights())
}

/// Whether this program has rights of its file (`AT_SECURE`, 23 in the kernel's `auxvec.h`).
fn has_gained_rights() -> bool {
    const SECURE: usize = 23;
    let Ok(told) = fs::read("/proc/self/auxv") else { return true };
    let words: Vec<usize> = told.as_chunks().0.iter().map(|&bytes| usize::from_ne_bytes(bytes)).collect();
    words.as_chunks::<2>().0.iter().any(|&[kind, value]| kind == SECURE && value != 0)
}

/// The folder in which this process puts its socket.
pub fn own_folder() -> PathBuf {
    if let Some(folder) = variable(FOLDER_VARIABLE) {
        return folder.into();
    }
    match own_uid() {
        0 => SYSTEM_FOLDER.into(),
        uid => user_folder(uid),
    }
}

/// `/run/user/UID/pantler` where the session manager made `/run/user/UID`, else `/tmp/pantler-UID`.
fn user_folder(uid: u32) -> PathBuf {
    let session = PathBuf::from(format!("/run/user/{uid}"));
    if session.is_dir() { session.join("pantler") } else { format!("/tmp/pantler-{uid}").into() }
}

/// Folders in which clients look, with the user that may fill each: the system's, the own user's,
/// and under `sudo` the invoking user's.
fn folders() -> Vec<(PathBuf, u32)> {
    let invoking = variable("SUDO_UID").and_then(|uid| uid.to_str()?.parse().ok()).filter(|_| own_uid() == 0);
    if variable(FOLDER_VARIABLE).is_some() {
        return vec![(own_folder(), invoking.unwrap_or(own_uid()))];
    }
    let mut folders = vec![(PathBuf::from(SYSTEM_FOLDER), 0)];
    let users = [own_uid()].into_iter().chain(invoking).filter(|&uid| uid != 0);
    folders.extend(users.map(|uid| (user_folder(uid), uid)));
    folders
}

/// Creates the own folder if it is not there, and refuses one of another user: any user can put one
/// into `/tmp`.
pub fn prepare_folder() -> io::Result<PathBuf> {
    let folder = own_folder();
    let mode = if own_uid() == 0 { 0o755 } else { 0o700 };
    if let Err(error) = DirBuilder::new().mode(mode).create(&folder)
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(io::Error::new(error.kind(), format!("{}: {error}", folder.display())));
    }
    if !is_trusted(&folder, own_uid()) {
        let text = format!("{} is not a folder of user {}", folder.display(), own_uid());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(folder)
}

/// A folder that only root, this user, and user `uid` can have filled. In `/tmp` every user can
/// make one with another's name, and root must not take its sockets for that other's.
fn is_trusted(folder: &Path, uid: u32) -> bool {
    let Ok(metadata) = fs::symlink_metadata(folder) else { return false };
    let by_known = [0, own_uid(), uid].contains(&metadata.uid());
    metadata.is_dir() && by_known && metadata.mode() & 0o022 == 0
}

/// Whether a socket is the daemon's.
pub(crate) fn is_daemon(socket: &Path) -> bool {
    socket.file_name() == Some(DAEMON_SOCKET.as_ref())
}

/// All sockets a client should ask, the daemon's first.
pub fn sockets() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = folders()
        .into_iter()
        .filter(|(folder, uid)| is_trusted(folder, *uid))
        .filter_map(|(folder, _)| fs::read_dir(folder).ok())
        .flat_map(|entries| entries.take(SOCKETS_MAX).flatten())
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sock"))
        .collect();
    found.sort_by_key(|path| (!is_daemon(path), path.clone()));
    found
}

/// Removes sockets without a listener in the own folder: their host was killed.
/// Returns what was removed.
pub fn remove_stale_sockets() -> Vec<PathBuf> {
    let refused = |path: &PathBuf| {
        UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    let own = own_folder();
    let stale = sockets().into_iter().filter(|path| path.parent() == Some(&own)).filter(refused);
    stale.filter(|path| fs::remove_file(path).is_ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn a_folder_that_a_stranger_made_is_not_trusted() {
        let folder = tempfile::tempdir().unwrap();
        assert!(is_trusted(folder.path(), own_uid()));
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!is_trusted(folder.path(), own_uid()), "anybody can fill it");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert!(!is_trusted(&folder.path().join("none"), own_uid()));
        if chown(folder.path(), Some(4711), None).is_err() {
            eprintln!("skipped: giving a folder away needs root");
            return;
        }
        // As under `sudo` of user 1000, where user 4711 was faster in /tmp.
        assert!(!is_trusted(folder.path(), 1000) && is_trusted(folder.path(), 4711));
    }
}
