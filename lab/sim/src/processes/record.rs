//! What a run of processes is printed as: the contract of `docs/JSON.md`.

use serde::Serialize;

use super::machine::MachineOptions;
use super::outcome::{ProcessOutcome, ProcessesOutcome};
use super::scene::Scene;
use crate::record::{LookedRecord, VERSION, by_name};

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
    pub looked_ahead: LookedRecord,
    /// By process.
    #[serde(serialize_with = "by_name")]
    pub processes: Vec<(String, ProcessOutcome)>,
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

impl ProcessesRecord {
    /// The record of one run. `scene`, `disk` and `lists` as they were given.
    pub fn new(
        [scene, disk, lists]: [&str; 3],
        ran: &Scene,
        options: &MachineOptions,
        outcome: &ProcessesOutcome,
    ) -> Self {
        let found = outcome.prefetched;
        let processes = outcome.processes.iter().map(|process| (process.name.clone(), process.clone()));
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
            fetches: outcome.sum(|process| process.fetches.iter().sum()),
            prefetched: found.prefetched,
            used: found.used,
            used_late: found.used_late,
            wasted: found.wasted,
            looked_ahead: outcome.looked.into(),
            processes: processes.collect(),
            scene: scene.to_owned(),
            footprint: ran.footprint(),
            disk: disk.to_owned(),
            lists: lists.to_owned(),
            lookahead: options.lookahead.to_string(),
            version: VERSION,
            kind: "sim-processes",
        }
    }
}
