//! Advice of programs: from a descriptor of a thread to its file, and on to the engine.
//!
//! A descriptor is looked up when the call is taken from the trace buffer, some milliseconds after
//! it. If it is closed by then, the advice is lost. If it is another file by then, the advice is
//! about that one: it may be wrong, as advice may be, and harms its owner alone.

use std::os::fd::AsFd;

use rustix::fs::{FileType, Mode, OFlags};

use pantler_pagecache::Advice;

use crate::steering::{SOURCE_RUN, Steering};

/// Descriptors that are looked up between two rounds. Each is an open of a file of `/proc`, or a
/// look at all mounts, and the thread that does it is that of all runs.
const LOOKS_MAX: u32 = 64;

/// What a descriptor was, when it was looked up.
struct Advised {
    file: u32,
    size: u64,
}

impl Steering {
    /// A thread is about to advise the kernel.
    pub(crate) fn advised(&mut self, time_ns: u64, thread: u32, descriptor: i32, advice: Advice) {
        let Some(owner) = self.owner_of(thread, SOURCE_RUN) else { return };
        self.advice_looks += 1;
        let known = (self.advice_looks <= LOOKS_MAX).then(|| self.look_up(time_ns, thread, descriptor));
        let Some(known) = known.flatten() else {
            self.advice_missed += 1;
            return;
        };
        if matches!(advice, Advice::Normal | Advice::Random | Advice::Sequential) {
            self.hands.leave_readahead(thread, descriptor);
        }
        self.engine.advise(thread, owner, known.file, advice, known.size);
    }

    /// The regular file that a thread has open under this number.
    fn look_up(&mut self, time_ns: u64, thread: u32, descriptor: i32) -> Option<Advised> {
        let link = format!("/proc/{thread}/fd/{descriptor}");
        let opened = rustix::fs::open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        if !self.hands.files.is_steered(opened.as_fd()) {
            return None;
        }
        let stat = rustix::fs::fstat(&opened).ok()?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return None;
        }
        let file = self.file_of_opened(opened.as_fd())?;
        if !self.engine.file(file).is_found() && self.hands.files.accept_opened(file, opened.as_fd(), time_ns)
        {
            self.apply_profiles(file);
            self.engine.set_size(file, self.hands.files.size_blocks(file));
        }
        Some(Advised { file, size: stat.st_size as u64 })
    }
}
