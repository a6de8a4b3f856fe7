//! Taking readahead over from the kernel for one open file.
//!
//! `POSIX_FADV_RANDOM` on a duplicate of the program's own descriptor (the same open file
//! description) switches the kernel's readahead off for that description only, and keeps folios at
//! one page. `POSIX_FADV_NORMAL` restores it. The duplicate is closed at once, so that locks,
//! unlinked files and mounts end when the program ends them.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use pantler_kernel::process::{descriptor_of, process_of};

use crate::files::Descriptor;

/// Open files remembered for restoring; of more than these the first taken stay as they are.
pub const TAKEN_OVER_MAX: usize = 1024;

/// The open files with readahead that is ours.
#[derive(Debug, Default)]
pub struct TakenOver {
    /// By process.
    taken: Vec<(u32, Descriptor)>,
    oldest: usize,
}

impl TakenOver {
    /// Switches the kernel's readahead off for a descriptor of a thread's process. On an overlay
    /// that reaches the open file below.
    ///
    /// # Errors
    /// The process is gone, the descriptor is another file by now, or we may not.
    pub fn take(&mut self, tid: u32, descriptor: Descriptor) -> io::Result<()> {
        let pid = process_of(tid).ok_or(io::ErrorKind::NotFound)?;
        advise(pid, descriptor, rustix::fs::Advice::Random)?;
        if self.taken.len() < TAKEN_OVER_MAX {
            self.taken.push((pid, descriptor));
        } else {
            self.taken[self.oldest] = (pid, descriptor);
            self.oldest = (self.oldest + 1) % TAKEN_OVER_MAX;
        }
        Ok(())
    }

    /// A thread advised about the readahead of this descriptor itself: that shall stay.
    pub fn forget(&mut self, tid: u32, number: i32) {
        if self.taken.iter().any(|(_, descriptor)| descriptor.number == number) {
            let process = process_of(tid);
            self.taken.retain(|(pid, it)| it.number != number || Some(*pid) != process);
            self.oldest = 0;
        }
    }

    /// Gives readahead back to the kernel wherever one of these processes has the file open still.
    pub fn restore(&mut self, processes: impl Fn(u32) -> bool) {
        self.taken.retain(|&(pid, descriptor)| {
            let ends = processes(pid);
            if ends {
                let _ = advise(pid, descriptor, rustix::fs::Advice::Normal);
            }
            !ends
        });
        self.oldest = 0;
    }
}

fn advise(pid: u32, descriptor: Descriptor, advice: rustix::fs::Advice) -> io::Result<()> {
    let file = fs::File::from(descriptor_of(pid, descriptor.number)?);
    // The number may be another file by now.
    if file.metadata()?.ino() != descriptor.ino {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(rustix::fs::fadvise(&file, 0, None, advice)?)
}
