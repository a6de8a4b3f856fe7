//! `pantler mount` and `pantler umount`.

use anyhow::Result;
use pantler_control::ControlError;

use crate::args;

/// Mounts a directory.
pub fn mount(arguments: &args::Mount) -> Result<()> {
    let _ = arguments;
    Err(ControlError::unsupported("mounting").into())
}

/// Unmounts what `mount` mounted.
pub fn umount(arguments: &args::Umount) -> Result<()> {
    let _ = arguments;
    Err(ControlError::unsupported("mounting").into())
}
