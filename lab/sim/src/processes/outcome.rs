//! What a run of processes came to.

use pantler_steward::lists::Prefetched;
use serde::Serialize;

/// A read that a disk served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRead {
    /// Which disk.
    pub disk: usize,
    /// When it began.
    pub began_ns: u64,
    /// The first block there.
    pub position: u64,
    /// How many blocks.
    pub count: u32,
}

/// All processes together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessesOutcome {
    /// Until the last process ended.
    pub elapsed_ns: u64,
    /// In which at least one disk was at work.
    pub disk_busy_ns: u64,
    /// What became of blocks from lists.
    pub prefetched: Prefetched,
    /// What became of blocks that were looked ahead.
    pub looked: Prefetched,
    /// What the disks served, in that order, if [wanted](super::MachineOptions::log_reads).
    pub reads: Vec<DiskRead>,
    /// By process, in the order of the programs.
    pub processes: Vec<ProcessOutcome>,
}

/// One process. Times are nanoseconds of virtual time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessOutcome {
    /// What it is called.
    #[serde(skip)]
    pub name: String,
    /// Until it ended.
    pub elapsed_ns: u64,
    /// In which it computed.
    pub compute_ns: u64,
    /// In which it waited for a block.
    pub stall_ns: u64,
    /// In which it computed while a disk was at work.
    pub overlap_ns: u64,
    /// References to blocks.
    pub references: u64,
    /// Those that found the block there.
    pub hits: u64,
    /// Those that found it on its way.
    pub late: u64,
    /// Blocks that were fetched for it: demanded, from its lists, by lookahead.
    pub fetches: [u64; 3],
    /// Lists of its that were void because its references were others.
    pub lists_discarded: u64,
}

impl ProcessesOutcome {
    /// A figure of all processes.
    pub fn sum(&self, of: impl Fn(&ProcessOutcome) -> u64) -> u64 {
        self.processes.iter().map(of).sum()
    }
}
