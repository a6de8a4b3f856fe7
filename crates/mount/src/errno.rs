//! Errors of the origin on their way to the program that asked.

use fuser::Errno;
use std::io;

/// The errno of an error. What has none becomes `EIO`; a name that is resolved beneath the origin never leaves it, so
/// `EXDEV` from such a walk means "no such file".
pub(crate) fn errno(error: io::Error) -> Errno {
    match error.raw_os_error() {
        Some(code) => Errno::from_i32(code),
        None => Errno::EIO,
    }
}
