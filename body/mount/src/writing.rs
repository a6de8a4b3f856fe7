//! Changing the content of files. Every change is in the origin, and the cache agrees with it,
//! before it is acknowledged (V1).

use std::io;
use std::ops::Range;
use std::sync::Arc;

use fuser::Request;
use pantler_origin::{Attributes, Changes};
use pantler_steward::FileId;

use crate::core::Core;
use crate::dropping::Unseen;
use crate::handles::OpenedFile;

/// Nothing of a file.
const NOTHING: Range<u64> = 0..0;

/// What became of a change, and what its acknowledgement has to wait for.
pub(crate) type Changed<R> = io::Result<(R, Option<Unseen>)>;

impl Core {
    /// Writes `data` of a call.
    pub(crate) fn write(&self, request: &Request, handle: u64, offset: u64, data: &[u8]) -> Changed<u32> {
        let handle = self.files.get(handle)?;
        let owner = self.owner(request);
        self.catch_up();
        let append = handle.append;
        let write = || {
            let _acting = self.act(request, 0)?;
            handle.file.local()?.write_at(offset, data, append)
        };
        let length = data.len() as u64;
        let (written, unseen) = self.change(&handle, write, |result, file, before, after| match result {
            // Another program appended at the same time: it is not known which bytes are where.
            Ok(count) if append && after != offset + *count as u64 => {
                self.cache().void(file, before.min(offset), u64::MAX);
                before.min(offset)..u64::MAX
            }
            Ok(count) => {
                self.cache().written(owner, file, offset, &data[..*count], before);
                offset..offset + *count as u64
            }
            Err(_) => {
                self.cache().void(file, offset, length);
                self.cache().resized(file, before, after);
                NOTHING
            }
        })?;
        // Not under the file's lock: looks at the file would wait for the device, and what changes
        // behind the mount meanwhile would be taken for part of this write.
        handle.file.local()?.write_behind();
        Ok((written as u32, unseen))
    }

    /// Writes mapped pages back. The kernel chooses the time and names no user: the right was
    /// checked when the file was opened.
    pub(crate) fn write_back(
        &self,
        request: &Request,
        handle: u64,
        offset: u64,
        data: &[u8],
    ) -> io::Result<u32> {
        let handle = self.files.get(handle)?;
        let owner = self.owner(request);
        self.catch_up();
        // All or nothing: the kernel would not ask again for the rest.
        let write = || {
            let file = handle.file.local()?;
            let pieces = handle.content.pages.to_write(offset, data.len());
            for piece in &pieces {
                let count = file.write_at(offset + piece.start as u64, &data[piece.clone()], false)?;
                if count < piece.len() {
                    return Err(io::Error::from_raw_os_error(libc::ENOSPC));
                }
            }
            Ok(pieces)
        };
        let stat = || handle.file.attributes();
        handle.content.change(&self.shelf, stat, write, |result, file, before, after| match result {
            Ok(pieces) => {
                let mut before = before;
                for piece in pieces {
                    let at = offset + piece.start as u64;
                    self.cache().written(owner, file, at, &data[piece.clone()], before);
                    before = before.max(offset + piece.end as u64);
                }
            }
            Err(_) => {
                self.cache().void(file, offset, data.len() as u64);
                self.cache().resized(file, before, after);
            }
        })?;
        handle.file.local()?.write_behind();
        Ok(data.len() as u32)
    }

    pub(crate) fn allocate(
        &self,
        request: &Request,
        handle: u64,
        (offset, length): (u64, u64),
        mode: u32,
    ) -> Changed<()> {
        let handle = self.files.get(handle)?;
        let allocate = || {
            let _acting = self.act(request, 0)?;
            handle.file.local()?.allocate(mode, offset, length)
        };
        // Collapsing and inserting ranges move everything that follows.
        let moves = mode as i32 & (libc::FALLOC_FL_COLLAPSE_RANGE | libc::FALLOC_FL_INSERT_RANGE) != 0;
        // These two change bytes; the others only where space is.
        let clears = mode as i32 & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) != 0;
        let touched = if moves { u64::MAX } else { length };
        self.change(&handle, allocate, |result, file, before, after| {
            self.cache().void(file, offset, touched);
            self.cache().resized(file, before, after);
            if result.is_ok() && (moves || clears) { offset..offset.saturating_add(touched) } else { NOTHING }
        })
    }

    pub(crate) fn copy(
        &self,
        request: &Request,
        (from, from_offset): (u64, u64),
        (to, to_offset): (u64, u64),
        length: u64,
    ) -> Changed<u32> {
        let (from, to) = (self.files.get(from)?, self.files.get(to)?);
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(u32::MAX as usize & !4095);
        let copy = || {
            let _acting = self.act(request, 0)?;
            from.file.local()?.copy_to(from_offset, to.file.local()?, to_offset, length)
        };
        let (copied, unseen) = self.change(&to, copy, |result, file, before, after| {
            let touched = result.as_ref().map_or(length, |count| *count) as u64;
            self.cache().void(file, to_offset, touched);
            self.cache().resized(file, before, after);
            if result.is_ok() { to_offset..to_offset + touched } else { NOTHING }
        })?;
        to.file.local()?.write_behind();
        Ok((copied as u32, unseen))
    }

    /// Changes attributes. The size is content, and so is whatever changes the version.
    pub(crate) fn set_attributes(
        &self,
        request: &Request,
        number: u64,
        handle: Option<u64>,
        changes: &Changes,
    ) -> io::Result<Attributes> {
        self.may_change()?;
        let inode = self.inodes.get(number)?;
        let node = inode.node()?;
        let handle = handle.and_then(|handle| self.files.get(handle).ok());
        let change = || {
            let _acting = self.act(request, 0)?;
            let open = handle.as_ref().filter(|handle| handle.file.mode().writes());
            let open = open.map(|handle| handle.file.local()).transpose()?;
            node.local()?.change(changes, open)
        };
        match inode.content() {
            Ok(content) => {
                let stat = || node.attributes();
                content.change(&self.shelf, stat, change, |_, file, before, after| {
                    self.cache().resized(file, before, after);
                })?;
            }
            Err(_) => change()?,
        }
        node.attributes()
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

    /// Changes a file otherwise than through a mapping. `agree` says what was changed.
    fn change<R>(
        &self,
        handle: &Arc<OpenedFile>,
        change: impl FnOnce() -> io::Result<R>,
        agree: impl FnOnce(&io::Result<R>, FileId, u64, u64) -> Range<u64>,
    ) -> Changed<R> {
        let (number, content) = (handle.number, &handle.content);
        let _order = content.pages.changing();
        let mut unseen = None;
        let stat = || handle.file.attributes();
        let result = self.noticing_permissions(number, stat, |stat| {
            content.change(&self.shelf, stat, change, |result, file, before, after| {
                let changed = content.pages.remember(agree(result, file, before, after));
                unseen = changed.map(|change| Unseen { number, content: Arc::clone(content), change });
            })
        });
        Ok((result?, unseen))
    }
}
