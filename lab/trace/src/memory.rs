//! Large memory: huge pages for what is looked at in random order.
//!
//! The only file of this crate with `unsafe`: it is about addresses.

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
