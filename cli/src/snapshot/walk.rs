//! The files below a folder, with no link on the way to any: what is searched may be changed
//! meanwhile by a user that wants other files to be looked at.

use anyhow::Result;
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Hands over each regular file below a folder, as far as its file system reaches: its path, which
/// begins with `path`, and its descriptor. Folders that cannot be listed are left out, and the log
/// names them.
///
/// # Errors
/// Those of `each`.
pub fn files_below(
    root: &OwnedFd,
    path: &Path,
    mut each: impl FnMut(&Path, &OwnedFd) -> Result<()>,
) -> Result<()> {
    let device = fstat(root)?.st_dev;
    let mut folders = vec![PathBuf::new()];
    while let Some(below) = folders.pop() {
        let listed = open(root, &below, device).and_then(|folder| Ok((Dir::read_from(&folder)?, folder)));
        let (list, folder) = match listed {
            Ok(both) => both,
            Err(error) => {
                tracing::warn!(folder = %path.join(&below).display(), %error, "left out");
                continue;
            }
        };
        // An error ends a list.
        for entry in list.map_while(Result::ok) {
            let name = entry.file_name();
            let may_be = [FileType::RegularFile, FileType::Directory, FileType::Unknown];
            if [c".", c".."].contains(&name) || !may_be.contains(&entry.file_type()) {
                continue;
            }
            let by_name = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let Ok(named) = openat(&folder, name, by_name, Mode::empty()) else { continue };
            let Ok(stat) = fstat(&named) else { continue };
            let below = below.join(OsStr::from_bytes(name.to_bytes()));
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => each(&path.join(&below), &named)?,
                FileType::Directory if stat.st_dev == device => folders.push(below),
                _ => {}
            }
        }
    }
    Ok(())
}

/// A folder below the root, to be listed.
fn open(root: &OwnedFd, below: &Path, device: u64) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    let folder = openat2(root, below, flags, Mode::empty(), resolve)?;
    match fstat(&folder)?.st_dev == device {
        true => Ok(folder),
        false => Err(io::Error::other("another file system is mounted there by now")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_link_leads_out_of_a_folder() {
        let [inside, outside] = [(), ()].map(|()| tempfile::tempdir().unwrap());
        let at = inside.path();
        fs::create_dir_all(at.join("a/b")).unwrap();
        fs::create_dir(outside.path().join("b")).unwrap();
        for path in [at.join("a/b/own"), at.join("top"), outside.path().join("b/other")] {
            fs::write(path, "x").unwrap();
        }
        symlink(outside.path(), at.join("link")).unwrap();
        symlink(outside.path().join("b/other"), at.join("a/file-link")).unwrap();
        let root = rustix::fs::open(at, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let mut found = Vec::new();
        files_below(&root, at, |path, named| {
            assert_eq!(fstat(named)?.st_size, 1);
            found.push(path.to_owned());
            Ok(())
        })
        .unwrap();
        found.sort();
        assert_eq!(found, [at.join("a/b/own"), at.join("top")]);

        // A folder that became a link after it was found.
        let device = fstat(&root).unwrap().st_dev;
        assert!(open(&root, Path::new("a/b"), device).is_ok());
        fs::rename(at.join("a"), at.join("moved")).unwrap();
        symlink(outside.path(), at.join("a")).unwrap();
        for below in ["a/b", "a", "link", "../b"] {
            assert!(open(&root, Path::new(below), device).is_err(), "{below}");
        }
    }
}
