//! The kernel's `filemap` tracepoints as a stream of [`Event`]s in order of time.
//!
//! ```text
//!   per_cpu/cpu0/trace_pipe_raw  ->  page  ->  layout  \
//!   per_cpu/cpu1/trace_pipe_raw  ->  page  ->  layout  -+->  merge by time  ->  Event
//! ```
//!
//! [`page`] walks one page of the ring buffer, [`mod@format`] finds the fields of an event,
//! [`instance`] owns a tracefs instance, [`feed`] reads all CPUs of some instances and merges them.

pub mod feed;
pub mod format;
pub mod instance;
pub mod page;

/// What happened to a range of the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A buffered read looked at these pages, hit or miss. Comes after the pages of a miss were
    /// added.
    Read,
    /// One folio entered the page cache.
    Add,
    /// One folio left it.
    Delete,
    /// A page fault on a mapped file looked for one page. Comes before the page of a miss is added.
    Fault,
    /// Pages around a fault were mapped at once.
    Map,
}

impl Kind {
    /// All kinds, in the order of their tracepoints below.
    pub const ALL: [Kind; 5] = [Kind::Read, Kind::Add, Kind::Delete, Kind::Fault, Kind::Map];

    /// The kinds that tell of references, hits among them.
    pub const REFERENCES: [Kind; 3] = [Kind::Read, Kind::Fault, Kind::Map];

    /// The tracepoint in the group `filemap`.
    pub fn tracepoint(self) -> &'static str {
        match self {
            Kind::Read => "mm_filemap_get_pages",
            Kind::Add => "mm_filemap_add_to_page_cache",
            Kind::Delete => "mm_filemap_delete_from_page_cache",
            Kind::Fault => "mm_filemap_fault",
            Kind::Map => "mm_filemap_map_pages",
        }
    }
}

/// One event of one tracepoint.
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
    /// First page, in pages of 4 KiB from the start of the file.
    pub first: u64,
    /// Last page, inclusive.
    pub last: u64,
}
