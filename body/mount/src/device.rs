//! `/dev/fuse`: the way to the kernel's FUSE.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

const PATH: &str = "/dev/fuse";
/// Its numbers, fixed by the kernel.
const NUMBERS: (u32, u32) = (10, 229);

/// Opens it.
///
/// # Errors
/// The system's, and `InvalidInput` for another device or a file of that name.
pub fn open() -> Result<File> {
    let file = File::options().read(true).write(true).open(PATH)?;
    let found = file.metadata()?;
    let numbers = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
    if !found.file_type().is_char_device() || numbers != NUMBERS {
        let (major, minor) = NUMBERS;
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!("not the FUSE device, expected the character device {major}:{minor}"),
        ));
    }
    Ok(file)
}

/// What helps against an error of [`open`].
pub fn remedy(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            "run as root, or have root let this user read and write it (chmod 666 /dev/fuse is usual); in a container \
             pass the device (--device /dev/fuse)"
        }
        ErrorKind::InvalidInput => {
            "make it anew (rm /dev/fuse && mknod -m 666 /dev/fuse c 10 229); in a container pass the host's \
             (--device /dev/fuse)"
        }
        _ => "load the module (modprobe fuse), and in a container pass the device (--device /dev/fuse)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_fits_its_error() {
        for (kind, expected) in [
            (ErrorKind::NotFound, "load the module"),
            (ErrorKind::PermissionDenied, "let this user read and write it"),
            (ErrorKind::InvalidInput, "mknod -m 666"),
        ] {
            assert!(remedy(&Error::from(kind)).contains(expected), "{kind:?}");
        }
    }
}
