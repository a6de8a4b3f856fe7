//! Large memory: huge pages for what is looked at in random order, and telling the processor what
//! will be looked at.
//!
//! The only file of this crate with `unsafe`: all are about addresses.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use rustix::mm::{Advice, madvise};

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
