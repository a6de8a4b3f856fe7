//! The memory of control groups of programs that read: the kernel charges a page to the group of
//! the program for which it was read.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pantler_kernel::memory::Limit;

/// How long it is believed that a thread is in a group, and that this has a limit.
const TRUST: Duration = Duration::from_secs(1);
/// Threads remembered before all are forgotten.
const THREADS_MAX: usize = 4096;

/// Which threads are in small groups.
pub(crate) struct Groups {
    cache_bytes: u64,
    known: Mutex<HashMap<u32, (Instant, bool)>>,
}

impl Groups {
    /// For a cache of this size.
    pub(crate) fn new(cache_bytes: u64) -> Self {
        Self { cache_bytes, known: Mutex::default() }
    }

    /// Whether the groups of a thread have memory for less than twice the cache: a program needs
    /// some, too.
    pub(crate) fn are_small(&self, thread: u32) -> bool {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known().get(&thread).copied();
        if let Some((_, is_small)) = before.filter(|(checked, _)| checked.elapsed() < TRUST) {
            return is_small;
        }
        // Without the lock: others that open a file do not wait for it.
        let limit = Limit::of(thread);
        let is_small = limit.group.is_some() && limit.bytes / 2 < self.cache_bytes;
        let mut known = known();
        if known.len() >= THREADS_MAX {
            known.clear();
        }
        known.insert(thread, (Instant::now(), is_small));
        is_small
    }
}
