//! What a steered trace came to, beside the kernel alone.

use pantler_policy::Spec;
use serde::Serialize;

use super::machine::Machine;
use crate::record::VERSION;
use crate::report::{aligned, grouped, percent};

const BLOCK_BYTES: u32 = 4096;

/// How a trace is steered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SteerSettings {
    /// Policy of the run.
    pub policy: Spec,
    /// The order in which the kernel evicts.
    pub kernel: Spec,
    /// The file system has no large folios.
    pub small_folios: bool,
    /// Budget in blocks.
    pub budget: u32,
    /// Seed of what is drawn.
    pub seed: u64,
}

/// One run, steered and by the kernel alone. Blocks are 4 KiB.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SteerRecord {
    /// The trace.
    pub trace: String,
    /// `steer`.
    pub body: &'static str,
    /// The policy of the run.
    pub policy: String,
    /// The order in which the kernel evicts.
    pub kernel: String,
    /// The file system has no large folios.
    pub small_folios: bool,
    /// The budget in blocks.
    pub size: u32,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// References of the trace.
    pub references: u64,
    /// Blocks read from the device with steering, read-ahead included.
    pub device_reads: u64,
    /// Blocks read from the device by the kernel alone with the budget as its limit.
    pub kernel_device_reads: u64,
    /// Those of `device_reads` that our read-ahead asked for.
    pub read_ahead: u64,
    /// Blocks that the steward evicted.
    pub drops: u64,
    /// Blocks that left the page cache for it.
    pub dropped: u64,
    /// Blocks that the kernel kept when they were to be dropped.
    pub drops_refused: u64,
    /// Blocks that were evicted and used again before they were dropped.
    pub rescued: u64,
    /// Most blocks at once that were believed to be cached.
    pub resident_peak: u64,
    /// 1.
    pub version: u32,
    /// `sim-steer`.
    pub kind: &'static str,
}

impl SteerRecord {
    pub(super) fn new(
        references: u64,
        settings: SteerSettings,
        machine: &Machine,
        kernel_device_reads: u64,
    ) -> SteerRecord {
        let counters = machine.engine().counters();
        SteerRecord {
            trace: String::new(),
            body: "steer",
            policy: settings.policy.to_string(),
            kernel: settings.kernel.to_string(),
            small_folios: settings.small_folios,
            size: settings.budget,
            block_bytes: BLOCK_BYTES,
            references,
            device_reads: machine.kernel().device_reads(),
            kernel_device_reads,
            read_ahead: counters.read_ahead,
            drops: counters.drops,
            dropped: counters.dropped,
            drops_refused: counters.drops_refused,
            rescued: counters.rescued,
            resident_peak: counters.resident_peak,
            version: VERSION,
            kind: "sim-steer",
        }
    }
}

/// All runs, trace by trace.
pub fn steer_table(records: &[SteerRecord]) -> String {
    const NAMES: &str =
        "policy,size,references,device reads,kernel alone,saved,read ahead,drops,refused,peak";
    let mut text = String::new();
    for records in records.chunk_by(|one, other| one.trace == other.trace) {
        if !text.is_empty() {
            text.push('\n');
        }
        text += &format!("{}, steered, in blocks of {} bytes\n", records[0].trace, records[0].block_bytes);
        let mut lines = vec![NAMES.split(',').map(str::to_owned).collect()];
        lines.extend(records.iter().map(line));
        text += &aligned(&lines);
    }
    text
}

fn line(record: &SteerRecord) -> Vec<String> {
    let alone = record.kernel_device_reads.max(1) as f64;
    vec![
        record.policy.clone(),
        grouped(record.size.into()),
        grouped(record.references),
        grouped(record.device_reads),
        grouped(record.kernel_device_reads),
        percent(1.0 - record.device_reads as f64 / alone),
        grouped(record.read_ahead),
        grouped(record.drops),
        grouped(record.drops_refused),
        grouped(record.resident_peak),
    ]
}
