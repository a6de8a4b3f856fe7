//! What the kernel did to the page cache, as a watcher tells it.

use pantler_steward::OwnerId;

/// One file, as events name it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey {
    /// Device of the super block, `major << 20 | minor`.
    pub dev: u32,
    /// Inode.
    pub ino: u64,
}

/// What happened to a range of the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A buffered read looked at these pages, hit or miss. Comes after the pages of a miss were
    /// added.
    Read,
    /// One folio entered the page cache.
    Added,
    /// One folio left it.
    Gone,
    /// A page fault on a mapped file looked for one page. Comes before the page of a miss is added.
    Fault,
    /// Pages around a fault were mapped at once.
    Mapped,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 5] = [Kind::Read, Kind::Added, Kind::Gone, Kind::Fault, Kind::Mapped];

    /// The kinds that tell of references, hits among them.
    pub const REFERENCES: [Kind; 3] = [Kind::Read, Kind::Fault, Kind::Mapped];
}

/// In which program it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// In a thread of the run.
    Run {
        /// The thread.
        thread: u32,
        /// The owner to which it belongs.
        owner: OwnerId,
    },
    /// In another program.
    Outside,
}

/// One event. Events come in order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When, in nanoseconds of the clock that the rounds use too.
    pub time_ns: u64,
    /// What happened.
    pub kind: Kind,
    /// In which program.
    pub origin: Origin,
    /// To which file.
    pub file: FileKey,
    /// First block, from the start of the file.
    pub first: u64,
    /// Last block, inclusive.
    pub last: u64,
}
