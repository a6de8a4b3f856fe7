//! The name that a file system gives a file: survives closing, not deletion.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The longest file handle the kernel makes (`MAX_HANDLE_SZ`).
const HANDLE_BYTES: usize = 128;

/// A file's name for its file system.
///
/// A `struct file_handle` of the kernel's: the number of bytes of the handle, its kind, and the
/// handle, as long as it is and no longer, because there is one for each file of a run.
#[derive(Clone, Debug)]
pub struct FileHandle(Box<[u32]>);

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
        let bytes = outer.bytes();
        let (&version, &magic, &length, &kind) = (bytes.get(3)?, bytes.get(4)?, bytes.get(5)?, bytes.get(7)?);
        if outer.kind() != OVERLAY || (version, magic) != (0, 0xfb) {
            return None;
        }
        let inner = bytes.get(HEAD_BYTES..usize::from(length) + 3)?;
        Some(FileHandle::new(kind.into(), inner))
    }

    fn new(kind: i32, handle: &[u8]) -> FileHandle {
        let word = |bytes: &[u8]| {
            let mut word = [0; 4];
            word[..bytes.len()].copy_from_slice(bytes);
            u32::from_ne_bytes(word)
        };
        FileHandle([handle.len() as u32, kind as u32].into_iter().chain(handle.chunks(4).map(word)).collect())
    }

    fn kind(&self) -> i32 {
        self.0[1] as i32
    }

    fn bytes(&self) -> Vec<u8> {
        self.0[2..].iter().flat_map(|word| word.to_ne_bytes()).take(self.0[0] as usize).collect()
    }

    fn ask(file: BorrowedFd<'_>, flags: libc::c_int) -> io::Result<FileHandle> {
        let mut handle = [0u32; 2 + HANDLE_BYTES / 4];
        handle[0] = HANDLE_BYTES as u32;
        let mut mount_id: libc::c_int = 0;
        // SAFETY: `handle` is laid out as `struct file_handle` with room for `bytes` bytes; the
        // path is an empty string with its zero byte; `mount_id` is an int. All live through the
        // call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_name_to_handle_at,
                file.as_raw_fd(),
                c"".as_ptr(),
                handle.as_mut_ptr(),
                std::ptr::from_mut(&mut mount_id),
                flags,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        let words = 2 + (handle[0] as usize).div_ceil(4);
        Ok(FileHandle(handle[..words].into()))
    }

    /// A handle made of an inode number alone. ext2, ext3 and ext4 take generation 0 for any
    /// (`ext4_nfs_get_inode`); other file systems answer `ESTALE`. `None` when the number has more
    /// than 32 bits.
    pub fn by_inode(ino: u64) -> Option<FileHandle> {
        /// `FILEID_INO32_GEN` of the kernel's exportfs.h: inode number and generation, 32 bits
        /// each.
        const INODE_AND_GENERATION: i32 = 1;
        Some(FileHandle([8, INODE_AND_GENERATION as u32, u32::try_from(ino).ok()?, 0].into()))
    }

    /// Opens the file again for reading; `mount` is any descriptor on its mount. Needs
    /// CAP_DAC_READ_SEARCH.
    ///
    /// # Errors
    /// `ESTALE` when the file is gone.
    pub fn open(&self, mount: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        self.open_with(mount, libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOATIME)
    }

    /// As [`open`](Self::open), by name only (`O_PATH`): nothing that watches the file is told.
    ///
    /// # Errors
    /// `ESTALE` when the file is gone.
    pub fn name(&self, mount: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        self.open_with(mount, libc::O_PATH)
    }

    fn open_with(&self, mount: BorrowedFd<'_>, flags: libc::c_int) -> io::Result<OwnedFd> {
        let flags = flags | libc::O_CLOEXEC;
        // SAFETY: the words are a `struct file_handle`, with as many bytes as it says; they are
        // only read.
        let result =
            unsafe { libc::syscall(libc::SYS_open_by_handle_at, mount.as_raw_fd(), self.0.as_ptr(), flags) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call returned a new descriptor without another owner.
        Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
    }
}
