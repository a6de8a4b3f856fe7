//! Asking the kernel to forget the names that no program uses.
//!
//! The kernel keeps names until it needs the memory, and each costs memory or a descriptor here.
//! Linux 6.18 can be asked to let go of them (`FUSE_NOTIFY_PRUNE`); before, they stay.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, OnceLock};

/// `FUSE_NOTIFY_PRUNE` of the kernel's `fuse.h`, which `fuser` does not know.
const NOTIFY_PRUNE: i32 = 9;
/// Bytes of `fuse_out_header` and `fuse_notify_prune_out`.
const HEADER_BYTES: usize = 16 + 16;
/// Inodes named in one message.
const INODES_MAX: usize = 512;

/// A mount's way to tell the kernel, once it is mounted.
#[derive(Debug, Default)]
pub(crate) struct Pruning {
    device: OnceLock<OwnedFd>,
    /// Held while the kernel is told: it may wait for requests, so one service thread at a time
    /// does it.
    turn: Mutex<()>,
}

impl Pruning {
    /// The mount is served through this descriptor.
    pub(crate) fn begin(&self, device: OwnedFd) {
        // There is one session for each mount.
        let _ = self.device.set(device);
    }

    /// Asks the kernel to forget these inodes, except where programs use them. The answers are
    /// requests to forget. Does nothing while another thread asks.
    pub(crate) fn forget(&self, inodes: impl FnOnce() -> Vec<u64>) {
        let (Some(device), Ok(_turn)) = (self.device.get(), self.turn.try_lock()) else { return };
        for some in inodes().chunks(INODES_MAX) {
            // A kernel that does not know the message refuses it, and forgets when it likes.
            if tell(device, some).is_err() {
                return;
            }
        }
    }
}

fn tell(device: &OwnedFd, inodes: &[u64]) -> io::Result<()> {
    let length = (HEADER_BYTES + 8 * inodes.len()) as u32;
    let words = [length.to_ne_bytes(), NOTIFY_PRUNE.to_ne_bytes()].concat();
    let unique = 0u64.to_ne_bytes();
    let counts = [(inodes.len() as u32).to_ne_bytes(), [0; 4]].concat();
    let spare = 0u64.to_ne_bytes();
    let numbers: Vec<u8> = inodes.iter().flat_map(|inode| inode.to_ne_bytes()).collect();
    let parts = [&words[..], &unique, &counts, &spare, &numbers].map(IoSlice::new);
    rustix::io::writev(device, &parts)?;
    Ok(())
}
