//! The kernel's requests, each handed to its function.
//!
//! Why so: docs/decisions/0002-fuse-crate.md.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use pantler_origin::{Attributes, Changes};

use crate::attributes::{device_from_kernel, time, to_kernel};
use crate::core::Core;
use crate::errno::errno;
use crate::naming::Entered;
use crate::writing::Changed;

/// Largest request: what the kernel allows, and what one reply buffer has to hold.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Features asked of the kernel where it has them: the first group is needed for right answers, the
/// second for speed.
const CAPABILITIES: &[InitFlags] = &[
    InitFlags::FUSE_ATOMIC_O_TRUNC,
    InitFlags::FUSE_AUTO_INVAL_DATA,
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    InitFlags::FUSE_DONT_MASK,
    InitFlags::FUSE_POSIX_ACL,
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_CACHE_SYMLINKS,
];

/// Bytes that the kernel reads around a fault of a mapping, and ahead of what goes on. It knows
/// nothing of the blocks in the cache, and asks for them again; and what it reads in vain where it
/// keeps the pages takes frames: docs/decisions/0088-mappings-read-little-around-faults.md.
const AROUND_FAULT_BYTES: u32 = 32 << 10;

/// Listings with attributes.
const LISTING_CAPABILITIES: &[InitFlags] =
    &[InitFlags::FUSE_DO_READDIRPLUS, InitFlags::FUSE_READDIRPLUS_AUTO];

/// Gives what a result has, or its error.
macro_rules! answer {
    ($result:expr, $reply:ident, $value:pat => $give:expr) => {
        match $result {
            Ok($value) => $give,
            Err(error) => $reply.error(errno(error)),
        }
    };
}

/// The file system that fuser drives.
pub(crate) struct Served(pub(crate) Arc<Core>);

/// What requests share, while one is served. A request that panics is answered with `EIO`, because
/// its reply is dropped; the mount then ends, because nothing that was under way in it can be
/// trusted any more.
#[derive(derive_more::Deref)]
struct Serving<'a>(#[deref(forward)] &'a Core);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.set_broken();
            self.0.limiter.break_off();
        }
    }
}

impl Served {
    fn core(&self) -> Serving<'_> {
        Serving(&self.0)
    }

    fn enter(&self, entered: io::Result<Entered>, reply: ReplyEntry) {
        answer!(entered, reply, (inode, attributes) => {
            reply.entry(&self.core().ttl(), &self.core().shown(&attributes, inode.number), Generation(0));
        });
    }

    fn attributes(&self, result: io::Result<Attributes>, number: INodeNo, reply: ReplyAttr) {
        answer!(result, reply, attributes => {
            reply.attr(&self.core().ttl(), &self.core().shown(&attributes, number.0));
        });
    }

    fn written(&self, result: Changed<u32>, reply: ReplyWrite) {
        answer!(result, reply, (count, unseen) => {
            self.core().page_dropper.answer(unseen, move || reply.written(count));
        });
    }
}

fn empty(result: io::Result<()>, reply: ReplyEmpty) {
    answer!(result, reply, () => reply.ok());
}

fn bytes(result: io::Result<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match result {
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(fuser::Errno::ERANGE),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(errno(error)),
    }
}

impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // The nearest value that the kernel takes comes back as error.
        if let Err(nearest) = config.set_max_write(REQUEST_BYTES_MAX) {
            let _ = config.set_max_write(nearest);
        }
        let options = &self.core().options;
        // Of a block that the kernel keeps no part is kept here: it is to be asked for whole.
        let whole = if options.may_lend() { options.block_bytes as u32 } else { 0 };
        if let Err(nearest) = config.set_max_readahead(whole.max(AROUND_FAULT_BYTES)) {
            let _ = config.set_max_readahead(nearest);
        }
        // Without privileges the host may be allowed to list what it may not search: then names
        // come alone.
        let is_privileged = rustix::process::geteuid().is_root();
        let listing = if is_privileged { LISTING_CAPABILITIES } else { &[] };
        for &capability in CAPABILITIES.iter().chain(listing) {
            if config.add_capabilities(capability).is_err() {
                tracing::info!(?capability, "this kernel does without");
            }
        }
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.enter(self.core().lookup(request, parent.0, name), reply);
    }

    fn forget(&self, _: &Request, number: INodeNo, count: u64) {
        self.core().forget(number.0, count);
    }

    fn getattr(&self, _: &Request, number: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        let looked = self.core().look_at(number.0, handle.map(|handle| handle.0));
        answer!(looked, reply, (inode, attributes) => {
            let core = self.core();
            let (ttl, shown) = (core.ttl(), to_kernel(&attributes, number.0, core.cache().block_bytes()));
            core.answer_up_to_date(&inode, Some(&attributes), move || reply.attr(&ttl, &shown));
        });
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changes = Changes {
            permissions: mode,
            uid,
            gid,
            size,
            accessed: accessed.map(time),
            modified: modified.map(time),
        };
        let handle = handle.map(|handle| handle.0);
        self.attributes(self.core().set_attributes(request, number.0, handle, &changes), number, reply);
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        answer!(self.core().inodes.get(number.0).and_then(|inode| inode.node()?.read_link()), reply, path => {
            reply.data(path.as_encoded_bytes());
        });
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let device = device_from_kernel(device);
        self.enter(
            self.core().make(request, (parent.0, name), umask, |node| node.make(name, mode, device)),
            reply,
        );
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        self.enter(
            self.core().make(request, (parent.0, name), umask, |node| node.make_directory(name, mode)),
            reply,
        );
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let make = |node: &pantler_origin::Node| node.make_symlink(name, target.as_os_str());
        self.enter(self.core().make(request, (parent.0, name), 0, make), reply);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.core().unlink(request, parent.0, name), reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.core().remove_directory(request, parent.0, name), reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        to_parent: INodeNo,
        to_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        empty(self.core().rename(request, (parent.0, name), (to_parent.0, to_name), flags.bits()), reply);
    }

    fn link(&self, request: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.enter(self.core().link(request, number.0, parent.0, name), reply);
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        answer!(self.core().open(request, number.0, flags.0), reply, handle => {
            let (inode, how) = (self.core().inodes.get(number.0), self.core().open_flags(request, handle));
            match inode {
                Ok(inode) => self.core().answer_up_to_date(&inode, None, move || reply.opened(handle, how)),
                Err(_) => reply.opened(handle, how),
            }
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let created = self.core().create(request, parent.0, name, (mode, umask), flags);
        answer!(created, reply, ((inode, attributes), handle) => {
            let attributes = self.core().shown(&attributes, inode.number);
            let how = self.core().open_flags(request, handle);
            reply.created(&self.core().ttl(), &attributes, Generation(0), handle, how);
        });
    }

    fn read(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        // Every call that reads names the files of its process; the kernel's own reads for pages do
        // not.
        let is_for_pages = lock_owner.is_none();
        self.core().read(request, handle.0, (offset, size), is_for_pages, reply);
    }

    fn write(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if flags.contains(WriteFlags::FUSE_WRITE_CACHE) {
            let written = self.core().write_back(request, handle.0, offset, data);
            return self.written(written.map(|count| (count, None)), reply);
        }
        self.written(self.core().write(request, handle.0, offset, data), reply);
    }

    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        empty(self.core().flush(handle.0), reply);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.core().release(handle.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        empty(self.core().sync(handle.0, data_only), reply);
    }

    fn opendir(&self, request: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        answer!(self.core().open_directory(request, number.0), reply, handle => {
            reply.opened(handle, FopenFlags::empty());
        });
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, from: u64, mut reply: ReplyDirectory) {
        answer!(self.core().list(handle.0, from, &mut reply), reply, () => reply.ok());
    }

    fn readdirplus(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        from: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        answer!(self.core().list_plus(request, number.0, handle.0, from, &mut reply), reply, () => {
            reply.ok();
        });
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.core().listings.remove(handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        let listing = self.core().listings.get(handle.0);
        empty(listing.and_then(|listing| listing.look(|entries| entries.sync())), reply);
    }

    fn statfs(&self, _: &Request, number: INodeNo, reply: ReplyStatfs) {
        answer!(self.core().inodes.get(number.0).and_then(|inode| inode.node()?.file_system()), reply, s => {
            reply.statfs(
                s.f_blocks,
                s.f_bfree,
                s.f_bavail,
                s.f_files,
                s.f_ffree,
                s.f_bsize as u32,
                s.f_namemax as u32,
                s.f_frsize as u32,
            );
        });
    }

    fn setxattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        empty(self.core().set_xattr(request, number.0, name, value, flags as u32), reply);
    }

    fn getxattr(&self, request: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        bytes(self.core().xattr(request, number.0, name), size, reply);
    }

    fn listxattr(&self, request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        bytes(self.core().xattr_names(request, number.0), size, reply);
    }

    fn removexattr(&self, request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.core().remove_xattr(request, number.0, name), reply);
    }

    fn ioctl(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        flags: IoctlFlags,
        command: u32,
        data: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        let answer = if flags.contains(IoctlFlags::FUSE_IOCTL_DIR) {
            self.core().ioctl_directory(request, command, data)
        } else {
            self.core().ioctl(request, handle.0, command, data)
        };
        answer!(answer, reply, answer => reply.ioctl(0, &answer));
    }

    fn fallocate(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let allocated = self.core().allocate(request, handle.0, (offset, length), mode as u32);
        answer!(allocated, reply, ((), unseen) => {
            self.core().page_dropper.answer(unseen, move || reply.ok());
        });
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        answer!(self.core().seek(handle.0, offset, whence), reply, offset => reply.offset(offset));
    }

    fn copy_file_range(
        &self,
        request: &Request,
        _: INodeNo,
        from: FileHandle,
        from_offset: u64,
        _: INodeNo,
        to: FileHandle,
        to_offset: u64,
        length: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let copied = self.core().copy(request, (from.0, from_offset), (to.0, to_offset), length);
        self.written(copied, reply);
    }
}
