//! Errors of the origin on their way to the program that asked.

use fuser::Errno;
use std::io;

/// The errno of an error, unchanged. What has none becomes `EIO`. That this process has too many
/// files open is not the caller's doing: for the caller the file system has.
pub(crate) fn errno(error: io::Error) -> Errno {
    match error.raw_os_error() {
        Some(libc::EMFILE) => Errno::ENFILE,
        Some(code) => Errno::from_i32(code),
        None => Errno::EIO,
    }
}
