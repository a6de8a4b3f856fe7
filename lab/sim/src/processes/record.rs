//! What a run of processes is printed as: the contract of `docs/JSON.md`.

use serde::Serialize;

use super::machine::MachineOptions;
use super::outcome::{ProcessOutcome, ProcessesOutcome};
use super::scene::Scene;
use crate::record::ByName;

/// Version of the objects; the same as of all that the command prints.
const VERSION: u32 = 1;

/// One scene under one configuration. Times are nanoseconds of virtual time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessesRecord {
    /// The configuration by name.
    pub configuration: String,
    /// Frames.
    pub size: u32,
    /// Until the last process ended.
    pub elapsed_ns: u64,
    /// Computed, all processes together.
    pub compute_ns: u64,
    /// Waited for blocks, all processes together.
    pub stall_ns: u64,
    /// Computed while a disk was at work, all processes together.
    pub overlap_ns: u64,
    /// In which a disk was at work.
    pub disk_busy_ns: u64,
    /// References to blocks.
    pub references: u64,
    /// Those that found the block there.
    pub hits: u64,
    /// Blocks read from the disks.
    pub fetches: u64,
    /// Blocks that access lists asked for.
    pub prefetched: u64,
    /// Those that were referenced afterwards.
    pub used: u64,
    /// Those of them that were still on their way then.
    pub used_late: u64,
    /// Those that left before a reference.
    pub wasted: u64,
    /// The same for lookahead.
    pub looked_ahead: LookedAheadRecord,
    /// By process.
    pub processes: ByName<ProcessRecord>,
    /// What ran, as given.
    pub scene: String,
    /// Different blocks that the processes reference.
    pub footprint: u64,
    /// The disks, as given.
    pub disk: String,
    /// What the processes said of their future.
    pub lists: String,
    /// What was looked ahead beside the lists.
    pub lookahead: String,
    version: u32,
    kind: &'static str,
}

/// What became of blocks that were looked ahead.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LookedAheadRecord {
    /// Blocks brought in, those behind the end of a file included.
    pub prefetched: u64,
    /// Those that were referenced afterwards.
    pub used: u64,
    /// Those that left before.
    pub wasted: u64,
}

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ProcessRecord {
    /// Until it ended.
    pub elapsed_ns: u64,
    /// Computed.
    pub compute_ns: u64,
    /// Waited for blocks.
    pub stall_ns: u64,
    /// Computed while a disk was at work.
    pub overlap_ns: u64,
    /// References to blocks.
    pub references: u64,
    /// Those that found the block there.
    pub hits: u64,
    /// Those that found it on its way.
    pub late: u64,
    /// Blocks fetched for it: demanded, from its lists, by lookahead.
    pub fetches: [u64; 3],
    /// Lists that were void because its references were others.
    pub lists_discarded: u64,
}

impl ProcessesRecord {
    /// The record of one run. `scene`, `disk` and `lists` as they were given.
    pub fn new(
        [scene, disk, lists]: [&str; 3],
        ran: &Scene,
        options: &MachineOptions,
        outcome: &ProcessesOutcome,
    ) -> Self {
        let found = outcome.prefetched;
        let looked = outcome.looked;
        let processes = outcome.processes.iter().map(|process| (process.name.clone(), of(process)));
        Self {
            configuration: options.configuration.to_string(),
            size: options.frames,
            elapsed_ns: outcome.elapsed_ns,
            compute_ns: outcome.sum(|process| process.compute_ns),
            stall_ns: outcome.sum(|process| process.stall_ns),
            overlap_ns: outcome.sum(|process| process.overlap_ns),
            disk_busy_ns: outcome.disk_busy_ns,
            references: outcome.sum(|process| process.references),
            hits: outcome.sum(|process| process.hits),
            fetches: outcome.sum(|process| process.fetches.all()),
            prefetched: found.prefetched,
            used: found.used,
            used_late: found.used_late,
            wasted: found.wasted,
            looked_ahead: LookedAheadRecord {
                prefetched: looked.prefetched,
                used: looked.used,
                wasted: looked.wasted,
            },
            processes: ByName(processes.collect()),
            scene: scene.to_owned(),
            footprint: ran.footprint(),
            disk: disk.to_owned(),
            lists: lists.to_owned(),
            lookahead: options.lookahead.to_string(),
            version: VERSION,
            kind: "sim-processes",
        }
    }

    /// One line of JSON.
    ///
    /// # Panics
    ///
    /// Never: the object holds text and numbers.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("text and numbers become JSON")
    }
}

fn of(process: &ProcessOutcome) -> ProcessRecord {
    let fetches = process.fetches;
    ProcessRecord {
        elapsed_ns: process.elapsed_ns,
        compute_ns: process.compute_ns,
        stall_ns: process.stall_ns,
        overlap_ns: process.overlap_ns,
        references: process.references,
        hits: process.hits,
        late: process.late,
        fetches: [fetches.demand, fetches.list, fetches.lookahead],
        lists_discarded: process.lists_discarded,
    }
}
