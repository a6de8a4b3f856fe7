//! `pantler metrics`: what runs, mounts and a daemon count, as Prometheus reads it.

use anyhow::{Context, Result};
use clap::Args;
use pantler_control::wire::{Answer, Request};
use pantler_control::{BodyKind, BodyStat, Counters, OwnerStat, TierStat};
use pantler_web::Exporter;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use crate::bodies;
use crate::output;
use crate::web::address;

/// Owners of each body with counters of their own.
const OWNERS_MAX: usize = 100;

/// Show counters of runs, mounts and a daemon to Prometheus
///
/// Text of OpenMetrics 1.0: once on standard output, or over HTTP. It has what this user may ask
/// for, as `pantler stat` does. Of each mount or run it has the 100 busiest owners among those that
/// have not ended.
#[derive(Debug, Args)]
pub struct Metrics {
    /// Answer there, at /metrics, until SIGINT or SIGTERM
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    listen: Option<SocketAddr>,
}

/// Shows them once, or to each that asks.
pub fn metrics(words: &Metrics) -> Result<()> {
    let Some(address) = words.listen else { return output::text(&text()) };
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot catch signals")?;
    let exporter = Exporter::start(address, text).map_err(crate::web::refused)?;
    tell!("counters at http://{}/metrics", exporter.address());
    signals.forever().next();
    Ok(())
}

fn text() -> String {
    let (mut text, mut registry) = (String::new(), Registry::with_prefix("pantler"));
    registry.register_collector(Box::new(Told(told())));
    encode(&mut text, &registry).expect("a string takes all that is written");
    text
}

/// What each body says that answers.
fn told() -> Vec<BodyStat> {
    let ask = |mut found: bodies::Found| {
        let request = Request::Stat { on: found.info.name.clone() };
        match found.ask(&request, None) {
            Ok(Answer::Stat(stat)) => Some(*stat),
            // It ended meanwhile.
            _ => None,
        }
    };
    bodies::all().into_iter().filter_map(ask).collect()
}

/// What bodies told.
#[derive(Debug)]
struct Told(Vec<BodyStat>);

/// The labels of one line.
type Labels = Vec<(&'static str, String)>;

/// Counters of bodies and owners: the name behind `pantler_` or `pantler_owner_`, what it is, and
/// where it stands.
type Row<T> = (&'static str, &'static str, fn(&T) -> u64);

const COUNTERS: [Row<Counters>; 8] = [
    ("references", "References to blocks", |counters| counters.references),
    ("hits", "References to blocks that an earlier one brought in or used", |counters| counters.hits),
    ("ahead_used", "First uses of prefetched blocks", |counters| counters.ahead_used),
    ("misses", "References for which a block had to be brought in", |counters| counters.misses),
    ("read_bytes", "Bytes that were read", |counters| counters.read_bytes),
    ("overrules", "Victims that a manager named (L3)", |counters| counters.overrules),
    ("mistakes", "Overrules that were mistakes (L2)", |counters| counters.mistakes),
    ("revocations", "Times that control was taken away (L7)", |counters| counters.revocations),
];

const TIERS: [Row<TierStat>; 6] = [
    ("hits", "Blocks found in a tier", |tier| tier.hits),
    ("misses", "Blocks looked for in a tier in vain", |tier| tier.misses),
    ("read_bytes", "Bytes found in a tier", |tier| tier.read_bytes),
    ("written_bytes", "Bytes that a tier was given", |tier| tier.written_bytes),
    ("dropped", "Blocks that should have come to a tier, and were dropped", |tier| tier.dropped),
    ("failures", "Times that a tier broke", |tier| tier.failures),
];

const TIERS_NOW: [Row<TierStat>; 3] = [
    ("blocks", "Blocks that a tier holds, as far as known", |tier| tier.blocks),
    ("queued_blocks", "Blocks on their way to a tier", |tier| tier.queued),
    ("works", "Whether a tier works: 1 or 0", |tier| tier.works.into()),
];

impl Collector for Told {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let bodies = || self.0.iter().map(|stat| (labels(stat), stat));
        for (name, help, of) in COUNTERS {
            let lines = bodies().map(|(labels, stat)| (labels, of(&stat.totals)));
            counters(&mut encoder, name, help, lines)?;
        }
        let lines = bodies().map(|(labels, stat)| (labels, stat.totals.blocks.into()));
        gauges(&mut encoder, "blocks", "Blocks that are cached", lines)?;
        let lines = bodies().map(|(labels, stat)| (labels, stat.body.capacity_blocks));
        gauges(&mut encoder, "capacity_blocks", "Blocks that may be cached", lines)?;
        let lines = bodies().map(|(labels, stat)| (labels, stat.body.block_bytes.into()));
        gauges(&mut encoder, "block_bytes", "Bytes of a block", lines)?;
        let named = bodies().flat_map(|(labels, stat)| {
            let name = move |(name, &value): (&String, &u64)| (with(&labels, [("name", name)]), value);
            stat.body_counters.iter().map(name)
        });
        gauges(&mut encoder, "body", "What else a body counts, by name (docs/JSON.md)", named)?;
        let owners: Vec<(Labels, Counters)> =
            bodies().flat_map(|(labels, stat)| owners(&labels, stat)).collect();
        let all = || owners.iter().map(|(labels, counters)| (labels.clone(), counters));
        for (name, help, of) in COUNTERS {
            let lines = all().map(|(labels, counted)| (labels, of(counted)));
            counters(&mut encoder, &format!("owner_{name}"), &format!("{help}, by owner"), lines)?;
        }
        let lines = all().map(|(labels, counted)| (labels, counted.blocks.into()));
        gauges(&mut encoder, "owner_blocks", "Blocks that are cached, by owner", lines)?;
        let tiers = || bodies().flat_map(|(labels, stat)| tiers(&labels, stat));
        for (name, help, of) in TIERS {
            let lines = tiers().map(|(labels, tier)| (labels, of(tier)));
            counters(&mut encoder, &format!("tier_{name}"), help, lines)?;
        }
        for (name, help, of) in TIERS_NOW {
            let lines = tiers().map(|(labels, tier)| (labels, of(tier)));
            gauges(&mut encoder, &format!("tier_{name}"), help, lines)?;
        }
        Ok(())
    }
}

/// Which body it is: a run's name may be that of several.
fn labels(stat: &BodyStat) -> Labels {
    let kind = if stat.body.kind == BodyKind::Mount { "mount" } else { "steer" };
    let body = &stat.body;
    vec![("body", body.name.clone()), ("kind", kind.to_owned()), ("pid", body.pid.to_string())]
}

fn with<const N: usize>(labels: &Labels, more: [(&'static str, &str); N]) -> Labels {
    labels.iter().cloned().chain(more.map(|(name, value)| (name, value.to_owned()))).collect()
}

/// Owners that are there still, the busiest; those of one name, user and process are one line.
fn owners(labels: &Labels, stat: &BodyStat) -> Vec<(Labels, Counters)> {
    let mut live: Vec<&OwnerStat> = stat.owners.iter().filter(|owner| owner.live).collect();
    live.sort_by_key(|owner| std::cmp::Reverse(owner.counters.references));
    let number = |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
    let mut lines: BTreeMap<(&str, String, String), Counters> = BTreeMap::new();
    for owner in live.into_iter().take(OWNERS_MAX) {
        let line = lines.entry((&owner.owner, number(owner.uid), number(owner.pid))).or_default();
        *line = *line + owner.counters;
    }
    let line = |((owner, uid, pid), counted): ((&str, String, String), Counters)| {
        (with(labels, [("owner", owner), ("uid", &uid), ("owner_pid", &pid)]), counted)
    };
    lines.into_iter().map(line).collect()
}

fn tiers<'a>(labels: &Labels, stat: &'a BodyStat) -> Vec<(Labels, &'a TierStat)> {
    let line = |(number, tier): (usize, &'a TierStat)| {
        (with(labels, [("tier", &tier.name), ("number", &(number + 1).to_string())]), tier)
    };
    stat.tiers.iter().enumerate().map(line).collect()
}

fn counters(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    lines: impl Iterator<Item = (Labels, u64)>,
) -> fmt::Result {
    lines_of(encoder, name, help, lines.map(|(labels, value)| (labels, ConstCounter::new(value))))
}

fn gauges(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    lines: impl Iterator<Item = (Labels, u64)>,
) -> fmt::Result {
    let value = |value: u64| ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
    lines_of(encoder, name, help, lines.map(|(labels, counted)| (labels, value(counted))))
}

/// A metric with a line for each set of labels; none where there is no line.
fn lines_of<M: EncodeMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    lines: impl Iterator<Item = (Labels, M)>,
) -> fmt::Result {
    let mut lines = lines.peekable();
    let Some((_, first)) = lines.peek() else { return Ok(()) };
    let mut metric: MetricEncoder<'_> =
        encoder.encode_descriptor(name, &format!("{help}."), None, first.metric_type())?;
    for (labels, value) in lines {
        value.encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pantler_control::BodyInfo;

    fn encoded(told: Vec<BodyStat>) -> String {
        let (mut text, mut registry) = (String::new(), Registry::with_prefix("pantler"));
        registry.register_collector(Box::new(Told(told)));
        encode(&mut text, &registry).unwrap();
        text
    }

    fn owner(name: &str, references: u64, live: bool) -> OwnerStat {
        let counters = Counters { references, ..Counters::default() };
        OwnerStat { owner: name.to_owned(), uid: Some(7), live, counters, ..OwnerStat::default() }
    }

    #[test]
    fn a_body_is_told_with_its_owners_and_tiers() {
        let mut stat = BodyStat {
            body: BodyInfo { name: "/m\"\n".into(), pid: 9, block_bytes: 4096, ..BodyInfo::default() },
            owners: vec![owner("a", 5, true), owner("a", 6, true), owner("gone", 9, false)],
            tiers: vec![TierStat { name: "disk".into(), works: true, hits: 3, ..TierStat::default() }],
            ..BodyStat::default()
        };
        stat.totals.references = 20;
        stat.body_counters.insert("events_lost".into(), 2);
        let text = encoded(vec![stat]);
        let body = r#"body="/m\"\n",kind="steer",pid="9""#;
        for line in [
            format!("pantler_references_total{{{body}}} 20"),
            format!("pantler_block_bytes{{{body}}} 4096"),
            format!("pantler_body{{{body},name=\"events_lost\"}} 2"),
            format!("pantler_owner_references_total{{{body},owner=\"a\",uid=\"7\",owner_pid=\"\"}} 11"),
            format!("pantler_tier_hits_total{{{body},tier=\"disk\",number=\"1\"}} 3"),
            format!("pantler_tier_works{{{body},tier=\"disk\",number=\"1\"}} 1"),
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line} in {text}");
        }
        assert!(!text.contains("gone") && text.ends_with("# EOF\n"), "{text}");
    }

    #[test]
    fn nothing_and_too_many_owners_are_told() {
        assert_eq!(encoded(Vec::new()), "# EOF\n");
        let owners = (0..1000).map(|number| owner(&format!("o{number}"), number, true)).collect();
        let text = encoded(vec![BodyStat { owners, ..BodyStat::default() }]);
        let lines = text.lines().filter(|line| line.starts_with("pantler_owner_references_total{"));
        assert_eq!(lines.clone().count(), OWNERS_MAX);
        assert!(lines.clone().any(|line| line.ends_with(" 999")), "the busiest is there");
    }
}
