//! Passwords and secrets: from files that only their owner can read, or from the environment; never
//! from arguments, which every user of a machine can see.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::TierError;

const SECRET_BYTES_MAX: u64 = 4096;
/// Longest file with a private key.
const KEY_BYTES_MAX: u64 = 256 << 10;

/// The content of a file without the newline at its end.
///
/// # Errors
/// [`TierError`] when it cannot be read, others may read it, or it is empty or long. Never with its
/// content.
pub fn read_secret_file(path: &Path) -> Result<String, TierError> {
    let text = read_private(path, SECRET_BYTES_MAX)?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

/// The content of a file with a private key.
///
/// # Errors
/// As for [`read_secret_file`].
pub fn read_key_file(path: &Path) -> Result<String, TierError> {
    read_private(path, KEY_BYTES_MAX)
}

fn read_private(path: &Path, bytes_max: u64) -> Result<String, TierError> {
    let fail = |error| TierError::File { path: path.to_owned(), error };
    let refuse = |why: &str| TierError::Invalid(format!("{}: {why}", path.display()));
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path).map_err(fail)?;
    let metadata = file.metadata().map_err(fail)?;
    if !metadata.is_file() {
        return Err(refuse("expected a regular file"));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(refuse("others may read it: expected mode 0600"));
    }
    let mut text = String::new();
    let count = file.take(bytes_max + 1).read_to_string(&mut text).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => refuse("expected UTF-8"),
        _ => fail(error),
    })?;
    if text.trim_end().is_empty() || count as u64 > bytes_max {
        return Err(refuse(&format!("expected 1 to {bytes_max} bytes")));
    }
    Ok(text)
}

/// The secret of a file, or else of an environment variable, or none.
///
/// # Errors
/// As for [`read_secret_file`].
pub fn read_secret(file: Option<&Path>, variable: &str) -> Result<Option<String>, TierError> {
    match file {
        Some(file) => read_secret_file(file).map(Some),
        None => from_variable(std::env::var_os(variable), variable),
    }
}

/// An empty variable is none. A set one that cannot be read is an error: a secret is wanted.
fn from_variable(value: Option<OsString>, name: &str) -> Result<Option<String>, TierError> {
    let secret = value.map(OsString::into_string).transpose();
    let secret = secret.map_err(|_| TierError::Invalid(format!("{name}: expected UTF-8")))?;
    Ok(secret.filter(|secret| !secret.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_variable_that_cannot_be_read_is_not_taken_for_none() {
        use std::os::unix::ffi::OsStringExt;
        let read = |bytes: &[u8]| from_variable(Some(OsString::from_vec(bytes.to_vec())), "NAME");
        assert_eq!(read(b"s3cret").unwrap().as_deref(), Some("s3cret"));
        assert_eq!((read(b"").unwrap(), from_variable(None, "NAME").unwrap()), (None, None));
        let error = read(b"s3cret\xff").unwrap_err().to_string();
        assert_eq!(error, "NAME: expected UTF-8");
    }

    #[test]
    fn only_files_of_ones_own_are_read_and_nothing_of_them_is_said() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "s3cret\n").unwrap();
        assert_eq!(read_secret_file(file.path()).unwrap(), "s3cret");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
        let error = read_secret_file(file.path()).unwrap_err().to_string();
        assert!(error.contains("0600") && !error.contains("s3cret"), "{error}");
        assert!(read_secret_file(Path::new("/dev/zero")).is_err());
        assert!(read_secret_file(Path::new("/nowhere")).is_err());
    }
}
