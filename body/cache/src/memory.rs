//! Memory for blocks: addresses, cut into buffers of one block each; which are free, and which of
//! their pages have memory.
//!
//! There are more buffers than memory where blocks are cut into pages: a buffer takes memory by the
//! page, when the page is first written to, until the page is [given back](Slab::give_back). What a
//! block does not hold goes back, but not before memory is short: full blocks that replace full
//! blocks cost no call.
//!
//! M1  A page is written only by the thread that brings its bytes: no slot says yet that it holds
//!     them, so that no reader looks at the page.
//! M2  A buffer with users is never handed out again. The count goes up only under the lock of the
//!     frames; it goes down anywhere.
//! N1  A buffer below `fresh` is in `free`, in `bare`, in `retired`, or in use. One in `free` or
//!     `bare` is idle.
//! N2  `backed` has the pages that may have memory, and `backed_pages` is their sum. Buffers in
//!     `bare` have none.
//! N3  Above `pages_max` no buffer is in `free`.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::pages::{Cut, Pages};

/// Buffers, by number.
pub(crate) struct Slab {
    /// All buffers, then their counts of users.
    memory: NonNull<u8>,
    length: usize,
    buffers: usize,
    block_bytes: usize,
}

// SAFETY: the memory belongs to the slab for its life, and M1 and M2 say which thread may touch
// which part of it.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

impl Slab {
    pub(crate) fn new(buffers: usize, block_bytes: usize) -> io::Result<Self> {
        let length = buffers.checked_mul(block_bytes + size_of::<AtomicU32>()).filter(|&length| length > 0);
        let length = length.ok_or(io::ErrorKind::OutOfMemory)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: asks for fresh memory anywhere; nothing existing is touched.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(memory.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { memory, length, buffers, block_bytes })
    }

    /// From now on each page takes memory for itself: the system does not back pages beside it that
    /// hold nothing.
    pub(crate) fn back_by_page(&self) {
        // SAFETY: the mapping is this slab's. Where the kernel has no huge pages it refuses, and
        // there is nothing to do.
        unsafe { libc::madvise(self.memory.as_ptr().cast(), self.length, libc::MADV_NOHUGEPAGE) };
    }

    /// The memory of a range of a buffer, from one page to another, goes back to the system. Pages
    /// of a block are at least as large as the kernel's: it takes whole ones, also where a range
    /// ends within one.
    ///
    /// # Safety
    /// No slot says that these pages hold anything, and no thread brings them (M1).
    pub(crate) unsafe fn give_back(&self, buffer: u32, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.block_bytes, "M1: {range:?} is no part");
        // SAFETY: the range lies in the buffer; the caller keeps readers and writers away. Without
        // success the memory stays where it is.
        unsafe {
            let start = self.start(buffer).add(range.start);
            libc::madvise(start.cast(), range.len(), libc::MADV_DONTNEED);
        }
    }

    pub(crate) fn buffers(&self) -> u32 {
        self.buffers as u32
    }

    fn users(&self, buffer: u32) -> &AtomicU32 {
        assert!((buffer as usize) < self.buffers, "M1: there is no buffer {buffer}");
        // SAFETY: the counts stand behind the last buffer, which ends at a multiple of 4096 bytes,
        // and begin as zeros. Nothing else is made of that memory.
        unsafe {
            let counts = self.memory.as_ptr().add(self.buffers * self.block_bytes).cast::<AtomicU32>();
            &*counts.add(buffer as usize)
        }
    }

    pub(crate) fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Whether the buffer is neither read nor filled. Sees everything that former users did.
    pub(crate) fn is_idle(&self, buffer: u32) -> bool {
        self.users(buffer).load(Ordering::Acquire) == 0
    }

    /// Becomes a user. Only under the lock of the frames (M2).
    pub(crate) fn enter(&self, buffer: u32) {
        self.users(buffer).fetch_add(1, Ordering::Relaxed);
    }

    /// Stops being a user.
    pub(crate) fn leave(&self, buffer: u32) {
        let before = self.users(buffer).fetch_sub(1, Ordering::Release);
        assert!(before > 0, "M2: buffer {buffer} had no users");
    }

    /// The bytes in a range of `count` buffers side by side, to read.
    ///
    /// # Safety
    /// The caller is a user of all these buffers, and no thread writes to the range for the life of
    /// the slice (M1).
    pub(crate) unsafe fn bytes(&self, buffer: u32, count: u32, range: Range<usize>) -> &[u8] {
        assert!(
            count > 0 && buffer + count <= self.buffers(),
            "M1: there are no {count} buffers at {buffer}"
        );
        assert!(range.start <= range.end && range.end <= count as usize * self.block_bytes, "M1: {range:?}");
        // SAFETY: the range lies within the mapping, which lives as long as `self`; the caller
        // keeps writers away.
        unsafe { std::slice::from_raw_parts(self.start(buffer).add(range.start), range.len()) }
    }

    /// The bytes of a buffer, to write.
    ///
    /// # Safety
    /// The caller brings all of its pages (M1).
    #[allow(clippy::mut_from_ref, reason = "exclusive by M1, not by borrowing")]
    pub(crate) unsafe fn bytes_mut(&self, buffer: u32) -> &mut [u8] {
        // SAFETY: as the caller says.
        unsafe { self.part_mut(buffer, 0..self.block_bytes) }
    }

    /// The bytes in a range of a buffer, to write.
    ///
    /// # Safety
    /// The caller brings all pages of the range (M1).
    #[allow(clippy::mut_from_ref, reason = "exclusive by M1, not by borrowing")]
    pub(crate) unsafe fn part_mut(&self, buffer: u32, range: Range<usize>) -> &mut [u8] {
        assert!(range.start <= range.end && range.end <= self.block_bytes, "M1: {range:?} is no part");
        // SAFETY: as for `bytes`; the caller keeps all others away.
        unsafe { std::slice::from_raw_parts_mut(self.start(buffer).add(range.start), range.len()) }
    }

    fn start(&self, buffer: u32) -> *mut u8 {
        assert!((buffer as usize) < self.buffers, "M1: there is no buffer {buffer}");
        // SAFETY: the product is below the length of the mapping, checked above.
        unsafe { self.memory.as_ptr().add(buffer as usize * self.block_bytes) }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length, and no slice outlives `self`.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.length) };
    }
}

/// Which buffers are free. Behind the lock of the frames.
pub(crate) struct Buffers {
    cut: Cut,
    /// Idle buffers that have memory, the last used at the back.
    free: VecDeque<u32>,
    /// Idle buffers without memory.
    bare: Vec<u32>,
    /// Buffers of blocks that left while the buffers had users.
    retired: Vec<u32>,
    /// Buffers that were never used, from here on.
    fresh: u32,
    backed: Vec<Pages>,
    backed_pages: u64,
    pages_max: u64,
}

impl Buffers {
    /// No buffer is in use. `pages_max` pages have memory at a time, and more only while they are
    /// all in use.
    pub(crate) fn new(cut: Cut, pages_max: u64) -> Self {
        Self {
            cut,
            free: VecDeque::new(),
            bare: Vec::new(),
            retired: Vec::new(),
            fresh: 0,
            backed: Vec::new(),
            backed_pages: 0,
            pages_max,
        }
    }

    /// Whether there is a buffer to [take](Self::take).
    pub(crate) fn has_idle(&self, slab: &Slab) -> bool {
        !(self.free.is_empty() && self.bare.is_empty())
            || self.fresh < slab.buffers()
            || self.retired.iter().any(|&buffer| slab.is_idle(buffer))
    }

    /// Takes an idle buffer. `None` while all are in use.
    pub(crate) fn take(&mut self, slab: &Slab) -> Option<u32> {
        if let Some(buffer) = self.free.pop_back() {
            return Some(buffer);
        }
        if let Some(index) = self.retired.iter().position(|&buffer| slab.is_idle(buffer)) {
            return Some(self.retired.swap_remove(index));
        }
        if let Some(buffer) = self.bare.pop() {
            return Some(buffer);
        }
        if self.fresh == slab.buffers() {
            return None;
        }
        self.fresh += 1;
        self.backed.push(Pages::NONE);
        Some(self.fresh - 1)
    }

    /// A buffer that was taken is in no slot any more. It may still have users.
    pub(crate) fn put_back(&mut self, buffer: u32, slab: &Slab) {
        if !slab.is_idle(buffer) {
            self.retired.push(buffer);
        } else if self.backed[buffer as usize].is_empty() {
            self.bare.push(buffer);
        } else {
            self.free.push_back(buffer);
            self.shrink(slab);
        }
    }

    /// A buffer in use needs memory for these pages, and for no others. What is behind the others
    /// goes back first when memory is short.
    pub(crate) fn back(&mut self, buffer: u32, pages: Pages, slab: &Slab) {
        let backed = &mut self.backed[buffer as usize];
        self.backed_pages += u64::from((pages & !*backed).count());
        *backed = *backed | pages;
        if self.backed_pages > self.pages_max {
            self.keep_only(buffer, pages, slab);
            self.shrink(slab);
        }
    }

    /// Free buffers give their memory back while memory is short, the longest unused first.
    fn shrink(&mut self, slab: &Slab) {
        while self.backed_pages > self.pages_max
            && let Some(buffer) = self.free.pop_front()
        {
            self.keep_only(buffer, Pages::NONE, slab);
            self.bare.push(buffer);
        }
    }

    fn keep_only(&mut self, buffer: u32, pages: Pages, slab: &Slab) {
        let backed = &mut self.backed[buffer as usize];
        let mut rest = *backed & !pages;
        self.backed_pages -= u64::from(rest.count());
        *backed = *backed & pages;
        while let Some(run) = rest.first_run() {
            // SAFETY: the buffer is free, or its slot holds `pages` at most.
            unsafe { slab.give_back(buffer, self.cut.bytes(&run)) };
            rest = rest & !Pages::range(run);
        }
    }

    /// Recomputes what must hold. `used` says of each buffer whether a slot has it, and which pages
    /// the slot holds.
    pub(crate) fn validate(&self, used: &[Option<Pages>]) {
        let mut places: Vec<u8> = used.iter().map(|used| u8::from(used.is_some())).collect();
        for &buffer in self.free.iter().chain(&self.bare).chain(&self.retired) {
            places[buffer as usize] += 1;
        }
        for (buffer, &count) in places.iter().enumerate() {
            let expected = u8::from((buffer as u32) < self.fresh);
            assert_eq!(count, expected, "N1: buffer {buffer} has {count} places");
        }
        let sum: u64 = self.backed.iter().map(|pages| u64::from(pages.count())).sum();
        assert_eq!(sum, self.backed_pages, "N2");
        for (buffer, pages) in used.iter().enumerate().filter_map(|(buffer, used)| Some((buffer, (*used)?))) {
            assert!((pages & !self.backed[buffer]).is_empty(), "N2: buffer {buffer}");
        }
        assert!(self.bare.iter().all(|&buffer| self.backed[buffer as usize].is_empty()), "N2: bare");
        assert!(self.backed_pages <= self.pages_max || self.free.is_empty(), "N3");
    }
}
