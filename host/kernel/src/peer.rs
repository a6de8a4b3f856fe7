//! The process at the other end of a socket, as a descriptor that no later process of its number
//! gets.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, Mode, OFlags, fstat, open, statat};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::process::user_of;

/// `SO_PEERPIDFD` of Linux 6.5.
const SO_PEERPIDFD: libc::c_int = 77;

/// A process, until it has ended.
#[derive(Debug)]
pub struct Peer {
    process: OwnedFd,
    pid: u32,
    /// Its folder in `/proc`, which no later process of its number gets either.
    folder: OwnedFd,
}

impl Peer {
    /// The process that connected this socket, with the number that the socket tells.
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
        if told != 0 {
            let error = io::Error::last_os_error();
            // Before Linux 6.5: the one that has the number now.
            let is_unknown = error.raw_os_error() == Some(libc::ENOPROTOOPT);
            return if is_unknown { Peer::with_number(pid) } else { Err(error) };
        }
        if descriptor < 0 {
            return Err(io::ErrorKind::NotFound.into());
        }
        // SAFETY: a new descriptor, which is only here.
        Peer::new(unsafe { OwnedFd::from_raw_fd(descriptor) }, pid)
    }

    /// The process that has this number now.
    ///
    /// # Errors
    /// There is none.
    pub fn with_number(pid: u32) -> io::Result<Peer> {
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
        Peer::new(pidfd_open(number, PidfdFlags::empty())?, pid)
    }

    fn new(process: OwnedFd, pid: u32) -> io::Result<Peer> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = open(format!("/proc/{pid}"), flags, Mode::empty())?;
        let peer = Peer { process, pid, folder };
        // Asked last: the folder is its own.
        if peer.has_ended() { Err(io::ErrorKind::NotFound.into()) } else { Ok(peer) }
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        let mut polled = [PollFd::new(&self.process, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec::default())).is_ok_and(|told| told > 0)
    }

    /// The user that may give hints about it now, as [`user_of`] has it. `None` once it has ended.
    pub fn user(&self) -> Option<u32> {
        // The number is another's only after it has ended.
        user_of(self.pid).filter(|_| !self.has_ended())
    }

    /// Whether that [user](Self::user) is this one. Two system calls, where it has nothing to hide.
    pub fn is_of(&self, user: u32) -> bool {
        // The folder is shown as its effective user's. What is in it is root's, too, from an exec
        // that gives it rights of two users on.
        let shown = match user {
            0 => fstat(&self.folder),
            _ => statat(&self.folder, c"status", AtFlags::empty()),
        };
        match shown {
            Ok(shown) if shown.st_uid == user => !self.has_ended(),
            _ => self.user() == Some(user),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    #[test]
    fn this_process_is_at_the_other_end() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert!(!Peer::of(one.as_fd(), std::process::id()).unwrap().has_ended());
    }

    #[test]
    fn a_process_that_ended_is_told() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let peer = Peer::with_number(child.id()).unwrap();
        let own = rustix::process::geteuid().as_raw();
        assert!(!peer.has_ended() && peer.is_of(own) && peer.user() == Some(own) && !peer.is_of(own + 1));
        child.kill().and_then(|()| child.wait()).unwrap();
        assert!(peer.has_ended() && !peer.is_of(own) && peer.user().is_none());
    }

    #[test]
    fn what_is_no_socket_has_no_process() {
        let file = tempfile::tempfile().unwrap();
        assert!(Peer::of(file.as_fd(), std::process::id()).is_err());
    }

    /// The user that began a set-user program does not control it. Needs root.
    #[test]
    fn an_exec_with_more_rights_is_of_another_user() {
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "programs of two users need root");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let program = folder.path().join("sleep");
        std::fs::copy("/bin/sleep", &program).unwrap();
        std::fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "read line; exec \"$0\" 60"]).arg(&program);
        let mut child = command.uid(65534).gid(65534).stdin(Stdio::piped()).spawn().unwrap();
        let peer = Peer::with_number(child.id()).unwrap();
        assert!(peer.is_of(65534) && !peer.is_of(0) && peer.user() == Some(65534));
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while peer.is_of(65534) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let told = (peer.has_ended(), peer.is_of(65534), peer.is_of(0), peer.user());
        child.kill().and_then(|()| child.wait()).unwrap();
        assert_eq!(told, (false, false, true, Some(0)));
    }
}
