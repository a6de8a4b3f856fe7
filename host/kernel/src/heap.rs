//! The heap that a program's own tables and buffers come from: how much it holds on to of what was
//! given back.

/// Allocations of this size and above are mapped apart, and unmapped when they are given back. The
/// library raises the bound with the first of them that is given back, and then keeps what large
/// buffers leave free; setting it ends that.
const MAPPED_BYTES_MIN: i32 = 128 << 10;

/// Lets at most a few threads have heaps of their own, and gives back large allocations at once.
/// Where bytes are read by one thread and dropped by another every thread's heap grows to its own
/// peak. To be called before threads are started; returns whether the C library heeds it.
///
/// ```
/// assert_eq!(pantler_kernel::heap::hold_little(2), cfg!(target_env = "gnu"));
/// ```
pub fn hold_little(heaps: u32) -> bool {
    set(heaps.clamp(1, 1 << 16) as i32)
}

/// Gives back what is free now, such as memory that only a start takes. Returns whether the C
/// library heeds it.
///
/// ```
/// assert_eq!(pantler_kernel::heap::give_back(), cfg!(target_env = "gnu"));
/// ```
pub fn give_back() -> bool {
    #[cfg(target_env = "gnu")]
    // SAFETY: `malloc_trim` takes the allocator's own locks, and touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
    cfg!(target_env = "gnu")
}

#[cfg(target_env = "gnu")]
fn set(heaps: i32) -> bool {
    // SAFETY: `mallopt` reads its two integers, and takes the allocator's own lock while it sets
    // them.
    let results = unsafe {
        [libc::mallopt(libc::M_ARENA_MAX, heaps), libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN)]
    };
    results == [1, 1]
}

#[cfg(not(target_env = "gnu"))]
fn set(_: i32) -> bool {
    false
}
