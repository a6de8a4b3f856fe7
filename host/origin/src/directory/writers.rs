//! Whether a process may be writing to a file at this moment.

use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `F_SETSIG` of Linux: the signal that tells the holder of a lease that a process wants to open
/// the file.
const SET_SIGNAL: libc::c_int = 10;

/// Whether the file, which is open here for reading only, is open for writing anywhere on this
/// machine, or mapped so that stores change it. Nothing, where the kernel does not say: on file
/// systems without leases, and of other users' files without `CAP_LEASE`.
///
/// Asks by taking a lease and giving it back at once. A process that opens the file for writing in
/// between waits for that long, and with `O_NONBLOCK` is told to try again.
pub fn has_writers(file: BorrowedFd<'_>) -> Option<bool> {
    let ask = |command: libc::c_int, argument: libc::c_int| {
        // SAFETY: the descriptor is open, and none of the commands used here takes a pointer.
        match unsafe { libc::fcntl(file.as_raw_fd(), command, argument) } {
            -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error())),
            _ => Ok(()),
        }
    };
    // An open in between is announced by a signal, which is to be one that is ignored: `SIGIO`
    // ends a process.
    ask(SET_SIGNAL, libc::SIGURG).ok()?;
    match ask(libc::F_SETLEASE, libc::F_RDLCK) {
        Ok(()) => {
            // Another thread that asked through the same descriptor may have given it back for us.
            let _ = ask(libc::F_SETLEASE, libc::F_UNLCK);
            Some(false)
        }
        Err(Some(Errno::AGAIN)) => Some(true),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, OpenOptions};
    use std::os::fd::AsFd;

    #[test]
    fn writers_and_mappings_are_seen_until_they_are_gone() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [0; 4096]).unwrap();
        let file = File::open(&path).unwrap();
        if has_writers(file.as_fd()).is_none() {
            assert!(std::env::var_os("PANTLER_NO_SKIP").is_none(), "this file system has no leases");
            return eprintln!("SKIPPED: this file system has no leases");
        }
        assert_eq!(has_writers(file.as_fd()), Some(false));
        let reader = File::open(&path).unwrap();
        assert_eq!(has_writers(file.as_fd()), Some(false), "a reader changes nothing");
        let writer = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        assert_eq!((has_writers(file.as_fd()), has_writers(reader.as_fd())), (Some(true), Some(true)));
        let (protection, flags) = (rustix::mm::ProtFlags::WRITE, rustix::mm::MapFlags::SHARED);
        // SAFETY: a new mapping at a place that the kernel chooses.
        let map =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), 4096, protection, flags, &writer, 0) }.unwrap();
        drop(writer);
        assert_eq!(has_writers(file.as_fd()), Some(true), "a mapping is a writer");
        // SAFETY: exactly the mapping made above.
        unsafe { rustix::mm::munmap(map, 4096) }.unwrap();
        assert_eq!(has_writers(file.as_fd()), Some(false));
    }
}
