//! Memory that two processes share, and memory that a fork clears.
//!
//! Both are atomic words, so that what another process writes there meanwhile is a value, and no
//! undefined behaviour.

use std::ffi::CStr;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// The file keeps its size: no access behind its end can end a process that maps it.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A mapping, until it is dropped.
#[derive(Debug)]
struct Mapped {
    first: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the words are atomic, and the mapping belongs to this value alone.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    fn new(at: *mut std::ffi::c_void, count: usize) -> io::Result<Mapped> {
        let first = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapped { first, count })
    }
}

impl Deref for Mapped {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has `count` words, is aligned to a page, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and no reference outlives `self`.
        let _ = unsafe { munmap(self.first.as_ptr().cast(), self.count * size_of::<u64>()) };
    }
}

/// Words of a sealed file in memory, which another process may map, too.
#[derive(Debug)]
pub struct SharedWords {
    words: Mapped,
    name: u64,
}

impl SharedWords {
    /// Makes `count` words, all 0, and the file that another process [opens](Self::open) them by.
    /// Neither outlives an exec.
    ///
    /// # Errors
    /// Out of descriptors or memory.
    pub fn create(name: &CStr, count: usize) -> io::Result<(SharedWords, OwnedFd)> {
        let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, (count * size_of::<u64>()) as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        Ok((Self::open(file.as_fd(), count)?, file))
    }

    /// Maps the `count` words that another process made. The file may be closed afterwards.
    ///
    /// # Errors
    /// `InvalidData` for a file that is not in memory, could still change its size, or has another
    /// one.
    pub fn open(file: BorrowedFd<'_>, count: usize) -> io::Result<SharedWords> {
        let bytes = count * size_of::<u64>();
        // Only files in memory have seals. The size is looked at when it can change no more.
        let seals = fcntl_get_seals(file).map_err(|_| io::ErrorKind::InvalidData)?;
        let told = fstat(file)?;
        if !seals.contains(SEALS) || told.st_size != bytes as i64 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let at = unsafe { mmap(null_mut(), bytes, rights, MapFlags::SHARED, file, 0) }?;
        Ok(SharedWords { words: Mapped::new(at, count)?, name: told.st_ino })
    }

    /// What tells these words from others, for all that have them: the inode of their file.
    pub fn name(&self) -> u64 {
        self.name
    }
}

impl Deref for SharedWords {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        &self.words
    }
}

/// A mark that a forked child does not have. To look at it takes no system call, and no lock that
/// another thread may hold when a child is forked.
#[derive(Debug, Default)]
pub struct ForkMark(AtomicPtr<AtomicU64>);

impl ForkMark {
    /// A mark that is not set, and takes no memory yet.
    pub const fn new() -> ForkMark {
        ForkMark(AtomicPtr::new(null_mut()))
    }

    /// Sets it in this process. Out of memory, and before Linux 4.14, it stays as it is.
    pub fn set(&self) {
        if self.word().is_none()
            && let Ok(page) = wiped_on_fork()
        {
            let placed = self.0.compare_exchange(null_mut(), page, Ordering::AcqRel, Ordering::Acquire);
            if placed.is_err() {
                unmap(page);
            }
        }
        if let Some(word) = self.word() {
            word.store(1, Ordering::Release);
        }
    }

    /// Whether it was set in a process that this one was forked from, and not here.
    pub fn is_wiped(&self) -> bool {
        self.word().is_some_and(|word| word.load(Ordering::Acquire) == 0)
    }

    /// Whether it was set in this process.
    pub fn is_set(&self) -> bool {
        self.word().is_some_and(|word| word.load(Ordering::Acquire) != 0)
    }

    fn word(&self) -> Option<&AtomicU64> {
        // SAFETY: null, or a page that stays mapped until `self` is dropped.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }
}

impl Drop for ForkMark {
    fn drop(&mut self) {
        unmap(*self.0.get_mut());
    }
}

/// A page with the mark, and of zeros in each child.
fn wiped_on_fork() -> io::Result<*mut AtomicU64> {
    let (bytes, rights) = (rustix::param::page_size(), ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: a new mapping, at a place that the kernel chooses.
    let page = unsafe { mmap_anonymous(null_mut(), bytes, rights, MapFlags::PRIVATE) }?;
    // SAFETY: the page was just mapped.
    let advised = unsafe { madvise(page, bytes, Advice::LinuxWipeOnFork) };
    if let Err(error) = advised {
        unmap(page.cast());
        return Err(error.into());
    }
    let page: *mut AtomicU64 = page.cast();
    // SAFETY: a page that was just mapped, and that only this function has.
    unsafe { &*page }.store(1, Ordering::Relaxed);
    Ok(page)
}

/// Gives such a page back, if there is one.
fn unmap(page: *mut AtomicU64) {
    if !page.is_null() {
        // SAFETY: `wiped_on_fork` mapped it, and the caller has the only pointer.
        let _ = unsafe { munmap(page.cast(), rustix::param::page_size()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_show_the_same_words() {
        let (one, file) = SharedWords::create(c"test", 600).unwrap();
        let other = SharedWords::open(file.as_fd(), 600).unwrap();
        drop(file);
        one[599].store(7, Ordering::Release);
        assert_eq!((other[599].load(Ordering::Acquire), other.len()), (7, 600));
        let (third, _) = SharedWords::create(c"test", 600).unwrap();
        assert!(one.name() == other.name() && one.name() != third.name());
    }

    #[test]
    fn a_file_that_could_shrink_is_refused() {
        let refused = |file: BorrowedFd<'_>| SharedWords::open(file, 512).unwrap_err().kind();
        let file = memfd_create(c"test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, 4096).unwrap();
        assert_eq!(refused(file.as_fd()), io::ErrorKind::InvalidData, "no seal");
        fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SEAL).unwrap();
        assert_eq!(refused(file.as_fd()), io::ErrorKind::InvalidData, "one that may shrink");
        let (_, sealed) = SharedWords::create(c"test", 513).unwrap();
        assert_eq!(refused(sealed.as_fd()), io::ErrorKind::InvalidData, "another size");
        let plain = tempfile::tempfile().unwrap();
        plain.set_len(4096).unwrap();
        assert_eq!(refused(plain.as_fd()), io::ErrorKind::InvalidData, "a file of a disk");
    }

    #[test]
    fn a_child_does_not_have_the_mark() {
        let mark = ForkMark::new();
        assert!(!mark.is_set() && !mark.is_wiped());
        mark.set();
        assert!(!mark.is_wiped());
        // SAFETY: the child does nothing but look and end.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends the child without running what other threads left.
            unsafe { libc::_exit(i32::from(mark.is_set() || !mark.is_wiped())) };
        }
        let mut status = -1;
        // SAFETY: waits for the child of above, and writes where it may.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!((status, mark.is_set()), (0, true));
    }
}
