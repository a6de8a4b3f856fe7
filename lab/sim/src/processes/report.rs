//! Runs of processes as text.
//!
//! ```text
//!   cs1,cs3 on rz56, 819 frames: 16,040 references to 2,869 blocks
//!              configuration    elapsed          computed  stalled  overlapped  fetches  hits  ...
//!                    lru+obl  128.113 s     +0.0%  ...
//!     ac+prefetch+scheduling   71.200 s    -44.4%  ...
//! ```

use super::record::ProcessesRecord;
use crate::outcome::share;
use crate::report::{aligned, grouped, percent};

/// All runs, scene by scene in their order. Elapsed times are compared with the first of a scene.
pub fn processes_table(records: &[ProcessesRecord]) -> String {
    let mut text = String::new();
    let same = |one: &ProcessesRecord, other: &ProcessesRecord| {
        (&one.scene, one.size, &one.disk) == (&other.scene, other.size, &other.disk)
    };
    for records in records.chunk_by(same) {
        let first = &records[0];
        if !text.is_empty() {
            text.push('\n');
        }
        text += &format!(
            "{} on {}, {} frames: {} references to {} blocks\n",
            first.scene,
            first.disk,
            grouped(first.size.into()),
            grouped(first.references),
            grouped(first.footprint),
        );
        text += &aligned(&lines(records));
    }
    text
}

fn lines(records: &[ProcessesRecord]) -> Vec<Vec<String>> {
    const NAMES: &str =
        "configuration,elapsed,,computed,stalled,overlap,fetches,hits,prefetched,used,late,wasted";
    let mut lines = vec![NAMES.split(',').map(str::to_owned).collect()];
    for record in records {
        let mut line = vec![
            record.configuration.clone(),
            seconds(record.elapsed_ns),
            change(records[0].elapsed_ns, record.elapsed_ns),
            seconds(record.compute_ns),
            seconds(record.stall_ns),
            seconds(record.overlap_ns),
            grouped(record.fetches),
            percent(share(record.hits, record.references)),
        ];
        let prefetched = [record.prefetched, record.used, record.used_late, record.wasted];
        line.extend(prefetched.map(grouped));
        lines.push(line);
        if record.processes.len() < 2 {
            continue;
        }
        for (at, (name, process)) in record.processes.iter().enumerate() {
            let before = records[0].processes[at].1.elapsed_ns;
            lines.push(vec![
                name.clone(),
                seconds(process.elapsed_ns),
                change(before, process.elapsed_ns),
                seconds(process.compute_ns),
                seconds(process.stall_ns),
                seconds(process.overlap_ns),
                grouped(process.fetches.iter().sum()),
                percent(share(process.hits, process.references)),
            ]);
        }
    }
    lines
}

/// With three digits behind the point.
fn seconds(time_ns: u64) -> String {
    let milliseconds = time_ns.saturating_add(500_000) / 1_000_000;
    format!("{}.{:03} s", grouped(milliseconds / 1000), milliseconds % 1000)
}

fn change(before_ns: u64, after_ns: u64) -> String {
    if before_ns == 0 {
        return String::new();
    }
    format!("{:+.1}%", 100.0 * (after_ns as f64 / before_ns as f64 - 1.0))
}
