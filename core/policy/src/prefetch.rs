//! Telling the processor what will be read soon. The only unsafe code of this crate.

/// Brings the cache line of `slice[index]` nearer. An index out of range does nothing.
///
/// Random references to an array that does not fit the second-level cache cost tens of nanoseconds
/// each; a caller that knows its next references 16 ahead hides them. An early ordinary load would
/// do, too, but it occupies a register and cannot retire before its line has come.
#[inline(always)]
#[allow(unsafe_code, reason = "the instruction is offered as an unsafe function only")]
pub fn prefetch<T>(slice: &[T], index: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if let Some(item) = slice.get(index) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 processor has the instruction, which reads nothing a program could
        // see; the address is that of a live reference.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(item).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = (slice, index);
}
