//! Large memory: huge pages for what is looked at in random order, telling the processor what will
//! be looked at, and files mapped for reading.
//!
//! The only file of this crate with `unsafe`: all are about addresses.
//!
//! **What a mapping takes on trust.** Only prepared traces are mapped: files that this program
//! writes under another name, renames when they are whole, and never changes afterwards. A user
//! that may write to such a file can still change it while it is mapped, as it could change the
//! program itself. Then
//!
//! * other numbers appear: simulations index arrays with them, with bounds checked, so the result
//!   is a panic or a wrong figure, and no memory is touched that is not theirs;
//! * the file gets shorter: the kernel ends the process with SIGBUS at the first touch behind the
//!   new end.
//!
//! Traces of others are never mapped. They are read, which is no slower: every byte is looked at
//! once.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// Below this it makes no difference.
const LARGE_BYTES: usize = 4 << 20;
/// Bytes in a huge page, and what memory is aligned to for this.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Asks for huge pages below memory that is not used yet: a table of millions of entries then
/// misses the processor's translation buffer a tenth as often. Does nothing where the system has
/// none.
pub fn large<T>(unused: &mut [MaybeUninit<T>]) {
    let range = unused.as_mut_ptr_range();
    let (start, end) = (range.start as usize, range.end as usize);
    let (first, last) = (start.next_multiple_of(HUGE_PAGE_BYTES), end / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES);
    if end - start < LARGE_BYTES || first >= last {
        return;
    }
    let pointer = range.start.wrapping_byte_add(first - start);
    // SAFETY: the range lies within `unused`, which is borrowed exclusively, and this advice
    // changes no content. A refusal leaves everything as it was.
    let _ = unsafe { madvise(pointer.cast(), last - first, Advice::LinuxHugepage) };
}

/// Brings the cache line of `slice[index]` nearer. An index out of range does nothing.
#[inline(always)]
pub fn prefetch<T>(slice: &[T], index: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if index < slice.len() {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction, which reads nothing that a program
        // could see; the address lies within the slice.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(slice.as_ptr().add(index).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (slice, index);
}

/// A whole file, mapped for reading.
pub struct Map {
    pointer: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is only read, through references, and it lives until the last one
// is gone.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Maps a file that holds `bytes` bytes.
    pub fn new(file: &File, bytes: usize) -> io::Result<Map> {
        let (protection, flags) = (ProtFlags::READ, MapFlags::PRIVATE);
        // SAFETY: the kernel chooses the address, so nothing that exists is replaced. What the
        // file's owner can do to the content is in the header of this file.
        let pointer = unsafe { mmap(std::ptr::null_mut(), bytes, protection, flags, file, 0)? };
        let pointer = NonNull::new(pointer.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Map { pointer, bytes })
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is that long, readable, and stays until `drop`.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.bytes) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping made in `new`, and no reference into it is left: they
        // borrow `self`.
        let _ = unsafe { munmap(self.pointer.as_ptr().cast(), self.bytes) };
    }
}

/// Numbers of which every pattern of bits is one, without gaps between their bytes.
///
/// # Safety
///
/// That must be so.
pub unsafe trait Plain: Copy + 'static {
    /// Appends them as they stand in files: little-endian.
    fn append(numbers: &[Self], out: &mut Vec<u8>);
}

macro_rules! plain {
    ($($number:ty),*) => {$(
        // SAFETY: unsigned numbers are plain.
        unsafe impl Plain for $number {
            fn append(numbers: &[Self], out: &mut Vec<u8>) {
                out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
            }
        }
    )*};
}
plain!(u16, u32, u64);

/// A column of numbers: in memory, or part of a mapped file.
pub enum Column<T> {
    /// In memory.
    Owned(Vec<T>),
    /// In a file: `start` is its first byte, `length` how many numbers there are.
    Mapped {
        /// The file.
        map: Arc<Map>,
        /// First byte.
        start: usize,
        /// How many numbers.
        length: usize,
    },
}

impl<T: Plain> Column<T> {
    /// A part of a mapped file.
    ///
    /// # Panics
    ///
    /// If the file is too short, or the numbers would not be aligned.
    pub fn mapped(map: &Arc<Map>, start: usize, length: usize) -> Column<T> {
        let bytes = length.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(start));
        assert!(bytes.is_some_and(|end| end <= map.bytes), "{length} numbers at {start}");
        assert!(start.is_multiple_of(align_of::<T>()), "{start} is not aligned");
        Column::Mapped { map: Arc::clone(map), start, length }
    }
}

impl<T: Plain> Deref for Column<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Column::Owned(numbers) => numbers,
            Column::Mapped { map, start, length } => {
                // SAFETY: `mapped` checked that the range is within the mapping and aligned
                // (mappings start at a page); T is plain, so the bytes are numbers whatever they
                // are; the mapping is never written to by us.
                unsafe { std::slice::from_raw_parts(map.pointer.as_ptr().add(*start).cast(), *length) }
            }
        }
    }
}

impl<T> Default for Column<T> {
    fn default() -> Self {
        Column::Owned(Vec::new())
    }
}

impl<T> From<Vec<T>> for Column<T> {
    fn from(numbers: Vec<T>) -> Self {
        Column::Owned(numbers)
    }
}

impl<T: Plain + std::fmt::Debug> std::fmt::Debug for Column<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if matches!(self, Column::Owned(_)) { "in memory" } else { "mapped" };
        write!(f, "{} numbers {kind}", self.len())
    }
}
