//! Opening, reading and closing files, and how many reads may wait for the origin at a time.
//!
//! There is one service thread more than slots, so that reads of cached blocks never wait.
//!
//! W1  A read takes a slot when one is free. With none free it is served at once if it need not
//!     wait, or queued.
//! W2  Nothing is queued while a slot is free: the thread that gives a slot back serves what was
//!     queued first, in its order.
//! W3  After a request panicked nothing is queued any more, and what was is removed, which answers
//!     it with an error.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::{FileHandle, FopenFlags, ReplyData, Request};
use pantler_cache::Request as Wanted;
use pantler_origin::{OpenFile, OpenMode};
use pantler_steward::OwnerId;

use crate::content::Content;
use crate::core::Core;
use crate::descriptors::Charge;
use crate::errno::errno;
use crate::handles::{DoneWith, OpenedFile, Read};
use crate::inodes::HeldNode;
use crate::lists::{Listing, source_of};

/// Direct: every read reaches the cache, which is the only one. Shared mappings work nevertheless,
/// by `FUSE_DIRECT_IO_ALLOW_MMAP`.
const DIRECT: FopenFlags = FopenFlags::FOPEN_DIRECT_IO;

/// How often the rest of an answer is read, of a file that has another size each time.
const READS_MAX: u32 = 16;

/// Among the flags of an opened file: it is opened to be run. Programs cannot set it: `open` takes
/// it away, and `openat2` refuses it.
const FMODE_EXEC: i32 = 0x20;

impl Core {
    /// How the kernel is to serve an open file. It keeps pages where they are lent, also from one
    /// open to the next. A file that is being written goes past them: an acknowledged write is in
    /// no page (M2 of `pages`), and the kernel would read up to the size that it was told last. So
    /// does one with blocks that are done with once they are read: of pages it would not be seen
    /// whether they are. A program whose control group has little memory would pay for pages, and
    /// lose them to its own limit.
    ///
    /// Closing a file reports errors of writing, so of one that is only read nothing is asked then.
    pub(crate) fn open_flags(&self, request: &Request, handle: FileHandle) -> FopenFlags {
        // Without this flag the kernel would drop what it has.
        let keep = if self.lends() { FopenFlags::FOPEN_KEEP_CACHE } else { FopenFlags::empty() };
        let Ok(file) = self.files.get(handle.0) else { return DIRECT | keep };
        let writes = file.file.mode().writes();
        let close = if writes { FopenFlags::empty() } else { FopenFlags::FOPEN_NOFLUSH };
        let is_cached = self.lends()
            && !file.content.is_written()
            && file.done_with.is_none()
            && !self.is_cramped(request);
        let direct = if is_cached { FopenFlags::empty() } else { DIRECT };
        direct | close | keep
    }

    pub(crate) fn open(&self, request: &Request, number: u64, flags: i32) -> io::Result<FileHandle> {
        let inode = self.inodes.get(number)?;
        let mode = OpenMode::from_flags(flags);
        if mode.writes() || mode.truncates() {
            self.may_change()?;
        }
        let content = Arc::clone(inode.content()?);
        let charge = || self.descriptors.take(request.uid());
        let (node, held) = inode.open(charge)?;
        let charges = (charge()?, held);
        let file = {
            let open = || {
                let acting = self.act(request, 0)?;
                if flags & FMODE_EXEC != 0 {
                    node.check_executable()?;
                    // The kernel reads the program, not the user: the host opens it by its rights.
                    drop(acting);
                }
                node.open(mode)
            };
            if mode.truncates() {
                let stat = || node.attributes();
                self.noticing_permissions(number, stat, |stat| {
                    content.change(&self.shelf, stat, open, |_, file, before, after| {
                        self.cache().resized(file, before, after);
                    })
                })?
            } else {
                open()?
            }
        };
        content.look(&self.shelf, number, &file)?;
        self.introduce(request);
        let lists = self.programs.lists();
        let listed = |put: &dyn Fn(OwnerId, &Listing<'_>)| {
            let caller = &self.caller_of(request);
            put(self.owner(request), &Listing { caller, inode: &inode, file: &file });
        };
        if lists.is_recording() {
            listed(&|owner, opened| lists.note_open(owner, opened));
        }
        let rule = self.programs.apply_rule(|| self.owner(request), || self.path(&inode), &content);
        if rule.is_sequential {
            listed(&|owner, opened| lists.read_ahead(owner, opened));
        }
        Ok(self.keep((number, content), file, flags, rule.done_with, charges))
    }

    /// Gives an open file the number by which the kernel names it.
    pub(crate) fn keep(
        &self,
        (number, content): (u64, Arc<Content>),
        file: OpenFile,
        flags: i32,
        done_with: Option<i32>,
        charges: (Charge, Option<Arc<HeldNode>>),
    ) -> FileHandle {
        let file = Arc::new(file);
        let source = source_of(Arc::clone(&file), self.options.interpose.as_ref());
        let append = flags & libc::O_APPEND != 0;
        let done_with = done_with.map(|priority| DoneWith { priority, progress: Mutex::default() });
        let writing = file.mode().writes().then(|| content.writing());
        let handle = OpenedFile { number, content, file, source, append, done_with, writing, charges };
        let number = self.files.insert(handle);
        self.watch_reads();
        FileHandle(number)
    }

    pub(crate) fn read(
        &self,
        request: &Request,
        handle: u64,
        (offset, length): (u64, u32),
        is_for_pages: bool,
        reply: ReplyData,
    ) {
        let handle = match self.files.get(handle) {
            Ok(handle) => handle,
            Err(error) => return reply.error(errno(error)),
        };
        let owner = self.programs.reader_of(request.pid(), request.uid());
        let read = Read { owner, handle, offset, length: length as usize, is_for_pages, reply };
        match self.limiter.begin(read, |read| self.would_wait(read)) {
            Admission::AtOnce(read) => self.serve(read),
            Admission::Queued => {}
            Admission::Slot(read) => {
                let mut next = Some(read);
                while let Some(read) = next {
                    self.serve(read);
                    next = self.limiter.end();
                }
            }
        }
    }

    /// Whether a read has to wait for a block. That may change before it is served: then the thread
    /// beyond the slots waits, too.
    fn would_wait(&self, read: &Read) -> bool {
        let content = &read.handle.content;
        let end = read.offset.saturating_add(read.length as u64).min(content.size());
        self.cache().held(content.file(), read.offset, end) < end.saturating_sub(read.offset)
    }

    fn serve(&self, read: Read) {
        if read.is_for_pages {
            return self.serve_pages(read);
        }
        let Read { owner, handle, offset, length, reply, .. } = read;
        let mut reply = Some(reply);
        let result = self.read_with(owner, &handle, (offset, length), false, |bytes| {
            if let Some(reply) = reply.take() {
                reply.data(bytes);
            }
        });
        if let (Err(error), Some(reply)) = (result, reply) {
            reply.error(errno(error));
        }
    }

    /// A read for pages of the kernel. Where the answer ends the kernel takes the file to end, and
    /// fills the page with zeros: so what can be had before a bad spot is no answer. The kernel
    /// asks for each page again, then.
    fn serve_pages(&self, read: Read) {
        let Read { owner, handle, offset, length, reply, .. } = read;
        let page_read = handle.content.pages.read();
        let (mut answer, mut begun) = (Some((reply, page_read)), Vec::new());
        let result = self.read_with(owner, &handle, (offset, length), true, |bytes| {
            if bytes.len() < length && offset + (bytes.len() as u64) < handle.content.size() {
                begun = bytes.to_vec();
            } else if let Some((reply, page_read)) = answer.take() {
                page_read.done(offset, length);
                reply.data(bytes);
            }
        });
        let Some((reply, page_read)) = answer else { return };
        match result.and_then(|()| self.read_on(owner, &handle, (offset, length), begun)) {
            Ok(bytes) => {
                page_read.done(offset, length);
                reply.data(&bytes);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    /// The rest of an answer: less than was asked for only where the file ends by now.
    fn read_on(
        &self,
        owner: OwnerId,
        handle: &OpenedFile,
        (offset, length): (u64, usize),
        mut bytes: Vec<u8>,
    ) -> io::Result<Vec<u8>> {
        for _ in 0..READS_MAX {
            // It may have another size than when the read began.
            handle.content.look(&self.shelf, handle.number, &handle.file)?;
            let rest = (offset + bytes.len() as u64, length - bytes.len());
            if rest.1 == 0 || rest.0 >= handle.content.size() {
                return Ok(bytes);
            }
            self.read_with(owner, handle, rest, true, |more| bytes.extend_from_slice(more))?;
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }

    fn read_with(
        &self,
        owner: OwnerId,
        handle: &OpenedFile,
        (offset, length): (u64, usize),
        is_for_pages: bool,
        use_bytes: impl FnOnce(&[u8]),
    ) -> io::Result<()> {
        let content = &handle.content;
        content.refresh(&self.shelf, handle.number, &handle.file)?;
        self.catch_up();
        let wanted = Wanted {
            owner,
            file: content.file(),
            offset,
            length,
            size: content.size(),
            source: &handle.source,
            kernel: (is_for_pages && self.lends()).then_some(handle.number),
        };
        self.cache().read(&wanted, |bytes| {
            // Before the answer: its reader may ask what became of the block.
            if let Some(done_with) = &handle.done_with {
                self.programs.note_read(&wanted, done_with, bytes.len());
            }
            use_bytes(bytes);
        })
    }

    pub(crate) fn release(&self, handle: u64) {
        let handle = self.files.remove(handle);
        if let Some(handle) = handle.filter(|handle| handle.file.wrote()) {
            self.programs.write_out_and_drop(Arc::clone(&handle.file));
        }
    }
}

/// The slots, and the reads that wait for one.
pub(crate) struct Limiter<R> {
    slots: usize,
    state: Mutex<State<R>>,
}

struct State<R> {
    taken: usize,
    queue: VecDeque<R>,
    is_broken: bool,
}

/// What becomes of a read.
#[derive(Debug, PartialEq, Eq)]
enum Admission<R> {
    /// It has a slot, which must be [given back](Limiter::end).
    Slot(R),
    /// It needs none.
    AtOnce(R),
    /// A thread that gives a slot back serves it.
    Queued,
}

impl<R> Limiter<R> {
    pub(crate) fn new(slots: usize) -> Self {
        let state = State { taken: 0, queue: VecDeque::new(), is_broken: false };
        Self { slots, state: Mutex::new(state) }
    }

    /// Begins a read; `would_wait` is asked only if there is no slot (W1).
    fn begin(&self, read: R, would_wait: impl FnOnce(&R) -> bool) -> Admission<R> {
        let is_free = self.lock().take(self.slots);
        if is_free {
            return Admission::Slot(read);
        }
        if !would_wait(&read) {
            return Admission::AtOnce(read);
        }
        let mut state = self.lock();
        // One may have ended meanwhile (W2).
        if state.take(self.slots) {
            return Admission::Slot(read);
        }
        if !state.is_broken {
            state.queue.push_back(read);
        }
        Admission::Queued
    }

    /// Gives a slot back, or goes on with it for a read that was queued (W2).
    fn end(&self) -> Option<R> {
        let mut state = self.lock();
        let next = state.queue.pop_front();
        if next.is_none() {
            state.taken -= 1;
        }
        next
    }

    /// W3.
    pub(crate) fn break_off(&self) {
        let mut state = self.lock();
        state.is_broken = true;
        let dropped = std::mem::take(&mut state.queue);
        drop(state);
        drop(dropped);
    }

    fn lock(&self) -> MutexGuard<'_, State<R>> {
        // Nothing panics under it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R> State<R> {
    fn take(&mut self, slots: usize) -> bool {
        let is_free = self.taken < slots;
        self.taken += usize::from(is_free);
        is_free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_turn_only_who_would_wait_is_queue_and_those_come_in_their_order() {
        let limiter = Limiter::new(2);
        let never_asked = |_: &_| panic!("there is a slot");
        assert_eq!(limiter.begin('a', never_asked), Admission::Slot('a'));
        assert_eq!(limiter.begin('b', never_asked), Admission::Slot('b'));
        assert_eq!(limiter.begin('c', |_| true), Admission::Queued);
        assert_eq!(limiter.begin('d', |_| false), Admission::AtOnce('d'));
        assert_eq!(limiter.begin('e', |_| true), Admission::Queued);
        assert_eq!(
            [limiter.end(), limiter.end(), limiter.end(), limiter.end()],
            [Some('c'), Some('e'), None, None]
        );
        assert_eq!(limiter.begin('f', never_asked), Admission::Slot('f'));
    }

    #[test]
    fn a_slot_that_comes_back_while_a_read_is_looked_at_is_taken() {
        let limiter = Limiter::new(1);
        assert_eq!(limiter.begin(1, |_| true), Admission::Slot(1));
        let ends = |_: &_| {
            assert_eq!(limiter.end(), None);
            true
        };
        assert_eq!(limiter.begin(2, ends), Admission::Slot(2));
        assert_eq!(limiter.end(), None);
    }

    #[test]
    fn after_a_panic_nothing_is_queue() {
        let limiter = Limiter::new(1);
        let read = Arc::new(());
        assert!(matches!(limiter.begin(read.clone(), |_| true), Admission::Slot(_)));
        assert!(matches!(limiter.begin(read.clone(), |_| true), Admission::Queued));
        assert_eq!(Arc::strong_count(&read), 2);
        limiter.break_off();
        assert_eq!(Arc::strong_count(&read), 1);
        assert!(matches!(limiter.begin(read.clone(), |_| true), Admission::Queued));
        assert_eq!(Arc::strong_count(&read), 1);
    }
}
