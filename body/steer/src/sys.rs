//! The system calls of this body that no crate wraps, and small helpers around those that are
//! wrapped.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Bytes of one block: what the page cache calls a page.
pub const BLOCK_BYTES: u64 = 4096;

/// Now, on the clock that the trace uses.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// What `cachestat` counts, in pages.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStat {
    /// In the page cache.
    pub cached: u64,
    /// Not yet written back.
    pub dirty: u64,
    /// Being written back.
    pub writeback: u64,
    /// Left the cache at some time.
    pub evicted: u64,
    /// Left it recently.
    pub recently_evicted: u64,
}

/// Number of the system call on every architecture.
const SYS_CACHESTAT: libc::c_long = 451;

/// Counts the cached pages of a range of blocks, Linux 6.5 and newer. Tells the truth only to who
/// may write the file or owns it.
///
/// # Errors
/// The kernel's answer; `ENOSYS` before 6.5.
pub fn cachestat(file: BorrowedFd<'_>, first: u64, blocks: u64) -> io::Result<CacheStat> {
    let range = [first * BLOCK_BYTES, blocks * BLOCK_BYTES];
    let mut answer = CacheStat::default();
    // SAFETY: `range` is the kernel's `struct cachestat_range` (two u64) and `answer` its `struct
    // cachestat` (five u64, `repr(C)`); both live through the call, and the kernel writes nothing
    // else.
    let result = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), std::ptr::from_mut(&mut answer), 0u32)
    };
    if result == 0 { Ok(answer) } else { Err(io::Error::last_os_error()) }
}

/// Drops the clean, unmapped folios that lie wholly in these blocks from the page cache.
///
/// # Errors
/// The kernel's answer; a page that stays is no error.
pub fn drop_blocks(file: BorrowedFd<'_>, first: u64, blocks: u64) -> io::Result<()> {
    let length = std::num::NonZeroU64::new(blocks * BLOCK_BYTES);
    if length.is_none() {
        return Ok(());
    }
    rustix::fs::fadvise(file, first * BLOCK_BYTES, length, rustix::fs::Advice::DontNeed)
        .map_err(io::Error::from)
}

/// Starts reading these blocks into the page cache; returns when the reads are queued.
///
/// # Errors
/// The kernel's answer.
pub fn read_ahead(file: BorrowedFd<'_>, first: u64, blocks: u64) -> io::Result<()> {
    // SAFETY: no memory is passed; the descriptor is borrowed and open.
    let result = unsafe {
        libc::readahead(
            file.as_raw_fd(),
            (first * BLOCK_BYTES) as libc::off64_t,
            (blocks * BLOCK_BYTES) as usize,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Duplicates descriptor `number` of a process: the same open file description, not a new one.
///
/// # Errors
/// The kernel's answer; needs the rights of ptrace, Linux 5.6.
pub fn descriptor_of(pid: u32, number: i32) -> io::Result<OwnedFd> {
    let pid =
        rustix::process::Pid::from_raw(pid as i32).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    let process = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
    rustix::process::pidfd_getfd(process.as_fd(), number, rustix::process::PidfdGetfdFlags::empty())
        .map_err(io::Error::from)
}

/// The longest file handle the kernel makes (`MAX_HANDLE_SZ`).
const HANDLE_BYTES: usize = 128;

/// A file's name for its file system: survives closing, not deletion.
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
        // SAFETY: the call returned a new descriptor that nobody else owns.
        Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
    }
}

/// Lets this thread's short sleeps be short: the default slack of 50 us is as long as the sleeps
/// themselves.
pub fn sharpen_timers() {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and changes this thread only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000u64) };
}

/// What `sched_setattr` is told, as of Linux 5.3.
#[repr(C)]
#[derive(Default)]
struct Scheduling {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
    utilisation: [u32; 2],
}

/// Has this thread scheduled before others: it works a little, often, and what it decides is stale
/// soon. A short slice lets it in while others are within theirs (Linux 6.12); where that is not
/// known it counts for nothing.
pub fn hurry() {
    const NICE: i32 = -15;
    let wish = Scheduling {
        size: size_of::<Scheduling>() as u32,
        nice: NICE,
        runtime_ns: 100_000,
        ..Scheduling::default()
    };
    // SAFETY: `wish` is a `struct sched_attr` of the size it says; `0` is the calling thread.
    // Without the right to it nothing changes.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(&wish), 0u32) };
}

/// Clock ticks after boot at which a process started: with the process id, a name that is never
/// used twice.
pub fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command may hold spaces and brackets; what follows its last bracket does not.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Whether this kernel knows `cachestat`.
pub fn has_cachestat() -> bool {
    // SAFETY: a descriptor that is none and null pointers: the kernel answers EBADF before it looks
    // at them.
    let result =
        unsafe { libc::syscall(SYS_CACHESTAT, -1, std::ptr::null::<u8>(), std::ptr::null::<u8>(), 0u32) };
    result == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS)
}
