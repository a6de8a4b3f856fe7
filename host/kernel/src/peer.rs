//! The process at the other end of a socket, as a descriptor that no later process of its number
//! gets.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// `SO_PEERPIDFD` of Linux 6.5.
const SO_PEERPIDFD: libc::c_int = 77;

/// A process, until it has ended.
#[derive(Debug)]
pub struct Peer(OwnedFd);

impl Peer {
    /// The process that connected this socket; before Linux 6.5 the one that has `pid`, the number
    /// that the socket tells, now.
    ///
    /// # Errors
    /// It is gone.
    pub fn of(socket: BorrowedFd<'_>, pid: u32) -> io::Result<Peer> {
        let mut descriptor: libc::c_int = -1;
        let mut length = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes: the size of what it writes to, which
        // lives through the call.
        let told = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                SO_PEERPIDFD,
                (&raw mut descriptor).cast(),
                &mut length,
            )
        };
        if told == 0 && descriptor >= 0 {
            // SAFETY: a new descriptor, which is only here.
            return Ok(Peer(unsafe { OwnedFd::from_raw_fd(descriptor) }));
        }
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
        Ok(Peer(pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        let mut polled = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec::default())).is_ok_and(|told| told > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn this_process_is_at_the_other_end() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert!(!Peer::of(one.as_fd(), std::process::id()).unwrap().has_ended());
    }

    #[test]
    fn a_process_that_ended_is_told() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        // No socket: the number is taken.
        let file = tempfile::tempfile().unwrap();
        let peer = Peer::of(file.as_fd(), child.id()).unwrap();
        child.wait().unwrap();
        assert!(peer.has_ended());
    }
}
