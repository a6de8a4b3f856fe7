//! What is said of prefetching by threads holds where workers use io_uring, also of sources that
//! are no files.

#[path = "prefetch.rs"]
mod by_ring;
