//! Extended attributes of a node.

use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;

use super::LocalNode;

/// The largest value and the longest list the kernel allows.
const XATTR_BYTES_MAX: usize = 64 << 10;

impl LocalNode {
    /// The value of an extended attribute.
    ///
    /// # Errors
    /// The system's; `ENODATA` when there is none.
    pub fn xattr(&self, name: &OsStr) -> io::Result<Vec<u8>> {
        whole(|buffer| rustix::fs::getxattr(self.own_path(), name, buffer))
    }

    /// The names of all extended attributes, each followed by a zero byte.
    pub fn xattr_names(&self) -> io::Result<Vec<u8>> {
        whole(|buffer| rustix::fs::listxattr(self.own_path(), buffer))
    }

    /// Sets an extended attribute. `flags` as for `setxattr`.
    pub fn set_xattr(&self, name: &OsStr, value: &[u8], flags: u32) -> io::Result<()> {
        let flags = XattrFlags::from_bits(flags).ok_or(Errno::INVAL)?;
        Ok(rustix::fs::setxattr(self.own_path(), name, value, flags)?)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// The system's; `ENODATA` when there is none.
    pub fn remove_xattr(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::removexattr(self.own_path(), name)?)
    }
}

fn whole(get: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> io::Result<Vec<u8>> {
    let mut value = vec![0; 256];
    loop {
        match get(&mut value) {
            Ok(length) => {
                value.truncate(length);
                return Ok(value);
            }
            Err(Errno::RANGE) if value.len() < XATTR_BYTES_MAX => value.resize(XATTR_BYTES_MAX, 0),
            Err(error) => return Err(error.into()),
        }
    }
}
