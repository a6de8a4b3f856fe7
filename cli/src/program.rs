//! Finding the program that is to be run, before anything is changed for it.

use anyhow::Result;
use pantler_control::ControlError;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where a shell looks when there is no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The file a program's name stands for, or one line that says what is wrong with the name.
pub fn find(program: &OsStr, path: Option<&OsStr>) -> Result<PathBuf> {
    let refuse = |what: &str| {
        let text = format!("program {:?}: {what}", program.display().to_string());
        Err(ControlError::invalid(text).into())
    };
    if program.as_bytes().contains(&b'/') {
        let file = PathBuf::from(program);
        return match is_executable(&file) {
            true => Ok(file),
            false => refuse("expected an executable file"),
        };
    }
    let folders = std::env::split_paths(path.unwrap_or(OsStr::new(DEFAULT_PATH)));
    let mut files = folders.map(|folder| folder.join(program));
    match files.find(|file| is_executable(file)) {
        Some(file) if !program.is_empty() => Ok(file),
        _ => refuse("expected a path, or a name found in PATH"),
    }
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// The name people know a program by: the last component.
pub fn name(program: &OsStr) -> String {
    Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_searched_and_paths_are_taken() {
        assert!(find(OsStr::new("sh"), None).is_ok());
        assert!(find(OsStr::new("/bin/sh"), None).is_ok());
        for bad in ["", "/", "/etc/passwd", "no-such-program-anywhere"] {
            assert!(find(OsStr::new(bad), None).is_err(), "{bad:?}");
        }
    }
}
