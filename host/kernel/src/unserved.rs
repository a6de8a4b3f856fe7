//! Mounts without their server.
//!
//! The kernel answers for such a mount at once. Where a server is there and stopped, it may have
//! taken the request before it stopped: then not even SIGKILL ends the wait, and a process with a
//! thread in it cannot end. So processes of their own ask, and this one does not wait for them.

use std::ffi::CString;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, waitpid};

/// Seconds after which an asking process ends itself, if the kernel lets it.
const ASKING_SECONDS: u32 = 2;

/// Those of `paths`, mount points of FUSE, that have no server any more. All are asked at the same
/// time, so that stopped servers cost one `patience` together; they are not named.
///
/// # Errors
/// When no pipe or process can be made.
pub fn unserved(paths: Vec<PathBuf>, patience: Duration) -> io::Result<Vec<PathBuf>> {
    if paths.is_empty() {
        return Ok(paths);
    }
    let deadline = Instant::now() + patience;
    let is_dead = ask(&paths, deadline)?;
    Ok(paths.into_iter().zip(is_dead).filter_map(|(path, is_dead)| is_dead.then_some(path)).collect())
}

fn ask(paths: &[PathBuf], deadline: Instant) -> io::Result<Vec<bool>> {
    let names: Vec<CString> = paths.iter().map(|path| name(path)).collect::<io::Result<_>>()?;
    let (answers, sender) = pipe_with(PipeFlags::CLOEXEC)?;
    // SAFETY: the child calls functions that are safe after a fork of a process with threads, on
    // memory that was prepared before, and ends by `_exit`.
    match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => start_asking(&names, sender.as_raw_fd()),
        child => {
            // The child waits for nothing. One that is not found was reaped elsewhere.
            let _ = retry_on_intr(|| waitpid(Pid::from_raw(child), WaitOptions::empty()));
        }
    }
    drop(sender);
    collect(answers, paths.len(), deadline)
}

fn name(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// In the child: a process for each name, which the child leaves to init. Allocates nothing.
fn start_asking(names: &[CString], sender: RawFd) -> ! {
    // SAFETY: system calls on descriptors and on strings that end with a zero; no memory of this
    // process is freed or locked. A hung process would hold other descriptors and the working
    // directory: they are given up first.
    unsafe {
        if sender > 0 {
            libc::syscall(libc::SYS_close_range, 0, sender - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, sender + 1, libc::c_int::MAX, 0);
        libc::chdir(c"/".as_ptr());
        for (number, name) in (0_u32..).zip(names) {
            if libc::fork() == 0 {
                libc::signal(libc::SIGALRM, libc::SIG_DFL);
                libc::alarm(ASKING_SECONDS);
                let mut stat = std::mem::zeroed::<libc::statfs>();
                if libc::statfs(name.as_ptr(), &raw mut stat) != 0 && is_unserved(*libc::__errno_location()) {
                    libc::write(sender, (&raw const number).cast(), size_of::<u32>());
                }
                libc::_exit(0);
            }
        }
        libc::_exit(0)
    }
}

fn is_unserved(error: libc::c_int) -> bool {
    error == libc::ENOTCONN || error == libc::ECONNABORTED
}

/// The numbers that come before the deadline, or until every process has ended.
fn collect(answers: OwnedFd, count: usize, deadline: Instant) -> io::Result<Vec<bool>> {
    let mut is_dead = vec![false; count];
    let mut answers = std::fs::File::from(answers);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::from_borrowed_fd(answers.as_fd(), PollFlags::IN)], Some(&left)) {
            Ok(0) => return Ok(is_dead),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        // Numbers are written whole: they are shorter than a pipe's smallest whole write.
        let mut number = [0; size_of::<u32>()];
        if answers.read(&mut number)? < number.len() {
            return Ok(is_dead);
        }
        if let Some(dead) = is_dead.get_mut(u32::from_ne_bytes(number) as usize) {
            *dead = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_served_or_no_mount_is_not_named() {
        let start = Instant::now();
        let paths = vec![PathBuf::from("/"), PathBuf::from("/proc"), PathBuf::from("/nowhere")];
        assert_eq!(unserved(paths, Duration::from_secs(10)).unwrap(), Vec::<PathBuf>::new());
        assert!(start.elapsed() < Duration::from_secs(9), "the end of all processes ends the wait");
        assert!(unserved(vec![PathBuf::from("/a\0b")], Duration::ZERO).is_err());
    }
}
