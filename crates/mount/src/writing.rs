//! Changing the content of files. Every change is in the origin, and the cache agrees with it, before it is
//! acknowledged (V1).

use std::io;
use std::sync::Arc;

use fuser::Request;
use pantler_origin::{Attributes, Changes};

use crate::core::Core;
use crate::handles::Handle;

impl Core {
    /// Writes `data`. `is_mapped` says that it comes from a mapped page and not from a call.
    pub(crate) fn write(
        &self,
        request: &Request,
        handle: u64,
        offset: u64,
        data: &[u8],
        is_mapped: bool,
    ) -> io::Result<u32> {
        let handle = self.files.get(handle)?;
        let owner = self.owner(request);
        let append = handle.append && !is_mapped;
        let write = || {
            // The kernel writes mapped pages back when it likes, in nobody's name; who opened the file had the right.
            let _acting = if is_mapped { None } else { Some(self.act(request, 0)?) };
            handle.file.write_at(offset, data, append)
        };
        let length = data.len() as u64;
        let written = self.change(&handle, write, |result, file, before, after| match result {
            // Somebody else appended at the same time: what is where is not known.
            Ok(count) if append && after != offset + *count as u64 => {
                self.cache().void(file, before.min(offset), u64::MAX);
            }
            Ok(count) => self.cache().written(owner, file, offset, &data[..*count], before),
            Err(_) => {
                self.cache().void(file, offset, length);
                self.cache().resized(file, before, after);
            }
        })?;
        // Not under the file's lock: looks at the file would wait for the device, and what changes behind the mount meanwhile
        // would be taken for part of this write.
        handle.file.write_behind();
        Ok(written as u32)
    }

    pub(crate) fn allocate(
        &self,
        request: &Request,
        handle: u64,
        (offset, length): (u64, u64),
        mode: u32,
    ) -> io::Result<()> {
        let handle = self.files.get(handle)?;
        let allocate = || {
            let _acting = self.act(request, 0)?;
            handle.file.allocate(mode, offset, length)
        };
        // Collapsing and inserting ranges move everything that follows.
        let moves = mode as i32 & (libc::FALLOC_FL_COLLAPSE_RANGE | libc::FALLOC_FL_INSERT_RANGE) != 0;
        let touched = if moves { u64::MAX } else { length };
        self.change(&handle, allocate, |_, file, before, after| {
            self.cache().void(file, offset, touched);
            self.cache().resized(file, before, after);
        })
    }

    pub(crate) fn copy(
        &self,
        request: &Request,
        (from, from_offset): (u64, u64),
        (to, to_offset): (u64, u64),
        length: u64,
    ) -> io::Result<u32> {
        let (from, to) = (self.files.get(from)?, self.files.get(to)?);
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(u32::MAX as usize & !4095);
        let copy = || {
            let _acting = self.act(request, 0)?;
            from.file.copy_to(from_offset, &to.file, to_offset, length)
        };
        let copied = self.change(&to, copy, |result, file, before, after| {
            let touched = result.as_ref().map_or(length, |count| *count);
            self.cache().void(file, to_offset, touched as u64);
            self.cache().resized(file, before, after);
        })?;
        to.file.write_behind();
        Ok(copied as u32)
    }

    /// Changes attributes. The size is content, and so is whatever changes the version.
    pub(crate) fn set_attributes(
        &self,
        request: &Request,
        number: u64,
        handle: Option<u64>,
        changes: &Changes,
    ) -> io::Result<Attributes> {
        let inode = self.inodes.get(number)?;
        let handle = handle.and_then(|handle| self.files.get(handle).ok());
        let change = || {
            let _acting = self.act(request, 0)?;
            let open = handle.as_ref().filter(|handle| handle.file.mode().writes());
            inode.node.change(changes, open.map(|handle| &*handle.file))
        };
        match inode.content() {
            Ok(content) => {
                let stat = || inode.node.attributes();
                content.change(&self.shelf, stat, change, |_, file, before, after| {
                    self.cache().resized(file, before, after);
                })?;
            }
            Err(_) => change()?,
        }
        inode.node.attributes()
    }

    pub(crate) fn sync(&self, handle: u64, data_only: bool) -> io::Result<()> {
        self.files.get(handle)?.file.sync(data_only)
    }

    pub(crate) fn flush(&self, handle: u64) -> io::Result<()> {
        let handle = self.files.get(handle)?;
        if handle.file.wrote() { handle.file.flush() } else { Ok(()) }
    }

    pub(crate) fn seek(&self, handle: u64, offset: i64, whence: i32) -> io::Result<i64> {
        let handle = self.files.get(handle)?;
        let is_hole = match whence {
            libc::SEEK_DATA => false,
            libc::SEEK_HOLE => true,
            _ => return Err(io::Error::from_raw_os_error(libc::EINVAL)),
        };
        let offset = u64::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::ENXIO))?;
        Ok(handle.file.seek(offset, is_hole)? as i64)
    }

    fn change<R>(
        &self,
        handle: &Arc<Handle>,
        change: impl FnOnce() -> io::Result<R>,
        agree: impl FnOnce(&io::Result<R>, pantler_steward::FileId, u64, u64),
    ) -> io::Result<R> {
        handle.content.change(&self.shelf, || handle.file.attributes(), change, agree)
    }
}
