//! What the kernel tells of its page cache, as a stream of [`Event`]s in order of time.
//!
//! ```text
//!   per_cpu/cpu0/trace_pipe_raw  ->  page  ->  layout  \
//!   per_cpu/cpu1/trace_pipe_raw  ->  page  ->  layout  -+->  merge by time  ->  Event
//! ```
//!
//! [`page`] walks one page of the ring buffer, [`mod@format`] finds the fields of an event,
//! [`instance`] owns a tracefs instance, [`feed`] reads all CPUs of some instances and merges them.
//! The events are `filemap` tracepoints, or [`probes`] of the run where the kernel has none; and
//! [`calls`] by which programs advise.

pub mod calls;
pub mod error;
pub mod feed;
pub mod format;
pub mod instance;
mod leftovers;
pub mod page;
pub mod probes;
pub mod source;
pub mod trial;
pub mod version;

pub use error::WatchError;
pub use leftovers::clean_leftovers;
pub use pantler_pagecache::{Advice, Kind};
pub use source::{Source, tracepoint};
pub use version::{Kernel, Version};

/// What a record tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// Something happened to pages of a file.
    Pages(Event),
    /// A thread was started by another one.
    Started {
        /// When, as in an [`Event`].
        time_ns: u64,
        /// The thread that started it.
        by: u32,
        /// The new thread.
        thread: u32,
    },
    /// A thread wrote to a page that was clean.
    Written {
        /// When, as in an [`Event`].
        time_ns: u64,
        /// The thread.
        thread: u32,
        /// Inode number of the file; the device is not told.
        ino: u64,
        /// The first page of the folio.
        page: u64,
    },
    /// A thread advised something about a file, and the kernel is about to heed it.
    Advised {
        /// When, as in an [`Event`].
        time_ns: u64,
        /// The thread.
        thread: u32,
        /// The number by which its process has the file open.
        descriptor: i32,
        /// What it advised.
        advice: Advice,
    },
    /// A thread ended.
    Ended {
        /// When, as in an [`Event`].
        time_ns: u64,
        /// The thread.
        thread: u32,
    },
}

impl Told {
    /// When it happened.
    pub fn time_ns(&self) -> u64 {
        match *self {
            Told::Pages(Event { time_ns, .. })
            | Told::Started { time_ns, .. }
            | Told::Written { time_ns, .. }
            | Told::Advised { time_ns, .. }
            | Told::Ended { time_ns, .. } => time_ns,
        }
    }
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds of `CLOCK_MONOTONIC` (the trace clock `mono`).
    pub time_ns: u64,
    /// What happened.
    pub kind: Kind,
    /// Which of the instances of a [`feed::Feed`] saw it.
    pub source: u8,
    /// The thread it happened in.
    pub tid: u32,
    /// Device in the kernel's own encoding, `major << 20 | minor`: the super block's, which for
    /// btrfs is not `st_dev`.
    pub dev: u32,
    /// Inode number.
    pub ino: u64,
    /// First page, from the start of the file.
    pub first: u64,
    /// Last page, inclusive.
    pub last: u64,
}
