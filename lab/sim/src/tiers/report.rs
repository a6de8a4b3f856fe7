//! Runs over tiers as text.
//!
//! ```text
//!   cs.trace: 6,103 requests, 1,409 objects, after 678 to warm up
//!           sizes  protocol  tier 1  tier 2  tier 3    miss    1>2    2>3    average
//!     140,140,140   uni-lru   1.59%   0.00%   0.00%  98.41% 98.41% 98.41%  11.022 ms
//! ```

use super::localities::LocalityRecord;
use super::record::TiersRecord;
use crate::report::{aligned, grouped, heading, percent};

/// All runs, trace by trace in their order.
pub fn tiers_table(records: &[TiersRecord]) -> String {
    let mut text = String::new();
    for records in records.chunk_by(|one, other| one.trace == other.trace) {
        let first = &records[0];
        text += &heading(&first.trace, first.requests, first.clients, &first.about);
        let tiers = records.iter().map(|record| record.sizes.len()).max().unwrap_or(0);
        text += &aligned(&lines(records, tiers));
    }
    text
}

fn lines(records: &[TiersRecord], tiers: usize) -> Vec<Vec<String>> {
    let mut header = vec!["sizes".to_owned(), "protocol".to_owned()];
    header.extend((1..=tiers).map(|tier| format!("tier {tier}")));
    header.push("miss".to_owned());
    header.extend((1..tiers).map(|tier| format!("{tier}>{}", tier + 1)));
    header.push("average".to_owned());
    let mut lines = vec![header];
    for record in records {
        let sizes: Vec<String> = record.sizes.iter().map(u32::to_string).collect();
        let mut line = vec![sizes.join(","), record.protocol.clone()];
        let cells = |ratios: &[f64], count: usize| -> Vec<String> {
            (0..count).map(|at| ratios.get(at).map_or(String::new(), |&ratio| percent(ratio))).collect()
        };
        line.extend(cells(&record.hit_ratios, tiers));
        line.push(percent(record.miss_ratio));
        line.extend(cells(&record.demotion_rates, tiers - 1));
        line.push(format!("{:.3} ms", record.average_time_ms));
        let width = line.len();
        lines.push(line);
        lines.extend(record.owners.iter().map(|owner| {
            let mut line = vec![String::new(), owner.owner.clone()];
            line.extend(cells(&owner.hit_ratios, tiers));
            line.push(percent(owner.miss_ratio));
            line.resize(width, String::new());
            line
        }));
    }
    lines
}

/// Measures of locality, trace by trace: a line for references to segments, and one for movements
/// across boundaries.
pub fn locality_table(records: &[LocalityRecord]) -> String {
    let mut text = String::new();
    for records in records.chunk_by(|one, other| one.trace == other.trace) {
        let first = &records[0];
        let (requests, footprint) = (grouped(first.requests), grouped(first.footprint.into()));
        text += &format!("{}: {requests} requests, {footprint} blocks\n", first.trace);
        let segments = first.reference_ratios.len();
        let mut header = vec!["measure".to_owned(), String::new()];
        header.extend((1..=segments).map(|segment| segment.to_string()));
        let mut lines = vec![header];
        for record in records {
            let cells = |ratios: &[f64]| ratios.iter().map(|&ratio| percent(ratio)).collect::<Vec<_>>();
            let mut accuracy = vec![record.measure.clone(), "references".to_owned()];
            accuracy.extend(cells(&record.reference_ratios));
            let mut stability = vec![String::new(), "movements".to_owned()];
            stability.extend(cells(&record.movement_ratios));
            lines.extend([accuracy, stability]);
        }
        text += &aligned(&lines);
    }
    text
}
