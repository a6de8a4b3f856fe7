//! An open file of a directory.

use rustix::fs::{Advice, FallocateFlags, Mode, OFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::past_cache::PastCache;
use super::writers::has_writers;
use crate::OpenMode;
use crate::attributes::Attributes;
use crate::source::{READ_BUFFERS_MAX, Source};

/// Bytes written before writing them back is started and what is clean leaves the kernel's page
/// cache.
const WRITE_BEHIND_BYTES: u64 = 4 << 20;

/// A regular file of a directory, open.
///
/// Reads go past the kernel's page cache (`O_DIRECT`) where the file system allows it; elsewhere
/// what they brought in is dropped again. Written bytes are in the kernel's hands when a write
/// returns, so they survive the death of this process; they leave the page cache once they are on
/// the device.
#[derive(Debug)]
pub struct LocalFile {
    /// Through the page cache: writes, and reads where nothing else works.
    plain: File,
    /// Past the page cache.
    direct: PastCache,
    mode: OpenMode,
    /// Bytes written since writing back was last started.
    unwritten: AtomicU64,
    wrote: std::sync::atomic::AtomicBool,
}

impl LocalFile {
    pub(crate) fn new(plain: File, mode: OpenMode) -> Self {
        let (direct, unwritten, wrote) = (PastCache::default(), AtomicU64::new(0), false.into());
        Self { plain, direct, mode, unwritten, wrote }
    }

    /// How it was opened.
    pub fn mode(&self) -> OpenMode {
        self.mode
    }

    /// What the file is like now.
    pub fn attributes(&self) -> io::Result<Attributes> {
        Attributes::of(self.plain.as_fd())
    }

    /// See [`has_writers`]; nothing where it is open for writing here.
    pub fn has_writers(&self) -> Option<bool> {
        if self.mode.writes() { None } else { has_writers(self.plain.as_fd()) }
    }

    /// Writes all of `data` at `offset`, or as much as fits. With `append`, writes where the file
    /// ends, wherever that is by now. Returns the number of bytes written. See
    /// [`write_behind`](Self::write_behind) for afterwards.
    ///
    /// # Errors
    /// The system's, when nothing was written.
    pub fn write_at(&self, offset: u64, data: &[u8], append: bool) -> io::Result<usize> {
        let flags = if append { ReadWriteFlags::APPEND } else { ReadWriteFlags::empty() };
        let mut done = 0;
        while done < data.len() {
            let slices = [io::IoSlice::new(&data[done..])];
            match rustix::io::pwritev2(&self.plain, &slices, offset + done as u64, flags) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(Errno::INTR) => continue,
                Err(error) if done == 0 => return Err(error.into()),
                Err(_) => break,
            }
        }
        self.written(done as u64);
        Ok(done)
    }

    /// Cuts or extends the file.
    pub fn set_len(&self, size: u64) -> io::Result<()> {
        self.plain.set_len(size)
    }

    /// Makes what was written safe against power failure; with `data_only`, leaves out times.
    ///
    /// # Errors
    /// The system's: also of earlier writes that failed on their way to the device.
    pub fn sync(&self, data_only: bool) -> io::Result<()> {
        if data_only {
            self.plain.sync_data()?
        } else {
            self.plain.sync_all()?
        }
        self.drop_clean();
        Ok(())
    }

    /// Reports errors of earlier writes without waiting for the device, as closing a file does.
    pub fn flush(&self) -> io::Result<()> {
        // Closing a duplicate reports what closing the original would.
        let copy: OwnedFd = self.plain.try_clone()?.into();
        // SAFETY: the descriptor is owned here and used no more.
        let result = unsafe { libc::close(std::os::fd::IntoRawFd::into_raw_fd(copy)) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Reserves or releases space. `mode` as for `fallocate`.
    pub fn allocate(&self, mode: u32, offset: u64, length: u64) -> io::Result<()> {
        let mode = FallocateFlags::from_bits(mode).ok_or(Errno::OPNOTSUPP)?;
        Ok(rustix::fs::fallocate(&self.plain, mode, offset, length)?)
    }

    /// Where the next data (or, with `hole`, the next hole) begins at or after `offset`.
    ///
    /// # Errors
    /// The system's; `ENXIO` when there is none.
    pub fn seek(&self, offset: u64, hole: bool) -> io::Result<u64> {
        let position = if hole { SeekFrom::Hole(offset) } else { SeekFrom::Data(offset) };
        // This moves the file position, which nothing here uses.
        Ok(rustix::fs::seek(&self.plain, position)?)
    }

    /// Copies bytes to another file of the origin, sharing blocks where the file system can.
    pub fn copy_to(&self, offset: u64, to: &LocalFile, to_offset: u64, length: usize) -> io::Result<usize> {
        let (mut from, mut into) = (offset, to_offset);
        let length = length.min(0x7fff_f000);
        let done =
            rustix::fs::copy_file_range(&self.plain, Some(&mut from), &to.plain, Some(&mut into), length)?;
        self.drop_clean();
        to.written(done as u64);
        Ok(done)
    }

    /// Where on its device the file begins, in bytes, if its file system tells.
    pub fn position(&self) -> Option<u64> {
        pantler_kernel::extent::place(self.plain.as_fd(), 0)
    }

    /// Whether anything was written through this open file.
    pub fn wrote(&self) -> bool {
        self.wrote.load(Ordering::Relaxed)
    }

    /// Waits until everything written is on the device, and takes it out of the page cache.
    /// Failures are left for `sync` to report.
    pub fn write_out_and_drop(&self) {
        let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE
            | libc::SYNC_FILE_RANGE_WRITE
            | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        self.sync_range(all);
        self.drop_clean();
    }

    fn written(&self, count: u64) {
        self.wrote.store(true, Ordering::Relaxed);
        self.unwritten.fetch_add(count, Ordering::Relaxed);
    }

    /// Keeps what is written from piling up in the page cache: may wait for the device. To be
    /// called after writing, without any lock.
    pub fn write_behind(&self) {
        if self.unwritten.load(Ordering::Relaxed) < WRITE_BEHIND_BYTES {
            return;
        }
        self.unwritten.store(0, Ordering::Relaxed);
        // Waits for the piece before and starts on this one: at most two pieces are dirty per
        // writer.
        self.sync_range(libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE);
        self.drop_clean();
    }

    fn sync_range(&self, flags: u32) {
        // SAFETY: takes no pointers. A failure shows again at the next fsync, which reports it.
        unsafe { libc::sync_file_range(self.plain.as_raw_fd(), 0, 0, flags) };
    }

    fn drop_clean(&self) {
        // Advice only: what cannot be dropped stays, and the kernel will deal with it.
        let _ = rustix::fs::fadvise(&self.plain, 0, None, Advice::DontNeed);
    }

    fn past_cache(&self) -> Option<Arc<File>> {
        // The user that opened the file may read it, so the process's own rights are enough. It
        // runs while the thread acts for no user.
        self.direct.get(|| {
            let path = format!("/proc/self/fd/{}", self.plain.as_raw_fd());
            let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
            rustix::fs::open(path, flags, Mode::empty()).map(File::from)
        })
    }

    fn read_plain(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let count = read_whole(&self.plain, offset, buffers)?;
        let length = std::num::NonZeroU64::new(count as u64);
        if length.is_some() {
            let _ = rustix::fs::fadvise(&self.plain, offset, length, Advice::DontNeed);
        }
        Ok(count)
    }
}

impl Source for LocalFile {
    /// For a direct read, buffers must be aligned to and multiples of 4 KiB, and `offset` too; else
    /// the read goes through the page cache.
    fn read_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if buffers.len() > READ_BUFFERS_MAX {
            return Err(Errno::INVAL.into());
        }
        let Some(direct) = self.past_cache() else { return self.read_plain(offset, buffers) };
        match read_whole(&direct, offset, buffers) {
            // The device asks for more alignment than we have: the page cache has none to ask for.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => self.read_plain(offset, buffers),
            result => result,
        }
    }
}

/// Reads until the buffers are full or the file ends: a short count alone does not mean the end.
fn read_whole(file: &File, offset: u64, mut buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    let mut done = 0;
    while !buffers.is_empty() {
        match retry_on_intr(|| rustix::io::preadv(file, buffers, offset + done as u64)) {
            Ok(0) => break,
            Ok(count) => {
                done += count;
                IoSliceMut::advance_slices(&mut buffers, count);
            }
            // The rest of a direct read begins where the file ended, which need not be aligned.
            Err(Errno::INVAL) if done > 0 => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Directory;

    #[test]
    fn writing_does_not_wait_for_the_device_and_writing_behind_does() {
        let folder = tempfile::tempdir().unwrap();
        let root = Directory::open(folder.path()).unwrap().root().unwrap();
        let (_, file) = root.create("f".as_ref(), 0o600, OpenMode::WRITE, true).unwrap();
        let bytes = vec![1; WRITE_BEHIND_BYTES as usize];
        assert_eq!(file.write_at(0, &bytes, false).unwrap(), bytes.len());
        assert_eq!(file.unwritten.load(Ordering::Relaxed), WRITE_BEHIND_BYTES);
        file.write_behind();
        assert_eq!(file.unwritten.load(Ordering::Relaxed), 0);
    }
}
