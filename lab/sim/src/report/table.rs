//! Results as text: hit ratios of policies by size, and what happened to owners.
//!
//! ```text
//!   OLTP.lis: 914,145 requests, 186,880 blocks
//!     size   share     lru     arc
//!    1,869   1.00%  41.96%  45.71%
//! ```

use std::collections::BTreeMap;

use super::{grouped, percent};
use crate::record::{About, Record};

/// All results, trace by trace.
pub fn table(records: &[Record]) -> String {
    let mut text = String::new();
    let mut traces: Vec<&str> = Vec::new();
    for record in records {
        if !traces.contains(&record.trace.as_str()) {
            traces.push(&record.trace);
        }
    }
    for trace in traces {
        let (policies, sharings): (Vec<&Record>, Vec<&Record>) =
            records.iter().filter(|record| record.trace == trace).partition(|record| record.policy.is_some());
        if !text.is_empty() {
            text.push('\n');
        }
        let first = policies.first().or(sharings.first()).expect("a record has this trace");
        text += &heading(trace, first.counts.requests, 1, &first.about);
        if !policies.is_empty() {
            text += &aligned(&ratios(&policies));
            text += &owners_of_policies(&policies);
        }
        if !sharings.is_empty() {
            text += &aligned(&sharers(&sharings));
        }
    }
    text
}

/// What was run over which trace.
pub(crate) fn heading(trace: &str, requests: u64, clients: u16, about: &About) -> String {
    let blocks =
        if about.unit == "object" { "objects".to_owned() } else { format!("blocks ({})", about.unit) };
    let (requests, footprint) = (grouped(requests), grouped(about.footprint.into()));
    let mut text = format!("{trace}: {requests} requests, {footprint} {blocks}");
    if clients > 1 {
        text += &format!(", {clients} clients");
    }
    if about.warm_up > 0 {
        text += &format!(", after {} to warm up", grouped(about.warm_up));
    }
    text + "\n"
}

/// Hit ratios: a row per size, a column per policy.
fn ratios(records: &[&Record]) -> Vec<Vec<String>> {
    let mut policies: Vec<&str> = Vec::new();
    let mut rows: BTreeMap<u32, BTreeMap<usize, &Record>> = BTreeMap::new();
    for record in records {
        let column = policies.iter().position(|policy| *policy == record.shown).unwrap_or_else(|| {
            policies.push(&record.shown);
            policies.len() - 1
        });
        rows.entry(record.size).or_default().insert(column, record);
    }
    let by_bytes =
        records.iter().any(|record| record.byte_hit_ratio.is_some_and(|ratio| ratio != record.hit_ratio));
    let mut header = vec!["size".to_owned(), "share".to_owned()];
    for policy in &policies {
        header.push((*policy).to_owned());
        if by_bytes {
            header.push("bytes".to_owned());
        }
    }
    let mut lines = vec![header];
    for (size, cells) in rows {
        let footprint = f64::from(records[0].about.footprint.max(1));
        let mut line = vec![grouped(size.into()), percent(f64::from(size) / footprint)];
        for column in 0..policies.len() {
            let record = cells.get(&column);
            line.push(record.map(|record| percent(record.hit_ratio)).unwrap_or_default());
            if by_bytes {
                line.push(record.and_then(|record| record.byte_hit_ratio).map(percent).unwrap_or_default());
            }
        }
        lines.push(line);
    }
    lines
}

/// Hit ratios of owners: a row per policy and size, a column per owner.
fn owners_of_policies(records: &[&Record]) -> String {
    let Some(first) = records.iter().find(|record| record.owners.len() > 1) else { return String::new() };
    let mut lines = vec![vec!["size".to_owned(), "policy".to_owned()]];
    lines[0].extend(first.owners.iter().map(|(name, _)| name.clone()));
    for record in records {
        let mut line = vec![grouped(record.size.into()), record.shown.clone()];
        line.extend(record.owners.iter().map(|(_, owner)| percent(owner.counts.hit_ratio())));
        lines.push(line);
    }
    format!("by owner\n{}", aligned(&lines))
}

/// What happened to owners that share: a row each.
fn sharers(records: &[&Record]) -> Vec<Vec<String>> {
    let names = ["size", "allocation", "owner", "requests", "misses", "hits", "overrules", "mistakes"];
    let mut lines = vec![names.map(str::to_owned).to_vec()];
    for record in records {
        for (name, owner) in &record.owners {
            lines.push(vec![
                grouped(record.size.into()),
                record.shown.clone(),
                name.clone(),
                grouped(owner.counts.requests),
                grouped(owner.counts.misses),
                percent(owner.counts.hit_ratio()),
                grouped(owner.overrules.unwrap_or_default()),
                grouped(owner.mistakes.unwrap_or_default()),
            ]);
        }
    }
    lines
}

/// Columns as wide as their widest cell, to the right, with two spaces between.
pub(crate) fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).map(|(cell, &width)| format!("{cell:>width$}"));
        text += &format!("  {}\n", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}
