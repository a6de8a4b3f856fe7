//! The name that a file system gives a file: survives closing, not deletion.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The longest file handle the kernel makes (`MAX_HANDLE_SZ`).
const HANDLE_BYTES: usize = 128;

/// A file's name for its file system.
#[derive(Clone)]
#[repr(C)]
pub struct FileHandle {
    bytes: u32,
    kind: i32,
    handle: [u8; HANDLE_BYTES],
}

impl std::fmt::Debug for FileHandle {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("FileHandle").field("kind", &self.kind).field("bytes", &self.bytes).finish()
    }
}

impl FileHandle {
    /// The handle of an open file.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the file system has none.
    pub fn of(file: BorrowedFd<'_>) -> io::Result<FileHandle> {
        FileHandle::ask(file, libc::AT_EMPTY_PATH)
    }

    /// The handle of the file below a file of an overlay: what the overlay's own handle wraps
    /// (`struct ovl_fh`). A file that was copied up has that of the file it came from. `None` where
    /// the overlay tells of none, before Linux 6.6.
    pub fn below(file: BorrowedFd<'_>) -> Option<FileHandle> {
        /// A name to compare, not to open: overlays have those always, and others only when they
        /// are exported.
        const AT_HANDLE_FID: libc::c_int = 0x200;
        /// `OVL_FILEID_V1`.
        const OVERLAY: i32 = 0xf8;
        /// Three bytes to align it, then version, magic, length from the version on, flags, type,
        /// and 16 bytes of UUID.
        const HEAD_BYTES: usize = 24;
        let outer = FileHandle::ask(file, libc::AT_EMPTY_PATH | AT_HANDLE_FID).ok()?;
        let bytes = outer.handle.get(..outer.bytes as usize)?;
        let (&version, &magic, &length, &kind) = (bytes.get(3)?, bytes.get(4)?, bytes.get(5)?, bytes.get(7)?);
        if outer.kind != OVERLAY || (version, magic) != (0, 0xfb) {
            return None;
        }
        let inner = bytes.get(HEAD_BYTES..usize::from(length) + 3)?;
        let mut handle = [0; HANDLE_BYTES];
        handle[..inner.len()].copy_from_slice(inner);
        Some(FileHandle { bytes: inner.len() as u32, kind: kind.into(), handle })
    }

    fn ask(file: BorrowedFd<'_>, flags: libc::c_int) -> io::Result<FileHandle> {
        let mut handle = FileHandle { bytes: HANDLE_BYTES as u32, kind: 0, handle: [0; HANDLE_BYTES] };
        let mut mount_id: libc::c_int = 0;
        // SAFETY: `handle` is laid out as `struct file_handle` with room for `bytes` bytes; the
        // path is an empty string with its zero byte; `mount_id` is an int. All live through the
        // call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_name_to_handle_at,
                file.as_raw_fd(),
                c"".as_ptr(),
                std::ptr::from_mut(&mut handle),
                std::ptr::from_mut(&mut mount_id),
                flags,
            )
        };
        if result == 0 { Ok(handle) } else { Err(io::Error::last_os_error()) }
    }

    /// A handle made of an inode number alone. ext2, ext3 and ext4 take generation 0 for any
    /// (`ext4_nfs_get_inode`); other file systems answer `ESTALE`. `None` when the number has more
    /// than 32 bits.
    pub fn by_inode(ino: u64) -> Option<FileHandle> {
        /// `FILEID_INO32_GEN` of the kernel's exportfs.h: inode number and generation, 32 bits
        /// each.
        const INODE_AND_GENERATION: i32 = 1;
        let mut handle = [0; HANDLE_BYTES];
        handle[..4].copy_from_slice(&u32::try_from(ino).ok()?.to_ne_bytes());
        Some(FileHandle { bytes: 8, kind: INODE_AND_GENERATION, handle })
    }

    /// Opens the file again for reading; `mount` is any descriptor on its mount. Needs
    /// CAP_DAC_READ_SEARCH.
    ///
    /// # Errors
    /// `ESTALE` when the file is gone.
    pub fn open(&self, mount: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOATIME;
        // SAFETY: `self` is a `struct file_handle` as the kernel wrote it; it is only read.
        let result = unsafe {
            libc::syscall(libc::SYS_open_by_handle_at, mount.as_raw_fd(), std::ptr::from_ref(self), flags)
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call returned a new descriptor without another owner.
        Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
    }
}
