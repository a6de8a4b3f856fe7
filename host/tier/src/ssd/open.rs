//! Opening the file of an SSD tier: ours alone, and never another's.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FallocateFlags, OFlags, SeekFrom};
use rustix::io::Errno;

use super::layout::{HEADER_BYTES, Header, Layout, SUPER_BYTES};
use crate::TierError;

/// Name of the file in a directory.
const NAME: &str = "pantler.tier";

/// The open, locked file with that layout, where it is, and what was made for it. A file of another
/// layout begins anew, empty. If the tier cannot be, files made for it are deleted.
pub(super) fn open(path: &Path, bytes: u64, layout: &Layout) -> Result<(File, PathBuf, Made), TierError> {
    check_room(path, bytes)?;
    let mut made = Made::default();
    let at = place(path, &mut made)?;
    let fail = |error| TierError::File { path: at.clone(), error };
    let file = open_file(&at, &mut made).map_err(fail)?;
    // Dropped before the file is, which is locked until then.
    let mut made = made;
    let metadata = file.metadata().map_err(fail)?;
    let refuse = |why: &str| Err(fail(io::Error::other(why.to_owned())));
    if !metadata.is_file() {
        return refuse("expected a directory or a regular file");
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() || metadata.mode() & 0o077 != 0 {
        return refuse("expected a file of this user that no other may touch (chmod 0600)");
    }
    match lock(&file) {
        Ok(true) => {}
        Ok(false) => {
            made.stays = true;
            return refuse("another mount uses it");
        }
        Err(error) => return Err(fail(error)),
    }
    // Its maker failed, and took it away again, between our opening it and locking it.
    if file.metadata().map_err(fail)?.nlink() == 0 {
        return refuse("it was removed a moment ago; try again");
    }
    let mut start = Vec::new();
    (&file).take(32).read_to_end(&mut start).map_err(fail)?;
    if !start.is_empty() && !Layout::is_ours(&start) && !is_blank(&file, metadata.len()).map_err(fail)? {
        return refuse("something else is in it");
    }
    if start != layout.encode() {
        // Nothing of the old layout must be taken for something of the new one.
        file.set_len(0).map_err(fail)?;
        file.write_all_at(&layout.encode(), 0).map_err(fail)?;
        // The file must be marked as ours before there is anything in it, whenever power fails.
        file.sync_all().map_err(fail)?;
    }
    // D4.
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, layout.file_bytes()) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            let bytes = file.metadata().map_err(fail)?.len();
            file.set_len(bytes.max(layout.file_bytes())).map_err(fail)?;
        }
        reserved => reserved.map_err(|error| fail(error.into()))?,
    }
    made.stays = true;
    Ok((file, at, made))
}

/// What was made on the way to a tier, and goes again unless it is told to stay.
#[derive(Default)]
pub(super) struct Made {
    file: Option<PathBuf>,
    folder: Option<PathBuf>,
    stays: bool,
}

impl Made {
    /// It goes after all. The file must still be locked: then no other process has begun to use it.
    pub(super) fn unmake(&mut self) {
        // Why there is no tier has been said; a folder in which there is something by now stays.
        let _ = self.file.take().map(std::fs::remove_file);
        let _ = self.folder.take().map(std::fs::remove_dir);
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if !self.stays {
            self.unmake();
        }
    }
}

fn open_file(at: &Path, made: &mut Made) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let flags = OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::NONBLOCK;
    options.read(true).write(true).mode(0o600).custom_flags(flags.bits() as i32);
    match options.clone().create_new(true).open(at) {
        Ok(file) => {
            made.file = Some(at.to_owned());
            Ok(file)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.open(at),
        Err(error) => Err(error),
    }
}

/// Whether nothing was written yet: so a crash or a full disk leaves a file that was about to
/// become one of ours. A file that merely begins with zeros, as images of disks do, is in use.
fn is_blank(file: &File, length: u64) -> io::Result<bool> {
    match rustix::fs::seek(file, SeekFrom::Data(0)) {
        Err(Errno::NXIO) => return Ok(true),
        // Zeros that were written, or not every file system knows its holes.
        Ok(_) | Err(Errno::INVAL) => {}
        Err(error) => return Err(error.into()),
    }
    if length > SUPER_BYTES {
        return Ok(false);
    }
    rustix::fs::seek(file, SeekFrom::Start(0))?;
    let mut all = Vec::new();
    file.take(length).read_to_end(&mut all)?;
    Ok(all.iter().all(|&byte| byte == 0))
}

/// What headers say. Those that make no sense say nothing.
pub(super) fn headers(file: &File, layout: &Layout) -> io::Result<Vec<Option<Header>>> {
    let mut table = vec![0; layout.slots as usize * HEADER_BYTES];
    file.read_exact_at(&mut table, layout.header_at(0))?;
    Ok(table.chunks(HEADER_BYTES).map(|bytes| Header::decode(bytes, layout.slot_bytes)).collect())
}

/// A child of this process that has not become its program yet holds what this process held: that
/// takes a moment.
fn lock(file: &File) -> io::Result<bool> {
    for _ in 0..20 {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(false)
}

/// The file of a tier in `path`, there or not.
pub(crate) fn file_in(path: &Path) -> PathBuf {
    if path.is_file() { path.to_owned() } else { path.join(NAME) }
}

fn place(path: &Path, made: &mut Made) -> Result<PathBuf, TierError> {
    let fail = |error| TierError::File { path: path.to_owned(), error };
    match path.symlink_metadata() {
        Ok(found) if found.is_file() => return Ok(path.to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Only itself: a path that was mistyped makes no folders.
            DirBuilder::new().mode(0o700).create(path).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    fail(io::Error::new(error.kind(), "the folder above it is not there: make it first"))
                }
                _ => fail(error),
            })?;
            made.folder = Some(path.to_owned());
        }
        Err(error) => return Err(fail(error)),
    }
    Ok(path.join(NAME))
}

/// The file may use what it has, and what is free.
fn check_room(path: &Path, bytes: u64) -> Result<(), TierError> {
    let has = file_in(path).symlink_metadata().map_or(0, |found| found.blocks() * 512);
    let there =
        path.ancestors().map(|place| if place.as_os_str().is_empty() { Path::new(".") } else { place });
    // A user that may not ask is not refused: the system decides when the file is made.
    let Some(stat) = there.filter_map(|place| rustix::fs::statvfs(place).ok()).next() else { return Ok(()) };
    let free = has.saturating_add(stat.f_bavail.saturating_mul(stat.f_frsize));
    if bytes > free { Err(TierError::Space { path: path.to_owned(), bytes, free }) } else { Ok(()) }
}
